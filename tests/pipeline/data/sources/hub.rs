//! Data sets in the layouts of the hub, of `datasets` and of TFDS.

use gimlet::data::{CacheDatasetPlaceholder, CacheOptions, estimate, split_plans};

use super::*;

fn hub(folder: &std::path::Path, params: &[(&str, &str)]) -> Task {
    let path = format!("'{}'", folder.display());
    task_over("HuggingFaceDataSource", &[&[("path", &path[..])], params].concat())
}

/// Creates a folder with files of these names, each with lines that contain its name.
fn folder_with(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = match name.rsplit_once('.').unwrap().1 {
            "csv" => format!("text\n{name}\n"),
            "zst" => format!("{{\"text\": \"{name}\"}}\n"),
            _ => format!("{{\"text\": \"{name}\"}}\n"),
        };
        match name.ends_with(".zst") {
            true => std::fs::write(path, zstd::encode_all(text.as_bytes(), 3).unwrap()).unwrap(),
            false => std::fs::write(path, text).unwrap(),
        }
    }
    folder
}

#[track_caller]
fn check_names(task: &Task, split: &str, expected: &[&str]) {
    let found = read(task, &options(split)).unwrap();
    let found: Vec<&str> = found.iter().map(|example| example["text"].as_str().unwrap()).collect();
    assert_eq!(found, expected);
}

#[test]
fn saved_data_sets_are_those_that_datasets_loads() {
    let reference = reference_json("sources.json");
    let task = hub(&folder().join("saved"), &[]);
    for split in ["train", "test"] {
        let found = read(&task, &options(split)).unwrap();
        // Each file is read in turn, as in interleaving.
        let mut found: Vec<String> = found.iter().map(|e| e["text"].to_string()).collect();
        found.sort();
        let expected = reference["saved"][split].as_array().unwrap();
        let mut expected: Vec<String> = expected.iter().map(|e| e["text"].to_string()).collect();
        expected.sort();
        assert_eq!(found, expected);
    }
    check(&hub(&folder().join("saved/train"), &[]), &reference["saved"]["train"]);
    check_error(&task, "x", &["`it` has no split 'x'; it has 'train', 'test'"]);
}

#[test]
fn configurations_come_from_the_readme_else_from_folders() {
    let names = ["a/train.jsonl", "b/train.jsonl", "b/test.jsonl.zst", "odd/x.csv", "odd/y.csv"];
    let data = folder_with(&names);
    let readme = "---\nconfigs:\n- config_name: odd\n  data_files:\n  - split: train\n    path: \
                  odd/x.csv\n  - split: other\n    path: [\"odd/y.csv\"]\n---\n";
    std::fs::write(data.path().join("README.md"), readme).unwrap();
    check_names(&hub(data.path(), &[("name", "'odd'")]), "other", &["odd/y.csv"]);
    // The only configuration is the default one.
    check_names(&hub(data.path(), &[]), "train", &["odd/x.csv"]);
    check_names(&hub(data.path(), &[("name", "'b'")]), "test", &["b/test.jsonl.zst"]);
    check_names(&hub(data.path(), &[("data_dir", "'a'")]), "train", &["a/train.jsonl"]);
    let missing = hub(data.path(), &[("name", "'c'")]);
    check_error(&missing, "train", &["has no configuration 'c'", "`data_files`"]);
}

#[test]
fn a_tasks_splits_are_parts_of_the_data_sets() {
    let data = folder_with(&["train.jsonl", "test.jsonl"]);
    let task = hub(data.path(), &[("split", "{'all': 'train+test', 'dev': 'test'}")]);
    check_names(&task, "all", &["train.jsonl", "test.jsonl"]);
    check_names(&task, "dev", &["test.jsonl"]);
    check_error(&task, "train", &["has no split 'train'; it has 'all', 'dev'"]);
    let rows = tempfile::tempdir().unwrap();
    std::fs::copy(folder().join("rows.parquet"), rows.path().join("train.parquet")).unwrap();
    let part =
        hub(rows.path(), &[("split", "{'train': 'train[50%:75%]'}"), ("columns", "['label']")]);
    assert_eq!(part.source.num_input_examples("train"), Some(2));
    let whole = hub(rows.path(), &[]);
    assert_eq!(whole.source.num_input_examples("train"), Some(11));
    // Half of 11 rows is rounded to even, as in TFDS and `datasets`: to 6.
    check(&part, &serde_json::json!([{"label": 6}, {"label": 7}]));
}

#[test]
fn a_part_of_a_shorter_split_is_all_of_it_on_the_hub() {
    let data = folder_with(&["train.jsonl"]);
    for part in ["train[:100]", "train[-100:]"] {
        let splits = format!("{{'train': '{part}'}}");
        check_names(&hub(data.path(), &[("split", &splits)]), "train", &["train.jsonl"]);
    }
}

