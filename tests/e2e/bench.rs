//! `gimlet bench`: its measurements of a tiny model, after which no files remain.

use std::fs;

use serde_json::Value;

use crate::command::Train;
use crate::folder::Folder;

/// The only object on standard output.
fn measured(command: &Train) -> Value {
    let ended = command.clone().arg("--json").succeeds();
    let object = serde_json::from_str(&ended.stdout);
    object.unwrap_or_else(|error| panic!("{error} in:\n{}{}", ended.stdout, ended.stderr))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("expected a number, found {value}"))
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(number).collect()
}

fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found}, expected {expected}");
}

#[test]
fn a_training_step_is_timed_counted_and_broken_down() {
    let folder = Folder::new();
    let bench = folder.pretrain(4).bench("train_step").arg("--steps=3").arg("--warmup=2");
    let found = measured(&bench);
    assert_eq!(found["bench"], "train_step");
    assert_eq!(found["device"], "cpu");
    assert_eq!(found["threads"], 1);
    assert_eq!(found["dtype"], "float32");
    let shape = ["rows", "inputs_length", "targets_length"].map(|name| found[name].clone());
    assert_eq!(shape, [8, 64, 32]);
    assert_eq!(numbers(&found["step_seconds"]).len(), 3);
    assert_eq!(numbers(&found["step_cpu_seconds"]).len(), 3);
    let losses = numbers(&found["losses"]);
    assert_eq!((losses.len(), losses[4]), (5, number(&found["loss"])));
    // New parameters have no knowledge of the 384 tokens; the loss is a sum over targets.
    assert!((losses[0] / 256.0 - 384f64.ln()).abs() < 2.0, "{losses:?}");
    // Tokens of a stack take 8 * 16 * 16 + 6 * 16 * 32 operations, a pair of positions 4 * 16.
    let token = 5120.0;
    let encoder = 64.0 * token + 64.0 * 64.0 * 64.0;
    let cross = 4.0 * (32.0 + 64.0) * 16.0 * 16.0 + 32.0 * 64.0 * 64.0;
    let decoder = 32.0 * token + 32.0 * 32.0 * 64.0 + cross;
    let flops = 3.0 * 8.0 * (encoder + decoder + 2.0 * 32.0 * 16.0 * 384.0);
    assert_eq!(number(&found["model_flops"]), flops);
    let median = number(&found["median_seconds"]);
    assert_close(number(&found["flops_per_second"]), flops / median);
    assert_close(number(&found["tokens_per_second"]), 8.0 * 96.0 / median);
    assert_close(number(&found["sequences_per_second"]), 8.0 / median);
    assert!(number(&found["best_seconds"]) <= median);
    assert_eq!([&found["peak_flops"], &found["utilization"]], [&Value::Null; 2]);
    assert!(number(&found["peak_memory_bytes"]) > 50e6);
    check_breakdown(&found["breakdown"]);
}

#[test]
fn batches_double_until_the_limit_and_the_fastest_is_named() {
    let folder = Folder::new();
    let bench = || folder.pretrain(4).bench("train_step").arg("--steps=1").arg("--warmup=0");
    let found = measured(&bench().arg("--find_batch=32"));
    assert_eq!(found["bench"], "find_batch");
    let sizes = found["sizes"].as_array().expect("a list");
    let rows: Vec<f64> = sizes.iter().map(|size| number(&size["rows"])).collect();
    assert_eq!(rows, [8.0, 16.0, 32.0]);
    let speeds = sizes.iter().map(|size| number(&size["sequences_per_second"]));
    let best = speeds.fold(0.0, f64::max);
    assert_eq!(number(&found["best"]["sequences_per_second"]), best);
    let said = bench().arg("--find_batch=8").succeeds().stdout;
    assert!(said.starts_with("8 rows "), "{said}");
    assert!(said.contains("16 rows are more than --find_batch=8\nbest   8 rows, "), "{said}");
    // A row of so many tokens needs more than any machine has.
    let lengths = "{'inputs': 400000000, 'targets': 32}";
    let ended = bench().arg("--find_batch").bind("TASK_FEATURE_LENGTHS", lengths).run();
    assert_eq!(ended.status, Some(2), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("of memory, and "), "{}", ended.stderr);
    let together = bench().arg("--find_batch");
    let together = together.tool(&["launch", "--nproc_per_node=2", "bench", "train_step"]).run();
    assert!(together.stderr.contains("one process, without a launcher"), "{}", together.stderr);
}

/// Rows of 2,048 inputs have masks and biases of all pairs of positions, which take most of the memory.
#[test]
fn the_memory_of_long_rows_is_foretold() {
    let folder = Folder::new();
    let memory = |inputs: u64| {
        let bench = folder.pretrain(4).bench("train_step").arg("--steps=1").arg("--warmup=0");
        let lengths = format!("{{'inputs': {inputs}, 'targets': 32}}");
        let found = measured(&bench.bind("TASK_FEATURE_LENGTHS", lengths).bind("BATCH_SIZE", 2));
        ["peak_memory_bytes", "foretold_memory_bytes"].map(|name| number(&found[name]))
    };
    // The process has more or less of its programs' files in memory: 68 MB apart for a libtorch that was read from a disk and one that was
    // just written.
    let [[peak, foretold], [short_peak, short_foretold]] = [2048, 32].map(memory);
    let [peak, foretold] = [peak - short_peak, foretold - short_foretold];
    assert!(foretold > 100e6, "{foretold} foretold");
    assert!((foretold / peak - 1.0).abs() < 0.15, "{foretold} foretold, {peak} measured");
}

