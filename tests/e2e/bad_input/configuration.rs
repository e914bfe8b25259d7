//! Mistakes in gin files and flags, found before anything is built.

use super::{USER, check};
use crate::command::{Ended, Train};
use crate::folder::Folder;

#[test]
fn names_that_mean_nothing() {
    let folder = Folder::new();
    let pretrain = || folder.pretrain(4);
    check(
        &pretrain().bind("utils.SaveCheckpointConfig.perod", 5),
        USER,
        &["has no parameter `perod`", "did you mean `period`?", "--gin.utils.SaveCheckpoint"],
    );
    check(
        &pretrain().bind("adafactor.Adafactr.beta1", 0.9),
        USER,
        &["`adafactor.Adafactr`", "did you mean", "Adafactor`"],
    );
    check(
        &pretrain().bind("VOCABULARY", "@ByteVocabulry()"),
        USER,
        &["`ByteVocabulry`", "did you mean", "ByteVocabulary`"],
    );
    check(
        &pretrain().bind("BATCH_SIZE", "%BATCH_SIZ"),
        USER,
        &["macro `BATCH_SIZ` is not defined", "did you mean `BATCH_SIZE`?"],
    );
    check(&pretrain().bind("preprocessors.tokenize.key", 1), USER, &["`tokenize`", "no parameter"]);
    check(
        &pretrain().bind("MIXTURE_OR_TASK_NAME", "'lnes'"),
        USER,
        &["no task or mixture is named `lnes`", "did you mean `lines`?"],
    );
}

#[test]
fn a_macro_that_nothing_uses_is_warned_of() {
    let folder = Folder::new();
    let ended = folder.pretrain(4).bind("BATCHSIZE", 2).arg("--dry_run").succeeds();
    let words = ["warning: macro `BATCHSIZE` is never used", "did you mean `BATCH_SIZE`?"];
    words.iter().for_each(|words| assert!(ended.stderr.contains(words), "{}", ended.stderr));
}

#[test]
fn a_search_path_that_is_no_folder_is_warned_of() {
    let folder = Folder::new();
    let pretrain = || folder.pretrain(4).arg("--gin_search_paths=gni").arg("--dry_run");
    let warning = "warning: --gin_search_paths names `gni`, which is not a folder";
    let ended = pretrain().succeeds();
    assert!(ended.stderr.contains(warning), "{}", ended.stderr);
    check(&pretrain().gin_file("no.gin"), USER, &[warning, "there is no gin file `no.gin`"]);
    check(&pretrain().arg("--strict"), USER, &["names `gni`, which is not a folder"]);
}

/// Asserts that a run and its dry run end with the same error and status, and that the error has these words.
fn missing(words: &str, run: Train) {
    let (dry, run) = (run.clone().arg("--dry_run").run(), run.run());
    let last = |ended: &Ended| ended.stderr[ended.stderr.find("error:").unwrap_or(0)..].to_string();
    assert_eq!((dry.status, last(&dry)), (run.status, last(&run)));
    assert_eq!(dry.status, Some(USER), "{}", dry.stderr);
    assert!(dry.stdout.is_empty(), "{}", dry.stdout);
    assert!(dry.stderr.contains(words), "`{words}` is not in:\n{}", dry.stderr);
}

/// A task with a step of a Python module that there is not.
const WITHOUT_MODULE: &str = r#"
include "pretrain_tiny.gin"

mine/seqio.Task:
  source = @seqio.TextLineDataSource()
  preprocessors = [@mine/gimlet.preprocessors.python(), @seqio.preprocessors.append_eos()]
  output_features = {"inputs": @seqio.Feature(), "targets": @seqio.Feature()}
mine/seqio.TextLineDataSource.split_to_filepattern = {"train": "lines-0.txt"}
mine/seqio.Feature.vocabulary = %VOCABULARY
mine/gimlet.preprocessors.python.module = "no_such_module"
mine/gimlet.preprocessors.python.function = "step"
MIXTURE_OR_TASK_NAME = "mine"
train.train_eval_dataset_cfg = None
"#;

