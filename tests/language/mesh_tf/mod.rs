//! Mesh TensorFlow's dialect: what its configurations become in T5X's terms, and what is refused.

mod mistakes;
mod paper;
mod t0;
mod traps;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use gimlet::run::{Translated, translate_mesh_tf};

/// A file of this folder.
fn file(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/language/mesh_tf");
    folder.join(name).display().to_string()
}

/// The configuration of a fine-tuning of T5 1.0 base as t5 wrote it in 2019.
const BASE: &str = "operative_config.gin";

/// Translates a fine-tuning of 2019 with more statements, `tpu_topology` and `init_checkpoint` among them.
fn translated(more: &[&str]) -> Result<Translated, String> {
    let base = format!("--gin_file={}", file(BASE));
    let given = ["tpu_topology = 'v3-8'", "init_checkpoint = '/t5/base/model.ckpt-999900'"];
    let params = given.iter().chain(more).map(|text| format!("--gin_param={text}"));
    let words: Vec<String> =
        [base, "--model_dir=/run".to_string()].into_iter().chain(params).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    translate_mesh_tf(&words).map_err(|failure| failure.to_string())
}

/// The values of statements by their keys.
fn values(translated: &Translated) -> BTreeMap<String, String> {
    let statements = translated.statements.iter();
    let parts = statements.map(|it| it.text.split_once(" = ").expect("a statement is a binding"));
    parts.map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// The value of a key after more statements.
fn value(key: &str, more: &[&str]) -> String {
    let translated = translated(more).expect("it can be translated");
    values(&translated).remove(key).unwrap_or_else(|| panic!("{key} is bound"))
}

#[test]
fn a_fine_tuning_of_2019_becomes_a_training_in_t5xs_terms() {
    let translated = translated(&[]).expect("it can be translated");
    let statements: Vec<String> = translated.statements.iter().map(|it| it.text.clone()).collect();
    let golden = file("operative_config.golden");
    let text = statements.join("\n") + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&golden, &text).expect("the folder can be written");
    }
    assert_eq!(text, fs::read_to_string(golden).expect("it is committed"));
}

#[test]
fn each_statement_knows_the_line_that_it_translates() {
    let translated = translated(&["run.train_steps = 1000000"]).expect("it can be translated");
    let place = |key: &str| {
        let found = translated.statements.iter().find(|it| it.text.starts_with(key));
        found.expect("it is bound").place.clone()
    };
    assert_eq!(place("TRAIN_STEPS"), "--gin_param");
    let line = fs::read_to_string(file(BASE)).expect("it is committed");
    let line = line.lines().position(|line| line.starts_with("run.batch_size")).expect("bound");
    assert_eq!(place("BATCH_SIZE"), format!("{}:{}", file(BASE), line + 1));
}

