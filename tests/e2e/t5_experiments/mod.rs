//! A run of real t5-experiments, repeated: `make_run.py` made the expected results, and names the versions.
//!
//! float32 on the CPU. The numbers of each step may differ by 1e-5 of their value, and final arrays by 1e-5 of their norm.

mod bert;
mod tuned;
mod typed;

use std::fs;
use std::path::Path;

use gimlet::checkpoint::Stored;
use gimlet::models::open;
use serde_json::Value;

use crate::arrays;
use crate::command::{Train, sources};
use crate::events::read_scalars;
use crate::folder::steps;
use crate::processes::launched;

const STEPS: u64 = 13;
const TOLERANCE: f64 = 1e-5;

#[test]
fn a_run_repeats_that_of_t5_experiments() {
    check(|train| train);
}

#[test]
fn a_run_in_microbatches_repeats_that_of_t5_experiments() {
    check(|train| train.bind("trainer.Trainer.num_microbatches", 2));
}

#[test]
fn a_divided_run_repeats_that_of_t5_experiments() {
    check(|train| launched(train, 2));
}

#[test]
fn a_run_whose_steps_count_from_zero_has_the_periods_of_t5_experiments() {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let [whole, resumed] = ["whole", "resumed"].map(|name| scratch.path().join(name));
    // The folder of the second run has a checkpoint of step number 6 when the run continues.
    counted_from_zero(&resumed, 7).succeeds();
    assert_eq!(steps(&resumed), [1, 7]);
    for model_dir in [&whole, &resumed] {
        counted_from_zero(model_dir, 12).succeeds();
        assert_eq!(steps(model_dir), [1, 7, 13]);
        let found = read_scalars(&model_dir.join("train"));
        assert_eq!(found["loss"].keys().copied().collect::<Vec<_>>(), [1, 4, 7, 10, 13]);
        assert_near("logged loss", found["loss"].values(), &logged_losses());
        let held_out = read_scalars(&model_dir.join("training_eval/documents"));
        assert_eq!(held_out["loss"].keys().copied().collect::<Vec<_>>(), [1, 5, 9, 13]);
    }
    let of = |folder: &Path, name: &str| opened(&folder.join(name));
    arrays::assert_same(&*of(&resumed, "model_12.pth"), &*of(&whole, "model_12.pth"));
    // Each validation is better than the one before.
    arrays::assert_same(&*of(&whole, "model_best.pth"), &*of(&whole, "model_12.pth"));
    let theirs = of(&sources("t5_experiments"), "model_6.pth");
    arrays::assert_close(&*of(&whole, "model_6.pth"), &*theirs, TOLERANCE);
    check_logs(&whole);
}

fn logged_losses() -> Value {
    let steps = expected()["tensorboard"]["loss/iterations/train"].clone();
    steps.as_object().expect("values by step").values().cloned().collect()
}

/// Compares the logs of a run with those of t5-experiments: each tag with its values by step, and the sentences of the text.
fn check_logs(model_dir: &Path) {
    let found = read_scalars(model_dir);
    for (tag, values) in expected()["tensorboard"].as_object().expect("values by tag") {
        for (step, value) in values.as_object().expect("values by step") {
            let (step, value) =
                (step.parse::<i64>().expect("a step"), value.as_f64().expect("a number"));
            let near = found[tag][&step];
            assert!(
                (near - value).abs() <= TOLERANCE * value.abs(),
                "{tag} {step}: {near}, {value}"
            );
        }
    }
    let mut texts =
        fs::read_dir(model_dir).expect("it is there").flatten().map(|entry| entry.path());
    let text = texts.find(|path| path.to_string_lossy().ends_with("_rank_0.log"));
    let text = fs::read_to_string(text.expect("one log")).expect("it is text");
    let sentences: Vec<&str> =
        text.lines().filter_map(|line| line.split(" - INFO - ").nth(1)).collect();
    let saved = |name: &str| format!("Model was saved to {}", model_dir.join(name).display());
    let best = sentences[3].strip_prefix("The best loss metric was improved to: ");
    let best: f64 = best.expect("the first validation is the best").parse().expect("a number");
    assert!(
        (best - expected()["validation_loss"][0].as_f64().expect("a number")).abs() < TOLERANCE
    );
    assert_eq!(
        sentences[..3],
        [
            "step: 0/12 loss: 6.4335",
            "start validation at step 0",
            "Validation on valid loss: 6.1222"
        ]
    );
    assert_eq!(
        sentences[4..7],
        [&saved("model_best.pth"), &saved("model_0.pth"), "step: 3/12 loss: 6.4367"]
    );
    assert_eq!(sentences.last(), Some(&"Done!"));
}

