//! T0's commands as its authors type them (t-zero `training/README.md`), with a small model at the pretrained one's
//! address. Its answers are those of transformers with the same weights: `make_ranks.py` names the versions.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use gimlet::checkpoint::{MeshNorms, MeshOptions, export_mesh_tensorflow};
use gimlet::models::open;
use gimlet::storage;
use serde_json::Value;
use tempfile::TempDir;

use crate::command::{Ended, Train, sources};
use crate::events::read_scalars;
use crate::folder::steps;
use crate::play::programs;

/// The step of the pretrained model, the last but one.
const START: u64 = 1_112_199;
const END: u64 = 1_112_200;
const LENGTHS: &str = "{'inputs': 1024, 'targets': 256}";
const CB: &str = "super_glue_cb_does_it_follow_that_score_eval";
const COPA: &str = "super_glue_copa_what_was_it_score_eval";
/// The folder `gs://your_bucket/your_model_dir`.
const MODEL_DIR: &str = "bucket/your_model_dir";

/// Local folders in place of buckets and the hub.
fn maps() -> String {
    let datasets = sources("t0/datasets").display().to_string();
    format!("gs://t5-data=t5-data,gs://your_bucket=bucket,hf://datasets={datasets}")
}

/// A working directory with promptsource's templates, data sets, the pretrained model, and programs of T0's names.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().expect("a temporary folder"));
        let t0 = sources("t0");
        symlink(t0.join("promptsource"), place.path("promptsource")).unwrap();
        fs::create_dir(place.path("bin")).unwrap();
        for name in ["seqio_cache_tasks", "t5_mesh_transformer"] {
            symlink(programs().join("gimlet"), place.path("bin").join(name)).unwrap();
        }
        let vocabulary = place.path("t5-data/vocabs/cc_all.32000");
        fs::create_dir_all(&vocabulary).unwrap();
        let pieces = sources("../pipeline/data/reference/sentencepiece.model");
        symlink(pieces, vocabulary.join("sentencepiece.model")).unwrap();
        place.pretrained();
        place
    }

    /// Writes `model.ckpt-1112199` and its configuration.
    fn pretrained(&self) {
        let model = self.path("t5-data/pretrained_models/t5.1.1.lm100k.xxl");
        fs::create_dir_all(&model).unwrap();
        fs::copy(sources("t0/operative_config.gin"), model.join("operative_config.gin")).unwrap();
        let unpacked = self.path("transformers");
        fs::create_dir(&unpacked).unwrap();
        let archive = sources("t0/model.tar.gz");
        let status = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&unpacked).status();
        assert!(status.expect("tar starts").success());
        let at = |path: &Path| storage::Path::try_from(path).expect("the path is text");
        let options = MeshOptions { dtype: None, norms: MeshNorms::Sublayers };
        let weights = open(&at(&unpacked)).expect("it is a model");
        export_mesh_tensorflow(&*weights, (at(&model), START), options).expect("it is a T5");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Runs a command of T0 with changes to its text.
    fn type_in(&self, script: &str, changes: &[(&str, &str)], words: &[&str]) -> Ended {
        let mut text = fs::read_to_string(sources("t0").join(script)).unwrap();
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        let path = std::env::var("PATH").expect("there is one");
        let mut command = Command::new("sh");
        command.args(["-euc", &text, "sh"]).args(words).current_dir(self.path(""));
        command.env("PATH", format!("{}:{path}", self.path("bin").display()));
        command.env("MY_FAVORITE_OUTPUT_DIR", self.path("bucket/your_cache_dir"));
        command.env("GIMLET_PATH_MAP", maps()).env("GIMLET_OFFLINE", "1");
        let ended =
            Ended::new(command.env("OMP_NUM_THREADS", "1").output().expect("a shell is there"));
        assert_eq!(ended.status, Some(0), "{}\n{}", ended.stdout, ended.stderr);
        ended
    }

    /// A command with a file of `runs/t0` for the model in transformers' format and the prompt of COPA.
    fn script(&self, tool: &str, file: &str) -> Train {
        let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("runs/t0").join(file);
        Train::new(&self.path(""))
            .tool(&[tool])
            .env("GIMLET_PATH_MAP", &maps())
            .gin_file("transformers/config.json")
            .gin_file(run)
            .bind_text("MODEL_NAME_OR_PATH", "transformers")
            .bind_text("DATASET_NAME", "super_glue")
            .bind_text("DATASET_CONFIG_NAME", "copa")
            .bind_text("TEMPLATE_NAME", "what was it")
            .bind("MAX_LENGTH", 128)
            .bind("TARGET_MAX_LENGTH", 64)
    }

    /// Returns the lines of a file about a ranked task, by example and choice: a cache has them in another order.
    fn ranked(&self, folder: &str, task: &str, name: &str) -> BTreeMap<String, String> {
        let lines = |name: &str| self.read(&format!("{MODEL_DIR}/{folder}/{task}_{name}"));
        let (targets, values) = (lines("targets"), lines(name));
        assert_eq!(targets.lines().count(), values.lines().count());
        let idx =
            |target: &str| target.split_once("), ").expect("a target is a tuple").0.to_string();
        targets.lines().map(idx).zip(values.lines().map(str::to_string)).collect()
    }
}

