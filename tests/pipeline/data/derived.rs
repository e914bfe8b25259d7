//! Tasks and mixtures derived from others, compared with SeqIO's helpers
//! (`reference/derived_reference.py`).

use gimlet::data::{DatasetOptions, Task};
use gimlet::data::{
    ExampleOptions, TaskProvider, Value, examples_after, get_dataset, mixture_stages, subtasks,
};
use gimlet::gin::Slot;
use gimlet::run::{GinTasks, registry};
use serde_json::json;

use super::*;

/// Two tasks, and a mixture within a mixture.
const TASKS: &str = r#"
TARGETS = {"targets": @seqio.Feature()}
seqio.Feature.vocabulary = @seqio.ByteVocabulary()
seqio.ByteVocabulary.extra_ids = 0
STEPS = [
  @seqio.preprocessors.rekey(),
  @seqio.preprocessors.tokenize(),
  @seqio.preprocessors.append_eos_after_trim(),
]
seqio.preprocessors.rekey.key_map = {"targets": "text"}
a/seqio.Task:
  source = @a/seqio.TextLineDataSource()
  preprocessors = %STEPS
  output_features = %TARGETS
a/seqio.TextLineDataSource:
  split_to_filepattern = {"train": "DIR/a-*", "dev": "DIR/dev-*"}
  num_input_examples = {"train": 27}
b/seqio.Task:
  source = @b/seqio.TextLineDataSource()
  preprocessors = %STEPS
  output_features = %TARGETS
b/seqio.TextLineDataSource:
  split_to_filepattern = {"train": "DIR/b-*"}
  num_input_examples = {"train": 5}
inner/seqio.Mixture.tasks = [("b", 3)]
outer/seqio.Mixture.tasks = [("a", 2), ("inner", 1)]
"#;

const DERIVED: &str = r#"
new/seqio.helpers.mixture_or_task_with_new_vocab:
  mixture_or_task = "a"
  new_vocab = @larger/seqio.ByteVocabulary()
  add_cache_placeholder = True
larger/seqio.ByteVocabulary.extra_ids = 5
mixed/seqio.helpers.mixture_or_task_with_new_vocab:
  mixture_or_task = "outer"
  new_mixture_or_task_name = "mix"
  new_vocab = @larger/seqio.ByteVocabulary()
few/seqio.helpers.mixture_or_task_with_truncated_data:
  mixture_or_task = "outer"
  split_sizes = {"train": 10}
devs/seqio.helpers.mixture_with_missing_task_splits_removed:
  mixture_name = "outer"
  split = "dev"
"#;

/// Creates the files of the script.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, count) in [("a-0", 7), ("a-1", 20), ("b-0", 5), ("dev-0", 3)] {
        let lines: String = (0..count).map(|i| format!("{name} {i}\n")).collect();
        std::fs::write(folder.path().join(name), lines).unwrap();
    }
    folder
}

/// Returns the tasks of both texts, with additions to the run and the task file.
fn load(folder: &tempfile::TempDir, run: &str, more: &str) -> GinTasks {
    let text = format!("{TASKS}{more}").replace("DIR", folder.path().to_str().unwrap());
    let loaded = load_texts(run, &text).map_err(|error| error.render(false)).unwrap();
    GinTasks::new(loaded, registry())
}

fn task_of(tasks: &GinTasks, name: &str) -> Arc<Task> {
    match tasks.get(name).unwrap_or_else(|error| panic!("{error}")) {
        TaskOrMixture::Task(task) => task,
        TaskOrMixture::Mixture(_) => panic!("{name} is a mixture"),
    }
}

fn texts(task: &Task, options: ExampleOptions) -> Vec<String> {
    let examples = examples_after(task, &options, 0).unwrap();
    let text = |example: Result<gimlet::data::Example, _>| match example.unwrap().get("text") {
        Some(Value::Text(text)) => text.clone(),
        other => panic!("{other:?}"),
    };
    examples.map(text).collect()
}

fn of_split(split: &str) -> ExampleOptions {
    ExampleOptions { split: split.to_string(), ..ExampleOptions::default() }
}

#[test]
fn the_innermost_mixture_that_has_a_mistake_is_named_with_its_line() {
    let folder = folder();
    let more = "no_rate/seqio.Mixture.tasks = ['a']\n\
                all/seqio.Mixture.tasks = [('b', 1), ('no_rate', 1)]\n\
                self/seqio.Mixture.tasks = [('a', 1), ('self', 1)]\n";
    let tasks = load(&folder, "", more);
    let first = TASKS.lines().count() + 1;
    let placed =
        |name: &str| tasks.placed(name, mixture_stages(name, &tasks).unwrap_err()).to_string();
    let check = |name: &str, named: &str, line: usize, expected: &str| {
        let message = placed(name);
        assert!(message.starts_with(&format!("mixture `{named}` (")), "{message}");
        assert!(message.contains(&format!(":{line}): mixture `{named}` {expected}")), "{message}");
    };
    check("no_rate", "no_rate", first, "has no rate for `a`");
    check("all", "no_rate", first, "has no rate for `a`");
    check("self", "self", first + 2, "contains itself");
    let other = gimlet::data::DataError::Config("the lengths do not fit".to_string());
    assert_eq!(tasks.placed("outer", other).to_string(), "the lengths do not fit");
}

