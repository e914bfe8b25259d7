//! Writing of a cache, with failures at any time.

use std::io::Write;

use super::*;
use crate::storage::faulty::{Bucket, Fault};
use crate::storage::leases::eventually;

#[test]
fn a_cache_holds_what_the_source_gives_up_to_the_cache_step() {
    let (texts, folder) = (folder_of_text(&[20, 0, 35]), tempfile::tempdir().unwrap());
    let task = byte_task(source_of(&texts), Vec::new());
    let direct = examples(&task, options(None)).unwrap();
    write(&task, &folder, 7).unwrap();
    let cached = examples(&task, options(Some(caches(&folder)))).unwrap();
    assert_ne!(cached, direct, "examples are shuffled");
    assert_eq!(sorted(cached), sorted(direct.clone()));
    // One shard, which is read in order, has the order of the source.
    let folder = tempfile::tempdir().unwrap();
    let mut one = task.clone();
    one.source = text_source(&format!("{}/0.txt", texts.path().display()));
    write(&one, &folder, 1).unwrap();
    let cached = examples(&one, options(Some(caches(&folder)))).unwrap();
    assert_eq!(cached, examples(&one, options(None)).unwrap());
}

#[test]
fn the_layout_is_seqios() {
    let (texts, folder) = (folder_of_text(&[10]), tempfile::tempdir().unwrap());
    write(&byte_task(source_of(&texts), Vec::new()), &folder, 2).unwrap();
    let found = contents(&folder.path().join("texts/bytes"));
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    let shards = ["train.tfrecord-00000-of-00002", "train.tfrecord-00001-of-00002"];
    assert_eq!(
        names,
        [[".recipe.json", "COMPLETED", "info.train.json", "stats.train.json"].as_slice(), &shards]
            .concat()
    );
    assert_eq!(found["COMPLETED"], b"tfrecord");
    let stats: serde_json::Value = serde_json::from_slice(&found["stats.train.json"]).unwrap();
    let lines = std::fs::read_to_string(texts.path().join("0.txt")).unwrap();
    let total: usize = lines.lines().map(str::len).sum();
    let longest = lines.lines().map(str::len).max();
    let expected = serde_json::json!({
        "examples": 10, "inputs_max_tokens": longest, "inputs_tokens": total,
        "targets_max_tokens": longest, "targets_tokens": total,
    });
    assert_eq!(stats, expected);
    let info: serde_json::Value = serde_json::from_slice(&found["info.train.json"]).unwrap();
    assert_eq!(info["features"]["inputs"], serde_json::json!({"dtype": "int32", "shape": [null]}));
    assert_eq!(info["num_shards"], 2);
}

#[test]
fn rows_of_different_lengths_are_cached_as_seqio_caches_ragged_tensors() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let lines = [
        r#"{"rows": [[1], [2, 3]], "words": [["a"], []], "targets": [1]}"#,
        r#"{"rows": [], "words": [["b", "c"]], "targets": []}"#,
        r#"{"rows": [[], [4]], "words": [], "targets": [2, 3]}"#,
    ];
    std::fs::write(data.path().join("rows.jsonl"), lines.join("\n")).unwrap();
    let source = json_source(&format!("{}/rows.jsonl", data.path().display()));
    let vocabulary = VocabularySpec::Byte(ByteVocabulary::of(0));
    let task = task("ragged", source, vec![placeholder()], features(&vocabulary, &["targets"]));
    write(&task, &folder, 1).unwrap();
    let info = std::fs::read(folder.path().join("ragged/info.train.json")).unwrap();
    let info: serde_json::Value = serde_json::from_slice(&info).unwrap();
    let ragged = |dtype| serde_json::json!({"dtype": dtype, "shape": [null, null]});
    assert_eq!(info["features"]["rows"], ragged("int32"));
    assert_eq!(info["features"]["words"], ragged("string"));
    // One shard is read in the order of the source; a list without values has no type there.
    let json = |found: Vec<Features>| serde_json::to_value(found).unwrap();
    let cached = examples(&task, options(Some(caches(&folder)))).unwrap();
    assert_eq!(json(cached), json(examples(&task, options(None)).unwrap()));
}