#[test]
fn the_training_passes_all_checks_of_the_command() {
    let translated = translated(&[]).expect("it can be translated");
    translated.command.check(false, 1).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn published_sizes_have_their_dimensions() {
    for (size, emb_dim, mlp_dim, num_heads, head_dim, layers) in [
        ("t5.1.0.small", 512, 2048, 8, 64, 6),
        ("t5.1.0.base", 768, 3072, 12, 64, 12),
        ("t5.1.0.large", 1024, 4096, 16, 64, 24),
        ("t5.1.0.3B", 1024, 16384, 32, 128, 24),
        ("t5.1.0.11B", 1024, 65536, 128, 128, 24),
        ("t5.1.1.small", 512, 1024, 6, 64, 8),
        ("t5.1.1.xxl", 4096, 10240, 64, 64, 24),
    ] {
        let words = [
            "--gin_file=dataset.gin".to_string(),
            format!("--gin_file=models/{size}.gin"),
            "--gin_param=utils.tpu_mesh_shape.tpu_topology = 'v3-128'".to_string(),
            "--gin_param=run.train_steps = 1".to_string(),
        ];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let translated = translate_mesh_tf(&words).unwrap_or_else(|failure| panic!("{failure}"));
        let values = values(&translated);
        let config = |key: &str| values[&format!("t5x.examples.t5.network.T5Config.{key}")].clone();
        assert_eq!(config("emb_dim"), emb_dim.to_string(), "{size}");
        assert_eq!(config("mlp_dim"), mlp_dim.to_string(), "{size}");
        assert_eq!(config("num_heads"), num_heads.to_string(), "{size}");
        assert_eq!(config("head_dim"), head_dim.to_string(), "{size}");
        assert_eq!(config("num_encoder_layers"), layers.to_string(), "{size}");
        let is_tied = size.starts_with("t5.1.0");
        assert_eq!(config("logits_via_embedding") == "True", is_tied, "{size}");
        let activations = if is_tied { "['relu']" } else { "['gelu', 'linear']" };
        assert_eq!(config("mlp_activations"), activations, "{size}");
        assert_eq!(config("vocab_size"), "32128", "{size}");
    }
}

/// A folder with the configuration that a training writes, and its file.
fn trained(more: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let record = translated(more).expect("it is a training").record;
    let text = record.files.iter().find(|file| file.name == BASE).expect("it is recorded");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = folder.path().join(BASE);
    fs::write(&config, &text.text).expect("writable");
    (folder, config)
}

#[test]
fn a_training_writes_a_configuration_that_its_own_evaluation_reads() {
    let (folder, config) = trained(&["tokens_per_batch = 131072"]);
    let words = [
        format!("--model_dir={}", folder.path().display()),
        format!("--gin_file={}", config.display()),
        "--gin_file=score_eval.gin".to_string(),
        "--gin_param=run.batch_size = ('tokens_per_batch', 262144)".to_string(),
        "--gin_param=eval_checkpoint_step = 786400".to_string(),
        "--gin_param=run.dataset_split = 'validation'".to_string(),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let evaluation = translate_mesh_tf(&words).unwrap_or_else(|failure| panic!("{failure}"));
    let values = values(&evaluation);
    assert_eq!(values["BATCH_SIZE"], "512");
    assert_eq!(values["t5x.utils.RestoreCheckpointConfig.nearest_steps"], "[786400]");
    assert_eq!(values["EVAL_OUTPUT_DIR"], format!("'{}/validation_eval'", folder.path().display()));
}

#[test]
fn the_api_mode_takes_the_run_from_flags_and_the_model_from_the_folder() {
    let (folder, _) = trained(&[]);
    fs::write(folder.path().join("checkpoint"), "model_checkpoint_path: \"model.ckpt-900\"\n")
        .expect("writable");
    let pretrained = format!("--pretrained_model_dir={}", folder.path().display());
    let words = [
        "--use_model_api",
        "--mode=finetune",
        &pretrained,
        "--mixture_or_task=squad_v010_allanswers",
        "--batch_size=16",
        "--train_steps=100",
        "--target_sequence_length=97",
        "--gin_param=init_checkpoint = None",
        "--gin_param=tpu_topology = 'v3-8'",
    ];
    let translated = translate_mesh_tf(&words).unwrap_or_else(|failure| panic!("{failure}"));
    let values = values(&translated);
    assert_eq!(values["TRAIN_STEPS"], "1000");
    assert_eq!(values["BATCH_SIZE"], "16");
    assert_eq!(values["MIXTURE_OR_TASK_NAME"], "'squad_v010_allanswers'");
    assert_eq!(values["TASK_FEATURE_LENGTHS"], "{'inputs': 512, 'targets': 97}");
    let path = format!("'{}/model.ckpt-900'", folder.path().display());
    assert_eq!(values["t5x.utils.RestoreCheckpointConfig.path"], path);

    let Err(failure) = translate_mesh_tf(&["--mode=train"]) else {
        panic!("it needs the API mode")
    };
    assert!(failure.to_string().contains("--mode needs --use_model_api"), "{failure}");
}