#[test]
fn derived_tasks_and_mixtures_are_those_of_seqios_helpers() {
    let folder = folder();
    let expected = reference_json("derived.json");
    let tasks = load(&folder, "", DERIVED);
    assert_eq!(tasks.mistakes(), Vec::<String>::new());
    let parts = ["few.a", "few.inner.b", "mix.a", "mix.inner.b"];
    assert_eq!(tasks.task_names(), [&["a", "b"][..], &parts, &["new"]].concat());
    let mixtures = ["devs", "few", "few.inner", "inner", "mix", "mix.inner", "outer"];
    assert_eq!(tasks.mixture_names(), mixtures);
    for (mixture, names) in expected["names"].as_object().unwrap() {
        let found = subtasks(mixture, &tasks).unwrap();
        let found: Vec<&str> = found.iter().map(|task| task.task_name()).collect();
        assert_eq!(json!(found), *names, "{mixture}");
        let expected = expected["rates"][mixture].as_object().unwrap();
        let total: f64 = expected.values().map(|rate| rate.as_f64().unwrap()).sum();
        for (name, rate) in mixture_stages(mixture, &tasks).unwrap().remove(0).rates {
            let share = expected[&name].as_f64().unwrap() / total;
            assert!((rate - share).abs() < 1e-12, "{name}: {rate} {share}");
        }
    }
    for (name, size) in expected["vocab_sizes"].as_object().unwrap() {
        let vocabulary = task_of(&tasks, name).output_features["targets"].vocabulary.build();
        assert_eq!(json!(vocabulary.unwrap().vocab_size()), *size, "{name}");
    }
    for (name, steps) in expected["steps"].as_object().unwrap() {
        let task = task_of(&tasks, name);
        let found = task.preprocessors.iter().map(|step| step.schema_of().short_name());
        assert_eq!(json!(found.collect::<Vec<_>>()), *steps, "{name}");
    }
    for (name, count) in expected["num_input_examples"].as_object().unwrap() {
        assert_eq!(json!(task_of(&tasks, name).source.num_input_examples("train")), *count);
    }
}

#[test]
fn truncated_data_are_the_first_examples_on_any_number_of_hosts() {
    let folder = folder();
    let expected = reference_json("derived.json");
    let tasks = load(&folder, "", DERIVED);
    for (name, splits) in expected["texts"].as_object().unwrap() {
        let task = task_of(&tasks, name);
        for (split, lines) in splits.as_object().unwrap() {
            assert_eq!(json!(texts(&task, of_split(split))), *lines, "{name} {split}");
        }
    }
    let few = task_of(&tasks, "few.a");
    let mut all: Vec<String> = Vec::new();
    for shard_index in 0..3 {
        let options = ExampleOptions {
            shuffle: true,
            seed: 5,
            shard_index,
            num_shards: 3,
            ..of_split("train")
        };
        all.extend(texts(&few, options));
    }
    all.sort();
    assert_eq!(json!(all), expected["texts"]["few.a"]["train"]);
}

#[test]
fn a_run_can_derive_the_task_that_it_trains_on() {
    let folder = folder();
    let run = "MIXTURE_OR_TASK_NAME = @seqio.mixture_or_task_with_truncated_data()\n\
               seqio.mixture_or_task_with_truncated_data:\n  mixture_or_task = %NAME\n  \
               new_mixture_or_task_name = 'tiny'\n  split_sizes = {'train': 2}\nNAME = 'a'\n\
               utils.DatasetConfig.mixture_or_task_name = %MIXTURE_OR_TASK_NAME\n";
    let tasks = load(&folder, run, "");
    assert_eq!(texts(&task_of(&tasks, "tiny"), of_split("train")), ["a-0 0", "a-0 1"]);
    let mut config = config("tiny", (4, 8));
    config.task_feature_lengths = Some(BTreeMap::from([("targets".to_string(), 8)]));
    (config.batch_size, config.shuffle) = (2, true);
    let options = DatasetOptions {
        converter: gimlet::data::LMFeatureConverter {}.into(),
        ..DatasetOptions::default()
    };
    let mut batches = get_dataset(&config, &tasks, options).unwrap();
    let mut counts = [0; 2];
    for batch in take(&mut batches, 20) {
        for row in batch.rows_of("decoder_target_tokens") {
            // The byte after "a-0 ".
            counts[(row[4] - 3 - i32::from(b'0')) as usize] += 1;
        }
    }
    assert!(
        counts.iter().all(|count| *count > 10) && counts.iter().sum::<i32>() == 40,
        "{counts:?}"
    );
}