/// Writes two files of 800 lines of JSON. Line 700 of the second has its full length, but is
/// malformed if `broken`.
pub(super) fn write_ids(folder: &tempfile::TempDir, broken: bool) {
    for file in 0..2 {
        let line = |i: usize| match (file, i) {
            (1, 699) if broken => "{\"inputs\": [699, 1], \"targets\": [699, 1]?\n".to_string(),
            _ => format!("{{\"inputs\": [{i}, 1], \"targets\": [{i}, {file}]}}\n"),
        };
        let text: String = (0..800).map(line).collect();
        std::fs::write(folder.path().join(format!("{file}.jsonl")), text).unwrap();
    }
}

pub(super) fn ids_task(folder: &tempfile::TempDir) -> Task {
    let source = json_source(&format!("{}/*.jsonl", folder.path().display()));
    let features = features(&ids_vocabulary(), &["inputs", "targets"]);
    task("ids", source, vec![placeholder()], features)
}

#[test]
fn what_a_killed_run_leaves_is_not_taken_and_the_next_goes_on() {
    let [lines, expected, folder] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let task = ids_task(&lines);
    write_ids(&lines, false);
    let whole = write(&task, &expected, 4).unwrap();
    assert_eq!(whole[0], 256);
    // Malformed JSON ends the run as a signal would: nothing is cleaned up.
    write_ids(&lines, true);
    write(&task, &folder, 4).unwrap_err();
    let error = examples(&task, options(Some(caches(&folder)))).unwrap_err().to_string();
    assert!(error.contains("/ids` (there, but not complete)"), "{error}");
    // A killed run may also have written records that it has not noted.
    let shard = folder.path().join("ids/train.tfrecord-00000-of-00004");
    let mut bytes = std::fs::read(&shard).unwrap();
    assert!(!bytes.is_empty(), "something was written");
    bytes.extend(b"half a rec");
    std::fs::write(&shard, bytes).unwrap();
    write_ids(&lines, false);
    let resumed = write(&task, &folder, 4).unwrap();
    assert!(resumed[0] > 256, "it began anew: {resumed:?}");
    assert_eq!(contents(&folder.path().join("ids")), contents(&expected.path().join("ids")));
}

#[test]
fn another_recipe_begins_anew_and_leaves_other_files_alone() {
    let [lines, folder] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let task = ids_task(&lines);
    write_ids(&lines, true);
    write(&task, &folder, 4).unwrap_err();
    let note = folder.path().join("ids/README");
    std::fs::write(&note, "mine").unwrap();
    write_ids(&lines, false);
    assert_eq!(write(&task, &folder, 3).unwrap()[0], 256);
    let names: Vec<String> = contents(&folder.path().join("ids")).into_keys().collect();
    assert!(names.iter().all(|name| !name.ends_with("-of-00004")), "{names:?}");
    assert_eq!(std::fs::read_to_string(note).unwrap(), "mine");
}

#[test]
fn one_process_at_a_time() {
    let [lines, folder] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    write_ids(&lines, false);
    let task = ids_task(&lines);
    let cache = cache_in(&folder, &task);
    cache.path().create_dir_all().unwrap();
    let lock = cache.path().try_lock().unwrap();
    let error = write(&task, &folder, 4).unwrap_err().to_string();
    assert!(error.ends_with("/ids` is being written by another process: wait for it, or end it"));
    drop(lock);
    write(&task, &folder, 4).unwrap();
}