#[test]
fn a_run_continues_from_a_file_of_t5_experiments() {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let (folder, model_dir) = (sources("t5_experiments"), scratch.path().join("ours"));
    fs::create_dir(&model_dir).expect("an empty folder");
    fs::copy(folder.join("model_6.pth"), model_dir.join("model_6.pth")).expect("it is committed");
    // Seven steps have read 8 examples each.
    let examples = fs::read_to_string(folder.join("train.jsonl")).expect("it is committed");
    let rest: Vec<&str> = examples.lines().skip(7 * 8).collect();
    let file = scratch.path().join("rest.jsonl");
    fs::write(&file, rest.join("\n")).expect("a file");
    let files = format!("{{'train': '{}', 'validation': 'validation.jsonl'}}", file.display());
    let train = counted_from_zero(&model_dir, 12);
    train.bind("seqio.JsonLinesDataSource.split_to_filepattern", files).succeeds();
    check_weights(&*opened(&model_dir.join("model_12.pth")), &folder.join("final.safetensors"));
}

fn opened(path: &Path) -> Box<dyn Stored> {
    let path = gimlet::storage::Path::try_from(path).expect("the path is text");
    open(&path).expect("the checkpoint is whole")
}

/// The run with periods of 3, 4 and 6 steps, up to a step.
fn counted_from_zero(model_dir: &Path, last: u64) -> Train {
    Train::new(&sources("t5_experiments"))
        .gin_file("run.gin")
        .bind_text("MODEL_DIR", model_dir)
        .bind("TRAIN_STEPS", last)
        .bind("train.counts_steps_from_zero", "True")
        .bind("train.writes_trainer_log", "True")
        .bind("train.run_eval_before_training", "False")
        .bind("train.stats_period", 3)
        .bind("train.eval_period", 4)
        .bind("train.eval_steps", "None")
        .bind("train.best", "@gimlet.BestModel()")
        .bind("utils.SaveCheckpointConfig.period", 6)
        .bind_text("utils.SaveCheckpointConfig.format", "trainer")
}

/// Compares a training, which `change` varies, with the run of t5-experiments.
fn check(change: impl Fn(Train) -> Train) {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let model_dir = scratch.path().join("ours");
    let folder = sources("t5_experiments");
    let train = Train::new(&folder).gin_file("run.gin").bind_text("MODEL_DIR", &model_dir);
    change(train).succeeds();
    let expected = expected();
    let found = read_scalars(&model_dir.join("train"));
    for tag in ["loss", "weight_gradient_norm", "learning_rate"] {
        assert_near(tag, found[tag].values(), &expected[tag]);
    }
    let held_out = read_scalars(&model_dir.join("training_eval/documents"));
    assert_near("held-out loss", held_out["loss"].values().take(1), &expected["validation_loss"]);
    check_weights(&arrays::open(&model_dir, STEPS), &folder.join("final.safetensors"));
}

fn expected() -> Value {
    let file = sources("t5_experiments").join("steps.json");
    let text = std::fs::read_to_string(file).expect("it is committed");
    serde_json::from_str(&text).expect("it is JSON")
}

fn assert_near<'a>(tag: &str, found: impl Iterator<Item = &'a f64>, expected: &Value) {
    let expected: Vec<f64> = serde_json::from_value(expected.clone()).expect("a list of numbers");
    let found: Vec<f64> = found.copied().collect();
    let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= TOLERANCE * b.abs();
    let are_near = found.iter().zip(&expected).all(is_near);
    assert!(found.len() == expected.len() && are_near, "{tag}: {found:?} instead of {expected:?}");
}

/// Compares the parameters of a checkpoint with a file of weights.
fn check_weights(ours: &dyn Stored, weights: &Path) {
    check_weights_where(ours, weights, |_| true);
}

/// Does the same with some of the parameters.
fn check_weights_where(ours: &dyn Stored, weights: &Path, is_compared: impl Fn(&str) -> bool) {
    let theirs = opened(weights);
    let is_compared = |name: &str| name.starts_with("target/") && is_compared(name);
    for array in theirs.leaves().iter().filter(|array| is_compared(array.name)) {
        let read = |stored: &dyn Stored| stored.read(array.name).expect("it is there").to_f32();
        let [found, expected] =
            [read(ours), read(theirs.as_ref())].map(|values| values.expect("weights are floats"));
        let error = arrays::relative_error(&found, &expected);
        assert!(error <= TOLERANCE, "{} is off by {error:e} of its norm", array.name);
    }
}
