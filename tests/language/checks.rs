//! The findings of `gimlet gin check` in whole configurations, and cases without findings.

use std::path::Path;

use assert_cmd::Command;

/// The bindings of a fine-tuning of a small T5 that the tests do not state.
const RUN: &str = r#"from __gin__ import dynamic_registration
import __main__ as train_script
import seqio
import my_tasks
from t5x import utils
include "t5x/examples/t5/t5_1_1/small.gin"
include "t5x/configs/runs/finetune.gin"
MIXTURE_OR_TASK_NAME = "lines"
TASK_FEATURE_LENGTHS = {"inputs": 8, "targets": 8}
TRAIN_STEPS = 10
INITIAL_CHECKPOINT_PATH = "/tmp/checkpoint_1"
MODEL_DIR = "/tmp/run"
DROPOUT_RATE = 0.0
"#;

const TASKS: &str = r#"
lines/seqio.TextLineDataSource.split_to_filepattern = {"train": "a.txt", "validation": "b.txt"}
lines/seqio.Feature.vocabulary = @seqio.ByteVocabulary()
lines/seqio.Task:
  source = @seqio.TextLineDataSource()
  preprocessors = [@seqio.preprocessors.tokenize()]
  output_features = {"inputs": @seqio.Feature(), "targets": @seqio.Feature()}
"#;

/// Standard output, then standard error, of `gimlet gin`, run in a folder with the files.
fn gin(files: &[(&str, &str)], words: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).expect("it is writable");
        std::fs::write(path, text).expect("it is writable");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_gimlet"));
    let output =
        command.current_dir(folder.path()).arg("gin").args(words).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("it prints text");
    text(output.stdout) + &text(output.stderr)
}

/// Returns the findings for the run with more lines at its end.
fn run(more: &str) -> String {
    let text = format!("{RUN}{more}");
    gin(&[("run.gin", &text), ("my_tasks.gin", TASKS)], &["check", "run.gin"])
}

#[track_caller]
fn says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "`{part}` is not in:\n{said}");
    }
}

#[track_caller]
fn says_nothing_of(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(!said.contains(part), "`{part}` is in:\n{said}");
    }
}

#[test]
fn a_sound_run_is_without_mistakes() {
    says(&run(""), &["no errors, no warnings"]);
}

#[test]
fn parameters_that_nothing_gives_are_found() {
    let said = gin(
        &[("part.gin", "network.Transformer.config = @network.T5Config()\nT5Config.emb_dim = 8\n")],
        &["check", "--root=network.Transformer", "part.gin"],
    );
    says(&said, &["`T5Config.vocab_size` is required and has no value", "part.gin:1:30"]);
}

#[test]
fn parameters_of_other_projects_that_nothing_gives_are_found() {
    let schema = r#"{"configurables": [
        {"selector": "lib.run", "parameters": [{"name": "model"}, {"name": "flags"}]},
        {"selector": "lib.Model", "parameters": [{"name": "size"}, {"name": "rate", "default": 0}]}
    ]}"#;
    let files = [("lib.json", schema), ("run.gin", "run.model = @Model()\n")];
    let said = gin(&files, &["check", "--schema=lib.json", "--root=run", "run.gin"]);
    says(&said, &["`Model.size` is required and has no value", "run.gin:1:13", "1 error"]);
}

#[test]
fn a_macro_of_a_file_that_nothing_reads_is_probably_misspelled() {
    let said = run("BATCHSIZE = 64\nOTHER = 3\n");
    says(&said, &["macro `BATCHSIZE` is never used", "did you mean `BATCH_SIZE`?", "1 warning"]);
    let both = "EVAL_LENGTHS = {}\nTRAIN_LENGTHS = {}\nutils.DatasetConfig.task_feature_lengths = %TRAIN_LENGTHS\n";
    says_nothing_of(&run(both), &["EVAL_LENGTHS"]);
}

#[test]
fn a_scope_that_nothing_is_bound_in_is_probably_misspelled() {
    let said = run("train_script.train.train_dataset_cfg = @trian/utils.DatasetConfig()\n");
    says(&said, &["nothing is bound in scope `trian`", "did you mean `train/`?"]);
    let sound = "train_script.train.train_dataset_cfg = @my_train/utils.DatasetConfig()\n\
                 my_train/utils.DatasetConfig:\n  mixture_or_task_name = %MIXTURE_OR_TASK_NAME\n  \
                 task_feature_lengths = %TASK_FEATURE_LENGTHS\n  split = 'train'\n  batch_size = 8\n";
    says_nothing_of(&run(sound), &["nothing is bound"]);
}