#[test]
fn a_dry_run_finds_what_the_run_would_find_after_its_start() {
    let folder = Folder::new();
    let pretrain = || folder.pretrain(4);
    let finetune = || folder.train("finetune_tiny.gin").bind("TRAIN_STEPS", 5);
    pretrain().bind_text("MODEL_DIR", "pretrained").succeeds();
    let cached = |train: Train| {
        train.bind_text("MIXTURE_OR_TASK_NAME", "cached").bind("USE_CACHED_TASKS", "True")
    };
    missing("`cached` is to be read from its cache (`use_cached = True`)", cached(pretrain()));
    let eval = folder.eval().bind_text("MIXTURE_OR_TASK_NAME", "cached");
    let eval = eval.bind_text("CHECKPOINT_PATH", "pretrained/checkpoint_4");
    let eval = eval.bind("utils.DatasetConfig.use_cached", "True");
    missing("`cached` is to be read from its cache", eval);
    missing("holds another model:", finetune().bind("network.T5Config.mlp_dim", 64));
    missing(
        "needs a positive length for 'targets'",
        pretrain().bind("TASK_FEATURE_LENGTHS", "{'inputs': 8}"),
    );
    folder.write("mine.gin", WITHOUT_MODULE);
    missing("No module named 'no_such_module'", folder.train("mine.gin"));
    let shapes = pretrain().bind_text("MODEL_DIR", "pretrained").bind("BATCH_SIZE", 4);
    let lengths = "{'inputs': 32, 'targets': 32}";
    missing("the saved data position does not fit", shapes.bind("TASK_FEATURE_LENGTHS", lengths));

    let adamw = || {
        let train = finetune().bind("OPTIMIZER", "@optimizers.adamw()");
        let rates = train.bind("optimizers.adamw.learning_rate", 0.01);
        rates.bind("optimizers.adamw.weight_decay", 0.0)
    };
    missing("holds the state of another optimizer:", adamw());
    missing("utils.RestoreCheckpointConfig.strict = False and fallback_to_scratch = True", adamw());
    let remedied = || {
        let adamw = adamw().bind("utils.RestoreCheckpointConfig.strict", "False");
        adamw.bind("utils.RestoreCheckpointConfig.fallback_to_scratch", "True")
    };
    remedied().arg("--dry_run").succeeds();
    let ended = remedied().succeeds();
    assert!(ended.stderr.contains("restored step 4 from pretrained"), "{}", ended.stderr);
    let other = adamw().bind("OPTIMIZER", "@adafactor.Adafactor()").bind("TRAIN_STEPS", 9);
    missing("set MODEL_DIR to another folder, and begin there from `model/checkpoint_5`", other);
}

#[test]
fn a_dry_run_fails_as_the_run_would() {
    let folder = Folder::new();
    let pretrain = || folder.pretrain(4);
    let finetune = || folder.train("finetune_tiny.gin");
    missing(
        "no task or mixture is named `lnes`",
        pretrain().bind("MIXTURE_OR_TASK_NAME", "'lnes'"),
    );
    let split = pretrain().bind("train/utils.DatasetConfig.split", "'trian'");
    missing("`lines` has no split 'trian'", split);
    missing(
        "pretrained",
        finetune().bind_text("INITIAL_CHECKPOINT_PATH", "pretrained/checkpoint_4"),
    );
    missing("set it to 384 or more", pretrain().bind("network.T5Config.vocab_size", 256));
    let vocabulary = "seqio.SentencePieceVocabulary.sentencepiece_model_file = 'no.model'";
    let other = pretrain().bind("VOCABULARY", "@seqio.SentencePieceVocabulary()");
    missing("no.model", other.arg(format!("--gin_bindings={vocabulary}")));
    assert!(!folder.path("model").exists(), "a dry run leaves nothing behind");
}

#[test]
fn a_dry_run_of_weights_alone_starts_at_their_run_s_step() {
    let folder = Folder::new();
    folder.pretrain(4).succeeds();
    let weights = folder
        .pretrain(2)
        .bind_text("MODEL_DIR", "other")
        .bind_text("utils.RestoreCheckpointConfig.path", "model/checkpoint_4")
        .bind_text("utils.RestoreCheckpointConfig.mode", "specific")
        .bind("utils.RestoreCheckpointConfig.assignment_map", "[('state/.*', None)]")
        .bind("utils.RestoreCheckpointConfig.fallback_to_scratch", "True");
    let said = weights.arg("--dry_run").succeeds().stdout;
    assert!(said.contains("steps        to 2\n"), "{said}");
}

#[test]
fn a_dry_run_does_not_look_for_data() {
    let folder = Folder::new();
    for file in ["lines-0.txt", "lines-1.txt", "held-out.txt"] {
        std::fs::remove_file(folder.path(file)).expect("it is there");
    }
    folder.pretrain(4).arg("--dry_run").succeeds();
}

