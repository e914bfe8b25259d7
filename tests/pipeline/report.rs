//! `gimlet report`, as a user calls it, on folders as runs leave them.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use gimlet::storage::Path as StoragePath;
use gimlet::telemetry::{EventWriter, MetricLines};
use serde_json::{Value, json};

use crate::storage::faulty::Bucket;

/// A configuration that differs from another one in its number of steps.
fn config(train_steps: u64) -> String {
    let library = concat!(env!("CARGO_MANIFEST_DIR"), "/gin/t5x/configs/runs/pretrain.gin");
    format!(
        "include \"{library}\"\nTRAIN_STEPS = {train_steps}\nMIXTURE_OR_TASK_NAME = \"sums\"\n\
         TASK_FEATURE_LENGTHS = {{\"inputs\": 8, \"targets\": 8}}\nMODEL_DIR = \"/runs/</script>\"\n"
    )
}

/// Makes the MODEL_DIR of a run with a training, evaluations, predictions, two starts and a checkpoint.
fn model_dir(dir: &StoragePath, loss: f64) {
    let write = |name: &str, text: &str| {
        let file = dir.join(name);
        file.folder().create_dir_all().unwrap();
        file.write_atomic(text.as_bytes()).unwrap();
    };
    let mut lines = MetricLines::new(dir.join("train/metrics.jsonl"), 0);
    for step in (10..=200).step_by(10) {
        let loss = loss + 100.0 / step as f64;
        let tag = "loss_per_nonpadding_target_token";
        lines.scalars(step, [(tag, loss), ("timing/data_wait_fraction", 0.0625), ("others", 1.0)]);
    }
    drop(lines);
    for (part, tag, value) in
        [("training_eval/sums", "accuracy", 0.625), ("inference_eval/sums", "eval/exact", 37.5)]
    {
        EventWriter::new(dir.join(part), Some(0)).scalars(200, [(tag, value)]);
    }
    let example = json!({
        "input": {"inputs_pretokenized": "1 < 2 & <b>"}, "target": "yes", "prediction": "no"
    });
    write("inference_eval/sums-000200.jsonl", &format!("{example}\n"));
    let start = |step: u64| {
        json!({
            "time": 784_111_777, "step": step, "device": "CPU, 2 cores", "gimlet": "0.1.0 (abc)",
            "bound_at": {"TRAIN_STEPS": "--gin.TRAIN_STEPS"}
        })
        .to_string()
            + "\n"
    };
    write("starts.jsonl", &(start(0) + &start(120)));
    write("config.gin", &config((loss * 100.0) as u64));
    write("model-info.txt", "Total number of parameters: 1234567\n\n");
    write("checkpoint_200.tmp-1/part", "");
}

/// Makes the MODEL_DIR of a run in a folder on disk.
fn local_model_dir(folder: &Path, name: &str, loss: f64) -> PathBuf {
    let local = folder.join(name);
    model_dir(&StoragePath::try_from(&*local).unwrap(), loss);
    local
}