#[test]
fn t0_is_cached_trained_and_ranked_by_the_commands_of_its_authors() {
    let place = Place::new();
    for tasks in ["amazon_polarity_.*", "super_glue_.*"] {
        place.type_in("cache.sh", &[], &[tasks]);
    }

    let dry =
        place.type_in("train.sh", &[("parallelism = 8\"", "parallelism = 8\" --dry_run")], &[]);
    for line in
        ["encoder inputs [1024, 1024]", "from 1112199 to 1112200", "base_learning_rate = 0.001"]
    {
        assert!(dry.stdout.contains(line), "{line} is not in\n{}", dry.stdout);
    }
    // Rows of fewer tokens, for which one CPU suffices.
    let short = [(LENGTHS, "{'inputs': 8, 'targets': 2}"), ("1048576", "8192")];
    place.type_in("train.sh", &short, &[]);
    let model_dir = place.path(MODEL_DIR);
    assert_eq!(steps(&model_dir), [START, END]);
    let scalars = read_scalars(&model_dir.join("train"));
    assert_eq!(scalars["learning_rate"][&(END as i64)], f64::from(0.001_f32));

    // Weights and activations are float32 without TPUs.
    let shorter = (LENGTHS, "{'inputs': 128, 'targets': 64}");
    let both = [
        shorter,
        ("    --tpu=\"${TPU_NAME}\" \\\n", ""),
        ("step = ${TRAIN_STEPS}", "step = [1112199, ${TRAIN_STEPS}]"),
    ];
    place.type_in("evaluate.sh", &both, &[]);
    check_ranks(&place);

    let elsewhere = "run.eval_summary_dir = 'gs://your_bucket/your_model_dir/again'";
    let from_templates = [
        shorter,
        ("mesh_train_dataset_fn.use_cached = True", elsewhere),
        ("eval_dataset_fn.use_cached = True", "eval_dataset_fn.use_cached = False"),
    ];
    place.type_in("evaluate.sh", &from_templates, &[]);
    for task in [CB, COPA] {
        for name in ["inputs", "targets"] {
            let of = |folder: &str| place.ranked(folder, task, name);
            assert_eq!(of("again"), of("validation_eval"));
        }
    }
}

/// Compares scores and accuracies with those of transformers.
fn check_ranks(place: &Place) {
    let ranks: Value = serde_json::from_str(include_str!("ranks.json")).unwrap();
    let events = read_scalars(&place.path(&format!("{MODEL_DIR}/validation_eval")));
    for task in [CB, COPA] {
        let found = place.ranked("validation_eval", task, &format!("{START}_predictions"));
        let expected: Vec<Vec<f64>> =
            serde_json::from_value(ranks["scores"][task].clone()).unwrap();
        assert_eq!(found.len(), expected.iter().flatten().count());
        for (example, scores) in expected.iter().enumerate() {
            for (choice, expected) in scores.iter().enumerate() {
                let found: f64 = found[&format!("(({example}, {choice}")].parse().unwrap();
                assert!(
                    (found - expected).abs() <= 1e-5 * expected.abs(),
                    "{found} is not {expected}"
                );
            }
        }
        let accuracy = &events[&format!("eval/{task}/accuracy")];
        assert_eq!(accuracy[&(START as i64)], ranks["accuracy"][task].as_f64().unwrap());
        assert!(accuracy.contains_key(&(END as i64)));
    }
    let last = |name: &str| place.ranked("validation_eval", CB, name)["((3, 1"].clone();
    let expected = r"b'He sold the green lamp. Does it follow that he has a lamp\nfor sale?'";
    assert_eq!(last("inputs"), expected);
    assert!(last("targets").starts_with("((3, 1), True, 1.0, "), "{}", last("targets"));
}

#[test]
fn t0_s_scripts_for_transformers_are_gin_files() {
    let place = Place::new();
    let pieces = place.path("t5-data/vocabs/cc_all.32000/sentencepiece.model");
    symlink(pieces, place.path("transformers/spiece.model")).unwrap();
    place.script("eval", "run_eval.gin").bind_text("OUTPUT_DIR", "debug").succeeds();
    let expected = r#"{
    "dataset_name": "super_glue",
    "dataset_config_name": "copa",
    "template_name": "what was it",
    "evaluation": {
        "accuracy": 0.25
    }
}"#;
    assert_eq!(place.read("debug/results.json"), expected);

    let tuned = place.script("train", "single_task_fine_tune.gin");
    let tuned = tuned.bind("NUM_EXAMPLES", 2).bind("NUM_TRAIN_EPOCHS", 2);
    tuned.bind("PER_DEVICE_TRAIN_BATCH_SIZE", 1).bind_text("OUTPUT_DIR", "tuned").succeeds();
    assert_eq!(steps(&place.path("tuned")), [4]);
    let metrics = place.read(&format!("tuned/inference_eval/{COPA}-metrics.jsonl"));
    let lines = metrics.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines: Vec<(i64, f64)> = lines
        .map(|line| (line["step"].as_i64().unwrap(), line["accuracy"].as_f64().unwrap()))
        .collect();
    assert_eq!(lines.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [2, 4]);
    let results: Value = serde_json::from_str(&place.read("tuned/results.json")).unwrap();
    assert_eq!(results["evaluation"]["accuracy"], lines[1].1 / 100.0);
}