#[test]
fn values_of_the_wrong_type() {
    let folder = Folder::new();
    let pretrain = || folder.pretrain(4);
    check(
        &pretrain().bind("BATCH_SIZE", "'eight'"),
        USER,
        &["batch_size", "expected", "int", "'eight'"],
    );
    check(&pretrain().bind("TRAIN_STEPS", -1), USER, &["total_steps", "-1"]);
    check(
        &pretrain().bind("network.T5Config.dtype", "'float31'"),
        USER,
        &["dtype", "'float31'", "'float32'"],
    );
    check(
        &pretrain().bind("TASK_FEATURE_LENGTHS", "[64, 32]"),
        USER,
        &["task_feature_lengths", "dict", "list"],
    );
    check(
        &pretrain().bind("train.model", "@network.Transformer()"),
        USER,
        &["model", "Transformer", "EncoderDecoderModel"],
    );
}

#[test]
fn values_that_must_be_given() {
    let folder = Folder::new();
    check(
        &folder.pretrain(4).bind("MODEL_DIR", "%gin.REQUIRED"),
        USER,
        &["`MODEL_DIR` is required", "--gin.MODEL_DIR=VALUE"],
    );
    check(
        &folder.pretrain(4).bind("network.T5Config.vocab_size", "%gin.REQUIRED"),
        USER,
        &["vocab_size", "required"],
    );
    folder.write("alone.gin", "include 't5x/configs/runs/pretrain.gin'\n");
    check(&folder.train("alone.gin"), USER, &["MODEL", "alone.gin"]);
}

#[test]
fn files_that_are_not_there_or_not_gin() {
    let folder = Folder::new();
    check(&folder.train("pretrain_tny.gin"), USER, &["`pretrain_tny.gin`", "pretrain_tiny.gin"]);
    folder.write("broken.gin", "include 'tiny.gin'\nBATCH_SIZE = [1, 2\nTRAIN_STEPS = 3\n");
    check(&folder.train("broken.gin"), USER, &["broken.gin:2"]);
    folder.write("lost.gin", "include 'no/such.gin'\n");
    check(&folder.train("lost.gin"), USER, &["lost.gin:1", "`no/such.gin`", "searched in"]);
    folder.write("imports.gin", "import my_tasks\n");
    check(&folder.train("imports.gin"), USER, &["imports.gin:1", "`my_tasks`", "my_tasks.gin"]);
    folder.write("my_tasks.py", "");
    check(&folder.train("imports.gin"), USER, &["imports.gin:1", "my_tasks.py", "GIMLET_PYTHON"]);
    folder.write("latin.gin", b"# caf\xe9\n");
    check(&folder.train("latin.gin"), USER, &["latin.gin", "UTF-8"]);
    std::fs::create_dir(folder.path("folder.gin")).expect("the folder can be written");
    check(&folder.train("folder.gin"), USER, &["folder.gin", "a folder"]);
}

#[test]
fn flags_that_are_none() {
    let folder = Folder::new();
    let pretrain = || folder.pretrain(4);
    check(
        &pretrain().arg("--gin.BATCH_SIZE"),
        USER,
        &["--gin.<param>=<value>", "--gin.BATCH_SIZE"],
    );
    check(&pretrain().arg("--gin.MODEL_DIR=/tmp/run"), USER, &["MODEL_DIR", "quotes"]);
    check(&pretrain().arg("small.gin"), USER, &["'small.gin'", "--gin_file=small.gin"]);
    check(&pretrain().arg("BATCH_SIZE=4"), USER, &["'BATCH_SIZE=4'", "`--gin.BATCH_SIZE=VALUE`"]);
    check(
        &pretrain().arg("--model_dir=x"),
        USER,
        &["'--model_dir'", "`--gin.CONFIGURABLE.model_dir=VALUE`"],
    );
    check(&pretrain().arg("--gin_fil=x"), USER, &["--gin_fil", "--gin_file"]);
    check(&pretrain().arg("--path_map").arg("gs://a"), USER, &["gs://a", "PREFIX=DIR"]);
    check(&pretrain().arg("--process_count=2"), USER, &["2 processes", "--process_count"]);
    let nothing = crate::command::Train::new(&folder.path("."));
    check(&nothing, USER, &["--gin_file"]);
}

#[test]
fn periods_and_parts_that_do_not_divide() {
    let folder = Folder::new();
    let pretrain = || folder.pretrain(4);
    check(
        &pretrain().bind("train.eval_period", 3),
        USER,
        &["(4)", "(3)", "multiples", "SaveCheckpointConfig.period", "train.eval_period"],
    );
    check(
        &pretrain().bind("trainer.Trainer.num_microbatches", 3),
        USER,
        &["batch size 8", "num_microbatches", "3"],
    );
    assert!(!folder.path("model").exists(), "a refused run leaves nothing behind");
}