#[test]
fn derived_tasks_can_be_derived_from_and_mixed() {
    let folder = folder();
    let more = "tiny/seqio.mixture_or_task_with_truncated_data:\n  mixture_or_task = 'mix'\n  \
                split_sizes = {'train': 1}\n\
                all/seqio.Mixture.tasks = [(@tiny/seqio.mixture_or_task_with_truncated_data(), 1)]\n";
    let tasks = load(&folder, "", &format!("{DERIVED}{more}"));
    let found = subtasks("all", &tasks).unwrap();
    let found: Vec<&str> = found.iter().map(|task| task.task_name()).collect();
    assert_eq!(found, ["tiny.mix.a", "tiny.mix.inner.mix.inner.b"]);
    assert_eq!(texts(&task_of(&tasks, "tiny.mix.a"), of_split("train")), ["a-0 0"]);
}

#[test]
fn what_cannot_be_derived_says_why() {
    let folder = folder();
    let block = |helper: &str, body: &str| {
        format!("odd/seqio.mixture_or_task_with_{helper}:\n  mixture_or_task = {body}\n")
    };
    for (text, expected) in [
        (block("new_vocab", "'a'"), "exactly one of `new_vocab` and `new_output_features`"),
        (
            block("new_vocab", "'a'\n  new_output_features = {'inputs': @seqio.Feature()}"),
            "`new_output_features` are [\"inputs\"], expected those of `a`: [\"targets\"]",
        ),
        (
            block(
                "new_vocab",
                "'a'\n  new_output_features = {'targets': @odd/seqio.Feature()}\n\
                 odd/seqio.Feature.dtype = 'float32'",
            ),
            "has dtype 'float32' and rank 1, expected 'int32' and 1 as in `a`",
        ),
        (block("truncated_data", "'odd'\n  split_sizes = {}"), "`odd` is derived from itself"),
        (block("truncated_data", "'c'\n  split_sizes = {}"), "no task or mixture is named `c`"),
        (
            "odd/seqio.mixture_with_missing_task_splits_removed:\n  mixture_name = 'a'\n  \
             split = 'dev'\n"
                .to_string(),
            "`odd` is made of the mixture `a`, which is a task",
        ),
    ] {
        let tasks = load(&folder, "", &text);
        let error = tasks.get("odd").unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let looped = "loop/seqio.Mixture.tasks = [('tiny', 1)]\n\
                  tiny/seqio.mixture_or_task_with_truncated_data:\n  mixture_or_task = 'loop'\n  \
                  split_sizes = {}\n";
    let error = subtasks("loop", &load(&folder, "", looped)).unwrap_err().to_string();
    assert!(error.contains("is derived from itself"), "{error}");
}

#[test]
fn a_mixture_that_contains_itself_is_listed_and_refused() {
    let more = "self/seqio.Mixture.tasks = [('self', 1)]\n\
                tiny/seqio.mixture_or_task_with_truncated_data:\n  mixture_or_task = 'self'\n  \
                split_sizes = {}\n";
    let tasks = load(&folder(), "", more);
    assert!(tasks.declared().iter().any(|one| one.name == "self" && one.is_mixture));
    let error = subtasks("tiny.self", &tasks).unwrap_err().to_string();
    assert!(error.contains("contains itself"), "{error}");
}

#[test]
fn blank_lines_are_no_examples_of_truncated_data() {
    let folder = folder();
    std::fs::write(
        folder.path().join("r.jsonl"),
        "\n{\"text\": \"1\"}\n\n{\"text\": \"2\"}\n{\"text\": \"3\"}\n",
    )
    .unwrap();
    let more = "r/seqio.Task:\n  source = @r/seqio.JsonLinesDataSource()\n  preprocessors = %STEPS\n  \
                output_features = %TARGETS\n\
                r/seqio.JsonLinesDataSource.split_to_filepattern = {'train': 'DIR/r.jsonl'}\n\
                tiny/seqio.mixture_or_task_with_truncated_data:\n  mixture_or_task = 'r'\n  \
                split_sizes = {'train': 2}\n";
    let tasks = load(&folder, "", more);
    assert_eq!(texts(&task_of(&tasks, "tiny"), of_split("train")), ["1", "2"]);
}

#[test]
fn concatenated_sources_lose_nothing_in_silence() {
    let source = |more: &str| {
        format!(
            "c/seqio.Task:\n  source = @c/seqio.ConcatenatedDataSource()\n  preprocessors = %STEPS\n  \
             output_features = %TARGETS\n\
             c/seqio.ConcatenatedDataSource.sources = [@one/seqio.TextLineDataSource(), \
             @two/seqio.TextLineDataSource()]\n\
             one/seqio.TextLineDataSource.split_to_filepattern = {{'train': 'DIR/b-0'}}\n\
             two/seqio.TextLineDataSource.split_to_filepattern = {{'train': 'DIR/dev-0'}}\n{more}"
        )
    };
    let folder = folder();
    let tasks = load(&folder, "", &source(""));
    assert_eq!(texts(&task_of(&tasks, "c"), of_split("train")).len(), 8);
    let tasks = load(&folder, "", &source("two/seqio.TextLineDataSource.skip_header_lines = 1\n"));
    let read = examples_after(&task_of(&tasks, "c"), &of_split("train"), 0);
    let error = read.err().expect("the heads differ").to_string();
    assert!(error.contains("skip other header lines"), "{error}");
}