#[test]
fn parts_of_splits_are_those_that_datasets_gives() {
    let reference = &reference_json("parts.json");
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in reference["files"].as_object().unwrap() {
        std::fs::write(folder.path().join(name), text.as_str().unwrap()).unwrap();
    }
    let saved = folder.path().join("arrow");
    std::fs::create_dir(&saved).unwrap();
    std::fs::copy(super::folder().join("rows.stream"), saved.join("train.arrow")).unwrap();
    for case in reference["parts"].as_array().unwrap() {
        let (files, slice) = (case["files"].as_str().unwrap(), case["slice"].as_str().unwrap());
        let files = format!("{{'train': {files}}}");
        let splits = format!("{{'train': '{slice}'}}");
        let task = hub(folder.path(), &[("data_files", &files), ("split", &splits)]);
        let found = read(&task, &options("train")).unwrap();
        let found: Vec<&str> = found.iter().map(|e| e["text"].as_str().unwrap()).collect();
        assert_eq!(serde_json::json!(found), case["texts"], "{files} {slice}");
    }
    let rows = |slice: &str| {
        let splits = format!("{{'train': '{slice}'}}");
        let task = hub(&saved, &[("split", &splits), ("columns", "['label']")]);
        read(&task, &options("train")).unwrap()
    };
    let labels: Vec<i64> = rows("train").iter().map(|e| e["label"].as_i64().unwrap()).collect();
    let part: Vec<i64> = rows("train[2:4]").iter().map(|e| e["label"].as_i64().unwrap()).collect();
    assert_eq!(part, labels[2..4]);
}

fn tfds(params: &[(&str, &str)]) -> Task {
    let dir = format!("'{}'", folder().join("tfds").display());
    task_over("TfdsDataSource", &[&[("tfds_data_dir", &dir[..])], params].concat())
}

#[test]
fn tfds_data_sets_are_read_as_tfds_reads_them() {
    let reference = &reference_json("sources.json")["tfds"];
    for version in ["1.2.0", "1.*.*"] {
        let name = format!("'tiny/small:{version}'");
        check(&tfds(&[("tfds_name", &name)]), &reference["examples"]);
    }
    for (slice, ids) in reference["slices"].as_object().unwrap() {
        let splits = format!("{{'train': '{slice}'}}");
        let task = tfds(&[("tfds_name", "'tiny/small:1.2.0'"), ("splits", &splits)]);
        let found = read(&task, &options("train")).unwrap();
        let found: Vec<_> = found.iter().map(|example| example["id"].clone()).collect();
        assert_eq!(serde_json::json!(found), *ids, "{slice}");
        let count = ids.as_array().unwrap().len() as u64;
        assert_eq!(task.source.num_input_examples("train"), Some(count), "{slice}");
    }
}

#[test]
fn the_cache_of_a_part_of_a_tfds_data_set_is_estimated() {
    for (slice, expected) in [("train", 17), ("train[:50%]", 8)] {
        let splits = format!("{{'train': '{slice}'}}");
        let mut task = tfds(&[("tfds_name", "'tiny/small:1.2.0'"), ("splits", &splits)]);
        let step = CacheDatasetPlaceholder { required: false };
        task.preprocessors.push(Preprocessor::CacheDatasetPlaceholder(step));
        let options = CacheOptions::default();
        let plan = split_plans(&task, &options).unwrap().remove(0);
        let estimate = estimate(&task, &plan, &options, u64::MAX).unwrap().expect("records tell");
        assert!(estimate.num_examples.abs_diff(expected) <= 1, "{slice}: {estimate:?}");
        assert!(estimate.num_sampled <= expected, "one file is read: {estimate:?}");
    }
}

#[test]
fn an_unknown_tfds_data_set_says_where_it_was_looked_for() {
    let named = |name: &str| tfds(&[("tfds_name", &format!("'{name}'"))]);
    let expected = ["`tiny/small:2.0.0` is not found in", "that folder has `1.2.0`", "tfds://tiny"];
    check_error(&named("tiny/small:2.0.0"), "train", &expected);
    check_error(&named("tiny/small"), "train", &["must contain a version number, got: tiny/small"]);
    check_error(
        &named("tiny/small:1.2.0"),
        "x",
        &["has no split 'x'; it has 'train', 'validation'"],
    );
}

#[test]
fn a_mapped_folder_stands_for_a_tfds_data_set() {
    let data = folder_with(&["en/c4-train.00000.json", "en/c4-validation.00000.json"]);
    let version = folder().join("tfds/tiny/small/1.2.0").display().to_string();
    let map = [
        ("tfds://mapped/en:1.0.0".to_string(), data.path().join("en").display().to_string()),
        ("tfds://mapped/whole:1.0.0".to_string(), version),
    ];
    // Held as long as this test sets the map of the process.
    let _held = crate::storage::environment(&[]);
    gimlet::storage::set_path_map(map.to_vec()).unwrap();
    let hub = task_over("TfdsDataSource", &[("tfds_name", "'mapped/en:1.0.0'")]);
    check_names(&hub, "validation", &["en/c4-validation.00000.json"]);
    let whole = task_over("TfdsDataSource", &[("tfds_name", "'mapped/whole:1.0.0'")]);
    assert_eq!(read(&whole, &options("train")).unwrap().len(), 17);
}