#[test]
fn one_process_at_a_time_sends_a_cache_to_a_store() {
    let (texts, bucket) = (folder_of_text(&[20]), Bucket::new());
    let task = byte_task(source_of(&texts), Vec::new());
    let cache = CacheFolder::of(&bucket.path("caches"), task.task_name());
    let options = CacheOptions { min_shards: 2, ..CacheOptions::default() };
    let write = || write_cache(&task, &cache, &options, &mut |_, _| {});
    // The listing before the first upload takes long.
    bucket.set(Fault::Stall(1));
    std::thread::scope(|scope| {
        let first = scope.spawn(write);
        eventually("asked", || bucket.count() > 0);
        assert!(matches!(write(), Err(DataError::CacheBusy { .. })));
        first.join().unwrap().unwrap();
    });
    assert!(cache.is_complete().unwrap());
    assert_eq!(cache.path().list().unwrap().len(), 6);
}

#[test]
fn examples_of_one_cache_have_the_same_features() {
    let [lines, folder] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let text =
        "{\"inputs\": [1], \"targets\": [1]}\n{\"inputs\": [1], \"targets\": [1], \"id\": 3}\n";
    std::fs::write(lines.path().join("0.jsonl"), text).unwrap();
    let error = write(&ids_task(&lines), &folder, 4).unwrap_err().to_string();
    let expected =
        "task `ids`, split 'train', example 2: 'id' is not in earlier examples; all examples";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn a_task_without_a_cache_step_is_not_cached() {
    let (texts, folder) = (folder_of_text(&[3]), tempfile::tempdir().unwrap());
    let mut task = byte_task(source_of(&texts), Vec::new());
    task.preprocessors.pop();
    let error = write(&task, &folder, 1).unwrap_err().to_string();
    assert!(error.starts_with("no cache step in `texts:bytes`: put"), "{error}");
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "nothing is written");
}

#[test]
fn a_sample_tells_the_size_of_the_cache() {
    let folder = folder_of_text(&[0, 4000, 4000]);
    let text = std::fs::read(folder.path().join("2.txt")).unwrap();
    let file = std::fs::File::create(folder.path().join("3.txt.gz")).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::default());
    encoder.write_all(&text).unwrap();
    encoder.finish().unwrap();
    let within = |found: u64, expected: u64| {
        let ratio = found as f64 / expected as f64;
        assert!((0.75..1.25).contains(&ratio), "{found} is not about {expected}");
    };
    // A sample of 1 ends within the first of the chunks of examples.
    for (pattern, sample) in [("*.txt", 1), ("*.txt", 1000), ("*.txt", u64::MAX), ("*.gz", 1000)] {
        let source = text_source(&format!("{}/{pattern}", folder.path().display()));
        let task = byte_task(source, Vec::new());
        let out = tempfile::tempdir().unwrap();
        let options = CacheOptions { min_shards: 2, ..CacheOptions::default() };
        let plan = split_plans(&task, &options).unwrap().remove(0);
        let estimate = estimate(&task, &plan, &options, sample).unwrap().expect("text tells");
        let mut examples = 0;
        write_cache(&task, &cache_in(&out, &task), &options, &mut |_, written| {
            examples = written.examples;
        })
        .unwrap();
        within(estimate.num_examples, examples);
        let shards = cache_in(&out, &task).path().list().unwrap();
        let shards = shards.iter().filter(|file| file.file_name().contains("tfrecord"));
        within(estimate.bytes, shards.map(|file| file.size().unwrap()).sum());
        assert!(estimate.num_sampled <= sample.saturating_add(600).min(8000));
    }
}

#[test]
fn the_share_of_the_source_that_is_read_is_told() {
    let lines = folder_of_text(&[1200, 1200]);
    let task = byte_task(source_of(&lines), Vec::new());
    let out = tempfile::tempdir().unwrap();
    let options = CacheOptions { min_shards: 2, ..CacheOptions::default() };
    let mut shares = Vec::new();
    write_cache(&task, &cache_in(&out, &task), &options, &mut |_, written| {
        shares.push(written.share.expect("text tells"));
    })
    .unwrap();
    // 256 of 2400 lines are written; the position is that of their last group, and lines differ.
    assert!((0.05..0.12).contains(&shares[0]), "{shares:?}");
    assert_eq!(shares.last(), Some(&1.0));
}