/// Status and standard error of `gimlet report` in a folder.
fn report(folder: &Path, words: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gimlet"));
    let output = command.current_dir(folder).arg("report").args(words).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// The page of folders, which must succeed.
fn page(folder: &Path, words: &[&str]) -> String {
    let (status, error) = report(folder, words);
    assert_eq!(status, 0, "{error}");
    fs::read_to_string(folder.join("report.html")).unwrap()
}

/// The data of the charts in a page.
fn data(page: &str) -> Value {
    let start = "id=\"data\">";
    let after = &page[page.find(start).expect("the page has data") + start.len()..];
    serde_json::from_str(&after[..after.find("</script>").unwrap()]).unwrap()
}

#[test]
fn a_page_holds_the_numbers_of_its_runs_and_stays_the_same() {
    let folder = tempfile::tempdir().unwrap();
    local_model_dir(folder.path(), "base", 2.0);
    local_model_dir(folder.path(), "slower", 3.0);
    let both = page(folder.path(), &["base", "slower"]);
    assert_eq!(both, page(folder.path(), &["base", "slower"]));
    let data = data(&both);
    assert_eq!(data["labels"], json!(["base", "slower"]));
    assert_eq!(data["restarts"], json!([[120], [120]]));
    let loss = &data["charts"][0];
    assert_eq!(loss["title"], "Loss per target token");
    assert_eq!(
        (&loss["curves"][0]["x"][0], &loss["curves"][0]["y"][0]),
        (&json!(10), &json!(12.0))
    );
    assert_eq!(loss["curves"][1]["y"][19], 3.5);
    for shown in [
        "sums: accuracy (held out)",
        "0.625",
        "sums: exact",
        "37.5",
        "0.0625",
        "1,234,567",
        "1 &lt; 2 &amp; &lt;b&gt;",
        "1994-11-06 08:49 UTC",
        "CPU, 2 cores",
        "0.1.0 (abc)",
        "checkpoint_200.tmp-1",
        "half-written",
        "--gin.TRAIN_STEPS",
        "<th>train.total_steps</th><td>200</td><td>300</td>",
    ] {
        assert!(both.contains(shown), "the page does not show {shown}");
    }
    assert_eq!(both.matches("</script>").count(), 2);
}

#[test]
fn a_page_is_one_file_that_loads_nothing() {
    let folder = tempfile::tempdir().unwrap();
    local_model_dir(folder.path(), "base", 2.0);
    let page = page(folder.path(), &["base"]);
    assert!(page.contains("default-src 'none'") && page.len() < 200_000);
    for loading in [" src=", "<link", "@import", "url(", "fetch(", "XMLHttpRequest", "href=\"http"]
    {
        assert!(!page.contains(loading), "the page has {loading}");
    }
}

#[test]
fn runs_in_a_bucket_have_the_same_page() {
    let folder = tempfile::tempdir().unwrap();
    local_model_dir(folder.path(), "base", 2.0);
    let bucket = Bucket::new();
    let remote = bucket.path("runs/base");
    model_dir(&remote, 2.0);
    let data_of = |dir: &str| data(&page(folder.path(), &[dir]));
    assert_eq!(data_of(remote.as_str()), data_of("base"));
}

#[test]
fn long_runs_make_no_large_pages() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("long/train")).unwrap();
    let mut lines = String::new();
    for step in 1..=100_000 {
        let loss = if step == 54_321 { 1000.0 } else { 1.0 + f64::from(step % 97) / 96.7 };
        lines += &format!("{{\"step\":{step},\"loss\":{loss},\"weight_gradient_norm\":{loss}}}\n");
    }
    fs::write(folder.path().join("long/train/metrics.jsonl"), lines).unwrap();
    let page = page(folder.path(), &["long"]);
    assert!(page.len() < 300_000, "{}", page.len());
    let data = data(&page);
    let curve = &data["charts"][0]["curves"][0];
    let peak = curve["x"].as_array().unwrap().iter().position(|step| *step == json!(54_321));
    assert_eq!(curve["y"][peak.expect("the peak is kept")], 1000.0);
}

#[test]
fn a_folder_of_no_run_is_refused_and_a_damaged_one_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |words: &[&str], part: &str| {
        let (status, error) = report(folder.path(), words);
        assert!(status == 2 && error.contains(part), "{status} {error}");
    };
    refused(&["missing"], "`missing` does not exist: expected the MODEL_DIR of a run");
    fs::create_dir(folder.path().join("other")).unwrap();
    refused(
        &["other"],
        "`other` is not the MODEL_DIR of a run, and holds none: a run has one of config.gin, train",
    );
    refused(&["--watch=0", "other"], "--watch");

    fs::create_dir(folder.path().join("empty")).unwrap();
    fs::write(folder.path().join("empty/config.gin"), "x = \n").unwrap();
    let empty = page(folder.path(), &["empty"]);
    assert!(
        empty.contains("empty has no metrics yet")
            && empty.contains("config.gin: a value is missing")
    );

    let dir = local_model_dir(folder.path(), "damaged", 2.0);
    let events = fs::read_dir(dir.join("training_eval/sums")).unwrap().next().unwrap().unwrap();
    let mut bytes = fs::read(events.path()).unwrap();
    let last = bytes.len() - 5;
    bytes[last] ^= 1;
    fs::write(events.path(), bytes).unwrap();
    let lines = dir.join("train/metrics.jsonl");
    let whole = fs::read_to_string(&lines).unwrap();
    fs::write(&lines, whole + "{\"step\":210,\"lo").unwrap();
    let page = page(folder.path(), &["damaged"]);
    assert!(page.contains("1 line, the first at 21, is not an object"));
    assert!(page.contains("is damaged at byte") && !page.contains("0.625"));
}
