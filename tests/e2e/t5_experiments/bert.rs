//! A pretraining of BERT by real t5-experiments, repeated: `bert/make_run.py` made the expected results.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{TOLERANCE, assert_near, check_weights, opened};
use crate::command::{Train, sources};
use crate::events::read_scalars;
use crate::processes::launched;

fn expected() -> Value {
    let file = sources("t5_experiments/bert").join("steps.json");
    let text = fs::read_to_string(file).expect("it is committed");
    serde_json::from_str(&text).expect("it is JSON")
}

fn run(model_dir: &Path) -> Train {
    let train = Train::new(&sources("t5_experiments/bert")).gin_file("run.gin");
    train.bind_text("MODEL_DIR", model_dir).bind("TRAIN_STEPS", 12)
}

/// Compares losses, norms and rates of each step, and the final weights.
fn check(change: impl Fn(Train) -> Train) {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let model_dir = scratch.path().join("ours");
    change(run(&model_dir)).succeeds();
    let (expected, found) = (expected(), read_scalars(&model_dir.join("train")));
    for tag in ["loss", "loss_mlm", "loss_nsp", "weight_gradient_norm", "learning_rate"] {
        assert_near(tag, found[tag].values(), &expected[tag]);
    }
    let weights = sources("t5_experiments/bert").join("final.safetensors");
    check_weights(&crate::arrays::open(&model_dir, 13), &weights);
}

#[test]
fn a_bert_repeats_that_of_t5_experiments() {
    check(|train| train);
}

#[test]
fn a_bert_in_microbatches_of_two_processes_repeats_that_of_t5_experiments() {
    check(|train| launched(train.bind("trainer.Trainer.num_microbatches", 2), 2));
}

/// Three of its four validations see the same examples in other batches.
#[test]
fn a_bert_logs_what_t5_experiments_logs() {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let model_dir = scratch.path().join("ours");
    let train = run(&model_dir)
        .bind("train.stats_period", 3)
        .bind("train.eval_period", 4)
        .bind("train.best", "@gimlet.BestModel()")
        .bind_text("gimlet.BestModel.metric", "accuracy_mlm")
        .bind_text("gimlet.BestModel.mode", "max")
        .bind("utils.SaveCheckpointConfig.period", 6)
        .bind_text("utils.SaveCheckpointConfig.format", "trainer");
    train.succeeds();
    let found = read_scalars(&model_dir);
    for (tag, values) in expected()["tensorboard"].as_object().expect("values by tag") {
        for (step, value) in values.as_object().expect("values by step") {
            let (at, value) = (step.parse::<i64>().expect("a step"), value.as_f64().expect("it"));
            let near = found[tag][&at];
            assert!((near - value).abs() <= TOLERANCE * value.abs(), "{tag} {at}: {near}, {value}");
        }
    }
    let theirs = sources("t5_experiments/bert").join("final.safetensors");
    check_weights(&*opened(&model_dir.join("model_12.pth")), &theirs);
}