fn check_breakdown(breakdown: &Value) {
    assert!(number(&breakdown["seconds"]) > 0.0);
    assert_eq!(breakdown["timeline"], "host");
    let shares = breakdown["shares"].as_object().expect("an object");
    let names: Vec<&str> = shares.keys().map(String::as_str).collect();
    let parts = ["GEMM", "attention", "norms and activations", "embeddings", "loss", "optimizer"];
    assert_eq!(names, [&parts[..], &["communication", "other", "gaps"]].concat());
    assert_close(shares.values().map(number).sum(), 1.0);
    for part in parts {
        assert!(number(&shares[part]) > 0.001, "{part} of {shares:?}");
    }
}

#[test]
fn processes_that_are_timed_together_send_what_is_foretold() {
    let folder = Folder::new();
    let bench = folder.pretrain(4).arg("--steps=2").arg("--warmup=1");
    let bench = bench.bind("partitioning.PjitPartitioner.spread_optimizer_state", "True");
    let found = measured(&bench.tool(&["launch", "--nproc_per_node=2", "bench", "train_step"]));
    assert_eq!([&found["processes"], &found["data"]], [2, 2]);
    assert!(number(&found["bytes_sent"]) > 0.0);
    assert_eq!(found["bytes_sent"], found["bytes_foretold"]);
    assert!(number(&found["seconds_waited"]) > 0.0);
    assert!(number(&found["breakdown"]["shares"]["communication"]) > 0.0);
}

#[test]
fn people_read_lines_and_nothing_is_written() {
    let folder = Folder::new();
    // Missing files do not matter.
    let bench = folder.pretrain(4).bind("MIXTURE_OR_TASK_NAME", "'nothing'").bench("train_step");
    let ended = bench.arg("--steps=2").arg("--warmup=1").succeeds();
    let words = [
        "model ",
        "8 rows of 64 inputs and 32 targets",
        "cpu, 1 thread\n",
        "best of 2",
        "34.60 MFLOP of the model in a step",
        " in step 3\n",
        "optimizer ",
        "gaps ",
    ];
    for words in words {
        assert!(ended.stdout.contains(words), "`{words}` is not in:\n{}", ended.stdout);
    }
    assert_eq!(ended.stderr, "");
    assert!(!fs::exists(folder.path("model")).expect("the folder is readable"));
}

#[test]
fn decoding_follows_the_configured_function() {
    let folder = Folder::new();
    let bench = || folder.pretrain(4).bench("decode").arg("--steps=2").arg("--warmup=1");
    let beams = bench().bind("models.EncoderDecoderModel.predict_batch_with_aux.num_decodes", 3);
    let found = measured(&beams);
    assert_eq!((&found["bench"], &found["decode_fn"]), (&"decode".into(), &"beam_search".into()));
    assert_eq!((&found["num_decodes"], &found["targets_length"]), (&3.into(), &32.into()));
    let (median, encoder) = (number(&found["median_seconds"]), number(&found["encoder_seconds"]));
    assert!(encoder < median, "{found}");
    assert_close(number(&found["tokens_per_second"]), 8.0 * 32.0 / median);
    assert_close(number(&found["sequences_per_second"]), 8.0 / median);

    folder.write(
        "greedy.gin",
        "from t5x import decoding\nfrom t5x import models\n\
         models.EncoderDecoderModel.decode_fn = @decoding.temperature_sample\n\
         decoding.temperature_sample.temperature = 0.0\n\
         decoding.temperature_sample.max_decode_steps = 5\n",
    );
    let found = measured(&bench().gin_file("greedy.gin"));
    assert_eq!(found["decode_fn"], "temperature_sample");
    assert_eq!(found["targets_length"], 5);
    let median = number(&found["median_seconds"]);
    assert_close(number(&found["tokens_per_second"]), 8.0 * 5.0 / median);
}

#[test]
fn what_cannot_be_measured_is_said() {
    let folder = Folder::new();
    let check = |bench: Train, words: &[&str]| {
        let ended = bench.run();
        assert_eq!(ended.status, Some(2), "{}{}", ended.stdout, ended.stderr);
        for words in words {
            assert!(ended.stderr.contains(words), "`{words}` is not in:\n{}", ended.stderr);
        }
    };
    let run = || folder.pretrain(4);
    check(run().bench("train_stp"), &["'train_stp'", "train_step"]);
    check(run().bench("train_step").arg("--steps=0"), &["--steps <N>", "zero"]);
    check(run().bench("decode").arg("--gin.optimizer"), &["--gin.<param>=<value>"]);
    check(run().bench("data").bind("utils.DatasetConfig.pck", "True"), &["did you mean `pack`?"]);
    let without = || run().bind("TASK_FEATURE_LENGTHS", "{'inputs': 64}");
    for measured in ["train_step", "decode", "data"] {
        check(
            without().bench(measured),
            &["positive length for 'targets'", "TASK_FEATURE_LENGTHS"],
        );
    }
}
