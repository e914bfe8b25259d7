//! Runs of real T5X, repeated: `make_runs.py` made the expected results, and names the versions.
//!
//! float32 on the CPU. T5X's XLA and libtorch add in different orders, so metrics may differ by
//! 1e-4 of their value after six steps, those of the first step by 1e-6, and arrays by 1e-4 of their norm.

mod decode;
mod decode_prefixes;
mod infer;
mod layers;
mod states;

use std::fs::File;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::arrays;
use crate::command::{Train, sources};
use crate::events::read_scalars;
use crate::processes::launched;

const STEPS: u64 = 6;

#[test]
fn an_unpacked_run_repeats_that_of_t5x() {
    check("unpacked");
}

#[test]
fn a_packed_run_repeats_that_of_t5x() {
    check("packed");
}

#[test]
fn a_run_with_layers_in_one_array_repeats_that_of_t5x() {
    check("scanned");
}

#[test]
fn a_run_in_microbatches_repeats_that_of_t5x() {
    check("microbatches");
}

#[test]
fn the_recipe_for_gpus_repeats_that_of_t5x() {
    check("gpu");
}

#[test]
fn a_prefix_language_model_repeats_that_of_t5x() {
    check("prefix_lm");
}

#[test]
fn a_packed_prefix_language_model_repeats_that_of_t5x() {
    check("prefix_lm_packed");
}

#[test]
fn a_causal_language_model_repeats_that_of_t5x() {
    check("causal_lm");
}

#[test]
fn a_divided_run_repeats_that_of_t5x() {
    check_on("packed", |train| on_two_by_two(train, 2));
}

#[test]
#[ignore = "takes half a minute: `make soak`"]
fn every_divided_run_repeats_that_of_t5x() {
    for name in
        ["unpacked", "packed", "scanned", "gpu", "prefix_lm", "prefix_lm_packed", "causal_lm"]
    {
        for parameter_dims in [1, 2] {
            eprintln!("{name}, parameter_partitioning_dims = {parameter_dims}");
            check_on(name, |train| on_two_by_two(train, parameter_dims));
        }
    }
}

/// Four processes, of which two divide the model and two the batches; with two dimensions of parameters these too.
fn on_two_by_two(train: Train, parameter_dims: usize) -> Train {
    let rules = "partitioning.standard_logical_axis_rules";
    let train = train
        .bind("partitioning.PjitPartitioner.num_partitions", 2)
        .bind("partitioning.PjitPartitioner.logical_axis_rules", format!("@{rules}()"))
        .bind(&format!("{rules}.parameter_partitioning_dims"), parameter_dims);
    launched(train, 4)
}

/// `compare_flaxformer.py` found that real flaxformer repeats that run too.
#[test]
fn a_run_of_flaxformers_modules_repeats_that_of_t5x() {
    check_file("flaxformer.gin", "unpacked", |train| train);
}

/// No other project's run is repeated here: `tests/numerics` compares LongT5 with transformers and flaxformer.
#[test]
fn a_divided_run_of_longt5_repeats_that_of_one_process() {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let train = |name: &str| {
        let to = scratch.path().join(name);
        let train = Train::new(&sources("t5x")).gin_file("longt5.gin").bind_text("MODEL_DIR", &to);
        (train.bind_text("INITIAL_CHECKPOINT_PATH", "none"), to)
    };
    let (alone, whole) = train("alone");
    alone.succeeds();
    let (divided, parts) = train("divided");
    on_two_by_two(divided, 2).succeeds();
    arrays::assert_close(&arrays::open(&parts, 3), &arrays::open(&whole, 3), 1e-4);
}

fn check(name: &str) {
    check_on(name, |train| train);
}

fn check_on(name: &str, change: impl Fn(Train) -> Train) {
    check_file(&format!("{name}.gin"), name, change);
}

/// Compares a training of that gin file with T5X's run of that name.
fn check_file(file: &str, name: &str, change: impl Fn(Train) -> Train) {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let (t5x, ours) = (scratch.path().join("t5x"), scratch.path().join("ours"));
    unpack_checkpoint(name, 0, &t5x);
    unpack_checkpoint(name, STEPS, &t5x);
    let train = Train::new(&sources("t5x"))
        .gin_file(file)
        .bind_text("INITIAL_CHECKPOINT_PATH", t5x.join("checkpoint_0"))
        .bind_text("MODEL_DIR", &ours);
    change(train).succeeds();
    check_metrics(&read_log(name), &ours);
    arrays::assert_close(&arrays::open(&ours, STEPS), &arrays::open(&t5x, STEPS), 1e-4);
}

fn check_metrics(log: &Value, model_dir: &Path) {
    let found = read_scalars(&model_dir.join("train"));
    let steps = log["metrics"].as_array().expect("a list of steps");
    assert_eq!(steps.len() as u64, STEPS);
    for (step, metrics) in (1..).zip(steps) {
        for (tag, expected) in metrics.as_object().expect("metrics by tag") {
            let expected = expected.as_f64().expect("a number");
            let found = found.get(tag).and_then(|points| points.get(&step));
            let found = *found.unwrap_or_else(|| panic!("step {step} has no {tag}"));
            let tolerance = if step == 1 { 1e-6 } else { 1e-4 };
            assert!(
                (found - expected).abs() <= tolerance * expected.abs(),
                "step {step}: {tag} is {found}, T5X has {expected}"
            );
        }
    }
}

fn read_log(name: &str) -> Value {
    let file = File::open(sources("t5x").join(name).join("log.json")).expect("the log is there");
    serde_json::from_reader(file).expect("the log is JSON")
}

/// Unpacks T5X's checkpoint of a step to `to/checkpoint_STEP`.
fn unpack_checkpoint(name: &str, step: u64, to: &Path) {
    std::fs::create_dir_all(to).expect("the folder can be made");
    let archive = sources("t5x").join(name).join(format!("checkpoint_{step}.tar.gz"));
    let status = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(to).status();
    assert!(status.expect("tar starts").success());
}