#[test]
fn tasks_and_splits_that_are_not_declared_are_found() {
    let said = run("MIXTURE_OR_TASK_NAME = 'liens'\n");
    says(&said, &["no task or mixture is named `liens`", "did you mean `lines`?", "run.gin:14:24"]);
    let said = run("train/utils.DatasetConfig.split = 'trian[:10%]'\n");
    says(&said, &["`lines` has no split `trian`", "did you mean `train`?", "run.gin:14:35"]);
    says(&run("train/utils.DatasetConfig.split = 'train[:10%]'\n"), &["no errors"]);
}

#[test]
fn one_syntax_error_does_not_hide_the_wrong_types_of_other_statements() {
    let said = run("X = = 3\ntrain/utils.DatasetConfig.batch_size = 'eight'\n");
    says(&said, &["gin has no `==`", "expected an int", "2 errors"]);
    says_nothing_of(&said, &["is required", "never entered", "read by nothing"]);
}

#[test]
fn a_value_of_the_wrong_type_that_nothing_reads_is_no_mistake() {
    let unread = "INITIAL_CHECKPOINT_PATH = None\nutils.CheckpointConfig.restore = None\n";
    says(&run(unread), &["no errors, 1 warning"]);
    says(&run("INITIAL_CHECKPOINT_PATH = None\n"), &["expected a str", "1 error"]);
}

#[test]
fn an_include_below_what_it_binds_is_told_once() {
    let text = "MODEL_DIR = 'd'\nTRAIN_STEPS = 3\nDROPOUT_RATE = 0.1\n\
                include 't5x/configs/runs/finetune.gin'\n";
    let said = gin(&[("run.gin", text)], &["check", "run.gin"]);
    let first =
        "this include binds again names that are bound above it: `MODEL_DIR`, `TRAIN_STEPS`";
    says(&said, &["error: ", first, "run.gin:4", "move the include above these lines"]);
    says_nothing_of(
        &said,
        &["`MODEL_DIR` is required", "`TRAIN_STEPS` is required", "bound again"],
    );
    let files = [("run.gin", "A = 1\ninclude 'more.gin'\n"), ("more.gin", "A = 2\n")];
    says(&gin(&files, &["check", "run.gin"]), &["warning: this include", "no errors, 1 warning"]);
}

#[test]
fn what_an_import_that_failed_would_have_named_is_told_once() {
    let text = "from __gin__ import dynamic_registration\nfrom t5x import util\n\
                util.DatasetConfig.seed = 1\nutil.DatasetConfig.pack = True\n";
    let said =
        gin(&[("part.gin", text)], &["check", "part.gin", "--gin.util.DatasetConfig.split='a'"]);
    says(
        &said,
        &["no module or task file is named `t5x.util`", "did you mean `t5x.utils`?", "1 error"],
    );
}

#[test]
fn names_of_t5x_that_do_not_exist_come_with_a_remedy() {
    let text = r#"from __gin__ import dynamic_registration
from t5x import losses
from t5x import trainer
from t5x import utils
from t5x.contrib.calm import models
A = @trainer.MetricsManager
utils.TrainStateInitializer.from_scratch.init_rng = 1
"#;
    let words = ["check", "part.gin", "--gin.convert_checkpoint.output_dir='/m'"];
    let said = gin(&[("part.gin", text)], &words);
    says(&said, &["`t5x.trainer.MetricsManager` does not exist here", "docs/logs.md"]);
    says(&said, &["`t5x.utils.TrainStateInitializer.from_scratch` does not exist here"]);
    says(&said, &["`gimlet checkpoint convert FROM TO` does this"]);
    says(&said, &["3 errors"]);
}