#[test]
fn values_without_a_meaning() {
    let folder = Folder::new();
    let words = |name: &str, value: &str, words: &[&str]| {
        // Found without libtorch and without the data.
        check(&folder.pretrain(4).arg("--dry_run").bind(name, value), USER, words);
    };
    words("network.T5Config.num_heads", "0", &["network.T5Config.num_heads is 0", "at least 1"]);
    let huge = "1000000000000000000";
    words("network.T5Config.emb_dim", huge, &["elements", "lower network.T5Config's dimensions"]);
    words("network.T5Config.num_decoder_layers", huge, &[huge, "expected at most 10000"]);
    words("MODEL_DIR", "''", &["MODEL_DIR", "it is empty"]);
    words("MODEL_DIR", "'~/model'", &["MODEL_DIR", "`~/model`", "write it out"]);
    words("utils.RestoreCheckpointConfig.path", "''", &["RestoreCheckpointConfig.path", "empty"]);
    words("LOSS_NORMALIZING_FACTOR", "0", &["loss_normalizing_factor is 0", "more than 0"]);
    let base = "utils.create_learning_rate_scheduler.base_learning_rate";
    words(base, "-1", &["base_learning_rate` is -1", "0 or more"]);
    // With their places.
    let below = "0 or more and below 1 for";
    words("DROPOUT_RATE", "1.5", &[below, "`T5Config.dropout_rate`, found 1.5", "--gin.DROPOUT"]);
    words("LABEL_SMOOTHING", "2.0", &[below, "label_smoothing`, found 2.0"]);
    words(
        "Z_LOSS",
        "-1",
        &["0 or more for `EncoderDecoderModel.z_loss`, found -1", "--gin.Z_LOSS"],
    );
    words("BATCH_SIZE", "0", &["train/utils.DatasetConfig.batch_size is 0", "BATCH_SIZE"]);
    words("train.eval_steps", "0", &["train.eval_steps is 0", "EVAL_STEPS"]);
    let partitions = "partitioning.PjitPartitioner.num_partitions";
    words(partitions, "0", &["num_partitions, is 0, expected at least 1"]);
    let mesh = "partitioning.PjitPartitioner.model_parallel_submesh";
    words(mesh, "(2, 0, 1, 1)", &["model_parallel_submesh is 0, expected at least 1"]);
    let level = "utils.SaveCheckpointConfig.compression_level";
    check(
        &folder
            .pretrain(4)
            .arg("--dry_run")
            .bind_text("utils.SaveCheckpointConfig.compression", "zstd")
            .bind(level, 23),
        USER,
        &["compression_level is 23, expected 1 to 22 for 'zstd'"],
    );
    words("train.actions", "{'EVAL': []}", &["train.actions", "'EVAL'", "'INFER_EVAL'"]);
    words("utils.create_learning_rate_scheduler.warmup_steps", "-1", &["warmup_steps` is -1"]);
}

#[test]
fn rules_of_t5_experiments_without_a_meaning() {
    let folder = Folder::new();
    let run = || folder.pretrain(4).arg("--dry_run");
    let microbatches = |rows: usize| {
        let factor = "@gimlet.losses.mean_of_microbatches()";
        let run = run().bind("LOSS_NORMALIZING_FACTOR", factor);
        run.bind("gimlet.losses.mean_of_microbatches.rows", rows)
    };
    check(&microbatches(0), USER, &["mean_of_microbatches.rows is 0, expected at least 1"]);
    check(&microbatches(3), USER, &["8 rows", "micro-batches of 3 rows", "BATCH_SIZE = 6"]);
    let clipped = || {
        let run = run().bind("OPTIMIZER", "@gimlet.optimizers.Clipped()");
        run.bind("gimlet.optimizers.Clipped.optimizer", "@adafactor.Adafactor()")
    };
    check(&clipped(), USER, &["gimlet.optimizers.Clipped", "bind one of", "found neither"]);
    let norm = clipped().bind("gimlet.optimizers.Clipped.norm", 1.0);
    check(&norm.bind("gimlet.optimizers.Clipped.value", 1.0), USER, &["found both"]);
    let best = run().bind("train.best", "@gimlet.BestModel()").bind("train.eval_period", "None");
    check(&best, USER, &["train.best watches a metric", "bind train.eval_period"]);
    let memory = run().bind("network.T5Config.num_memory_tokens", 4);
    let packed = ["train/utils.DatasetConfig.pack = True", "num_memory_tokens = 4", "pack = False"];
    check(&memory.bind("train/utils.DatasetConfig.pack", "True"), USER, &packed);
    let heads = run().bind("network.T5Config.num_cdq_heads", 3);
    check(&heads, USER, &["network.T5Config.num_cdq_heads is 3, expected 0, "]);
    let factor = run().bind("network.T5Config.initializer_factor", 0.5);
    check(&factor, USER, &["initializer_factor is 0.5", "initializers = 'transformers'"]);
}