#[test]
fn the_import_that_is_proposed_has_the_name() {
    let proposed = |statement: &str| {
        let text = format!("from __gin__ import dynamic_registration\nimport seqio\n{statement}\n");
        gin(&[("part.gin", &text)], &["check", "part.gin"])
    };
    says(&proposed("utils.DatasetConfig.seed = 1"), &["add `from t5x import utils`\n"]);
    says(&proposed("utils.DatasetConfg.seed = 1"), &["add `from t5x import utils`\n"]);
    says(&proposed("network.T5Config.emb_dim = 1"), &["add `from t5x.examples.t5 import network`"]);
}

#[test]
fn the_module_that_is_proposed_may_be_a_task_file() {
    let said =
        |text: &str| gin(&[("part.gin", text), ("my_tasks.gin", TASKS)], &["check", "part.gin"]);
    says(&said("import t5.data.mixture\n"), &["did you mean `t5.data.mixtures`?"]);
    says(&said("import my_task\n"), &["did you mean `my_tasks`?"]);
}

#[test]
fn an_older_import_does_not_resolve_after_a_newer_one_took_its_name() {
    let text = "from __gin__ import dynamic_registration\nfrom t5x import utils\n\
                from t5x import models as utils\nutils.DatasetConfig.seed = 1\n";
    let said = gin(&[("part.gin", text)], &["check", "part.gin"]);
    says(&said, &["module `t5x.models` has no configurable `DatasetConfig`"]);
}

#[test]
fn an_include_may_name_a_package_with_dots() {
    let files = [
        ("run.gin", "include 'pkg.sub/x.gin'\ninclude 't5x.configs/runs/pretrain.gin'\nB = %A\n"),
        ("pkg/sub/x.gin", "A = 2\n"),
    ];
    says(&gin(&files, &["query", "%A", "run.gin", "--gin.MODEL_DIR='a'"]), &["2\n"]);
    says(&gin(&files, &["query", "%BATCH_SIZE", "run.gin"]), &["128\n"]);
}

#[test]
fn a_macro_can_be_asked_for_as_gins_own_configurable() {
    let files = [("a.gin", "W = 3\nA/W = 4\n")];
    let asked = |key| gin(&files, &["query", key, "a.gin"]);
    assert_eq!(asked("W/macro.value"), "3\n");
    assert_eq!(asked("A/W/gin.macro.value"), "4\n");
    says(&asked("Z/macro.value"), &["macro `Z` is not defined"]);
}

/// Tried with gin-config: `-0j` keeps its sign, and a dict has one key for equal numbers.
#[test]
fn complex_numbers_print_so_that_they_read_back() {
    let printed = |value: &str| {
        let text = format!("f.x = {value}\n");
        gin(&[("a.gin", &text)], &["print", "--untyped", "a.gin"])
    };
    for (value, expected) in [
        ("-0j", "f.x = -0j\n"),
        ("-1j", "f.x = -1j\n"),
        ("{0: 1, 0j: 4}", "f.x = {0: 4}\n"),
        ("{0j: 1, -0j: 2}", "f.x = {0j: 2}\n"),
        ("{1: 1, 1j: 2}", "f.x = {1j: 2, 1: 1}\n"),
    ] {
        says(&printed(value), &[expected]);
    }
}

#[test]
fn an_untyped_print_does_not_change_which_of_two_spellings_wins() {
    let printed = |text: &str| {
        let said = gin(&[("a.gin", text)], &["print", "--untyped", "a.gin"]);
        let lines = said.lines().filter(|line| line.contains(" = "));
        lines.map(str::to_string).collect::<Vec<String>>()
    };
    let order = |text: &str| assert_eq!(printed(text), text.lines().collect::<Vec<_>>());
    order("a.b.f.x = 1\nb.f.x = 2\nf.x = 3\n");
    order("f.x = 3\nb.f.x = 2\na.b.f.x = 1\n");
    order("a.f.x = 1\nf.x = 2\nf.y = 1\na.f.y = 2\n");
    // Names that cannot mean one parameter keep gin's order.
    assert_eq!(printed("b.f.x = 1\na.f.x = 2\n"), ["a.f.x = 2", "b.f.x = 1"]);
    assert_eq!(printed("s/a.f.x = 1\nf.x = 2\n"), ["f.x = 2", "s/a.f.x = 1"]);
    assert_eq!(printed("a.f.x = 1\nf.y = 2\n"), ["f.y = 2", "a.f.x = 1"]);
}
