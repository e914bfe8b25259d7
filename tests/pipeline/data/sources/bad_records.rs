//! Records that cannot be read: named, or skipped and counted up to a limit.

use std::io::Write;

use gimlet::data::{DatasetOptions, DatasetState, get_dataset, task_examples};

use super::*;

const SKIP: (&str, &str) = ("on_bad_record", "'skip'");

/// Creates a file with that content, and a task over it.
fn over(source: &str, bytes: &[u8], params: &[(&str, &str)]) -> (tempfile::TempDir, Task) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("data"), bytes).unwrap();
    let files = files(folder.path(), "data");
    let task = task_over(source, &[&[("split_to_filepattern", &files[..])], params].concat());
    (folder, task)
}

/// Returns the number of examples and of skipped records, and the message about the first of the
/// latter.
fn skipped(task: &Task) -> (usize, u64, String) {
    let bad_records = BadRecords::default();
    let options = ExampleOptions { bad_records: bad_records.clone(), ..options("train") };
    let count = read(task, &options).unwrap().len();
    (count, bad_records.count(), bad_records.messages().into_iter().next().unwrap_or_default())
}

#[track_caller]
fn check(source: &str, bytes: &[u8], params: &[(&str, &str)], expected: (usize, u64, &str)) {
    let (_folder, task) = over(source, bytes, params);
    check_error(&task, "train", &[expected.2]);
    let (_folder, task) = over(source, bytes, &[params, &[SKIP]].concat());
    let (count, skipped, message) = skipped(&task);
    assert_eq!((count, skipped), (expected.0, expected.1), "{message}");
    assert!(message.contains(expected.2), "{message}");
}

fn tf_records() -> Vec<u8> {
    std::fs::read(folder().join("examples.tfrecord")).unwrap()
}

const TEXT: [(&str, &str); 1] = [("feature_description", "{'text': 'string'}")];

#[test]
fn a_bad_line_is_left_out() {
    check("TextLineDataSource", b"a\nb\xff\nc\n", &[], (2, 1, "data:2: not UTF-8 at byte 3"));
    let lines = b"{\"a\": 1}\n[1]\n{\"a\"\n{\"a\": 2}\n";
    check("JsonLinesDataSource", lines, &[], (2, 2, "data:2 at byte 9: not a JSON object"));
    let records = b"a,b\n1,2\n3\n4,\"5\"x\n6,7\n";
    check("CsvDataSource", records, &[], (2, 2, "data, record 3 at byte 8: it has 1 fields"));
}

#[test]
fn records_are_read_as_examples_are_asked_for() {
    let lines = b"a\nb\xff\n".repeat(50_000);
    let params = [SKIP, ("max_bad_records", "50000")];
    let (_folder, task) = over("TextLineDataSource", &lines, &params);
    let bad_records = BadRecords::default();
    let options = ExampleOptions { bad_records: bad_records.clone(), ..options("train") };
    let mut examples = task_examples(&task, &options).unwrap();
    let mut num_read = 0;
    for num_examples in [1, 1_000, 20_000] {
        num_read += examples.by_ref().take(num_examples - num_read).count();
        let num_bad = bad_records.count() as usize;
        assert!(num_bad.abs_diff(num_read) < 10, "{num_bad} bad records before {num_read}");
    }
    assert_eq!(num_read, 20_000);
}

#[test]
fn a_wrong_checksum_costs_one_record() {
    let mut bytes = tf_records();
    bytes[20] ^= 1;
    check("TFExampleDataSource", &bytes, &TEXT, (4, 1, "record 1 at byte 0: the checksum of its"));
}

#[test]
fn a_file_that_breaks_off_yields_what_comes_before() {
    let bytes = tf_records();
    let cut = &bytes[..bytes.len() - 1];
    check("TFExampleDataSource", cut, &TEXT, (4, 1, "record 5 at byte "));
    let gzip = std::fs::read(folder().join("examples_gzip.tfrecord")).unwrap();
    let (_folder, task) = over("TFExampleDataSource", &gzip[..gzip.len() / 2], &TEXT);
    check_error(&task, "train", &["data`, record "]);
}

/// Checks that reading stops although bad records may be skipped, and that the error names the
/// loss.
#[track_caller]
fn check_rest(source: &str, bytes: &[u8], params: &[(&str, &str)], expected: &[&str]) {
    let (_folder, task) = over(source, bytes, &[params, &[SKIP]].concat());
    let remedy = "the rest of the file cannot be read either";
    check_error(&task, "train", &[expected, &[remedy, "fetch the file again"]].concat());
}

#[test]
fn the_rest_of_a_file_is_never_skipped() {
    let mut bytes = tf_records();
    let first = 16 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[first] ^= 1;
    let place = format!("record 2 at byte {first}: the checksum of its length is wrong");
    let lost = format!("{} of its {} bytes", bytes.len() - first, bytes.len());
    check_rest("TFExampleDataSource", &bytes, &TEXT, &[&place, &lost]);

    let lines = "a,b\n1,2\n3,\"4\n".to_string() + &"5,6\n".repeat(1000);
    let expected = ["record 3 at byte 8: a quote is opened", "4005 of its 4013 bytes"];
    check_rest("CsvDataSource", lines.as_bytes(), &[], &expected);

    let array = b"[{\"a\": 1}, {\"a\": \"x}, {\"a\": 2}, {\"a\": 3}]";
    let expected = ["record 2 at byte 41: the file ends", "32 of its 41 bytes"];
    check_rest("JsonLinesDataSource", array, &[], &expected);
}

#[test]
fn the_rest_of_a_damaged_gzip_file_is_never_skipped() {
    let text: String = (0..200_000).map(|i| format!("line {i}\n")).collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let mut bytes = gzip.finish().unwrap();
    let (_folder, whole) = over("TextLineDataSource", &bytes, &[]);
    assert_eq!(read(&whole, &options("train")).unwrap().len(), 200_000);
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].fill(0xff);
    check_rest("TextLineDataSource", &bytes, &[], &["all behind byte ", "decompressed"]);
}

#[test]
fn the_rest_of_a_compressed_file_that_breaks_off_is_never_skipped() {
    let line = |i: usize| format!("{{\"a\": \"line {i}\"}}\n");
    let text: String = (0..100_000).map(line).collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let (gzip, zstd) = (gzip.finish().unwrap(), zstd::encode_all(text.as_bytes(), 1).unwrap());
    let expected = ["all behind byte ", "decompressed"];
    for bytes in [&gzip, &zstd] {
        let half = &bytes[..bytes.len() / 2];
        for source in ["TextLineDataSource", "JsonLinesDataSource", "CsvDataSource"] {
            check_rest(source, half, &[], &expected);
        }
    }
    let records = std::fs::read(folder().join("examples_gzip.tfrecord")).unwrap();
    check_rest("TFExampleDataSource", &records[..records.len() / 2], &TEXT, &expected);
}

#[test]
fn a_last_record_that_breaks_off_is_left_out() {
    let array = b"[{\"a\": 1}, {\"a\": 2}, {\"a\": \"x";
    check("JsonLinesDataSource", array, &[], (2, 1, "record 3 at byte 29: the file ends"));
    check("JsonLinesDataSource", b"[{\"a\": 1}", &[], (1, 1, "the file ends, expected `]`"));
    check("CsvDataSource", b"a,b\n1,2\n3,\"4\n", &[], (1, 1, "record 3 at byte 8: a quote"));
}

#[test]
fn what_no_feature_can_be_is_a_bad_row() {
    let rows = std::fs::read(folder().join("rows.parquet")).unwrap();
    let (_folder, task) = over("ParquetDataSource", &rows[..rows.len() - 3], &[SKIP]);
    // A file of another format is not a bad record.
    check_error(&task, "train", &["data`: ", "is it a whole Parquet file?"]);
}

#[test]
fn more_bad_records_than_the_limit_are_an_error() {
    let lines = b"x\n{}\ny\nz\n";
    let limit = [SKIP, ("max_bad_records", "2")];
    let (_folder, task) = over("JsonLinesDataSource", lines, &limit);
    let expected = [
        "task `it`, split 'train', has 3 bad records, more than the 2",
        "the last one: ",
        "data:4 at byte 7: malformed JSON",
    ];
    check_error(&task, "train", &expected);
    let limit = [SKIP, ("max_bad_records", "3")];
    let (_folder, task) = over("JsonLinesDataSource", lines, &limit);
    assert_eq!(skipped(&task).1, 3);
}

#[test]
fn a_file_that_vanishes_is_named() {
    let (folder, task) = over("TextLineDataSource", b"a\n", &[]);
    let mut examples = task_examples(&task, &options("train")).unwrap();
    std::fs::remove_file(folder.path().join("data")).unwrap();
    let error = examples.next().unwrap().unwrap_err().to_string();
    assert!(error.contains("/data`: not found"), "{error}");
}

/// A task whose template fails for two of four records.
fn prompted(folder: &tempfile::TempDir, on_bad_record: &str, last_step: &str) -> Task {
    let lines = ["x", "y", "xy", "z"].map(|text| format!("{{\"text\": \"{text}\"}}\n")).concat();
    std::fs::write(folder.path().join("data.jsonl"), lines).unwrap();
    task_of(format!(
        "it/seqio.Task:\n  source = @it/seqio.JsonLinesDataSource()\n  preprocessors = \
         [@gimlet.preprocessors.apply_template(){last_step}]\n  output_features = {{}}\n\
         it/seqio.JsonLinesDataSource:\n  split_to_filepattern = {}\n  \
         on_bad_record = '{on_bad_record}'\n\
         apply_template.template = '{{{{ text }}}} ||| {{{{ text.index(\"x\") }}}}'\n",
        files(folder.path(), "data.jsonl")
    ))
}

#[test]
fn a_record_that_a_step_can_make_nothing_of_is_a_bad_record() {
    let folder = tempfile::tempdir().unwrap();
    let expected = ["task `it`, apply_template: the template fails: ", "data.jsonl:2 at byte 14)"];
    check_error(&prompted(&folder, "error", ""), "train", &expected);
    let (count, num_skipped, message) = skipped(&prompted(&folder, "skip", ""));
    assert_eq!((count, num_skipped), (2, 2));
    assert!(message.starts_with("task `it`: skipped a bad record: task `it`, apply_template"));
    // A step that makes several examples of one fails: there are no answer choices.
    let ranking = ", @t5.data.preprocessors.rank_classification()";
    let (count, num_skipped, _) = skipped(&prompted(&folder, "skip", ranking));
    assert_eq!((count, num_skipped), (0, 4));
}

#[test]
fn records_skipped_before_a_resume_count_towards_the_limit() {
    let line = |i: usize| match i {
        0 | 200 => "{}?\n".to_string(),
        _ => format!("{{\"inputs\": [{i}, 1], \"targets\": [{i}, 1]}}\n"),
    };
    let lines: String = (0..400).map(line).collect();
    let (folder, _) = over("JsonLinesDataSource", lines.as_bytes(), &[]);
    let files = files(folder.path(), "data");
    let start = |limit: &str, resume: Option<DatasetState>| {
        let params = [SKIP, ("split_to_filepattern", &files), ("max_bad_records", limit)];
        let task = task_over("JsonLinesDataSource", &params);
        let output_features = features(&ids_vocabulary(), &["inputs", "targets"]);
        let tasks = tasks([Task { output_features, ..task }]);
        let config = DatasetConfig { num_prefetch_threads: Some(0), ..config("it", (4, 4)) };
        let options = DatasetOptions { resume, ..DatasetOptions::default() };
        get_dataset(&config, &tasks, options).unwrap()
    };
    let mut batches = start("2", None);
    take(&mut batches, 1);
    let json = serde_json::to_string(&batches.state()).unwrap();
    let state: DatasetState = serde_json::from_str(&json).unwrap();
    assert_eq!(batches.num_bad_records(), 1);

    // Into the second epoch, which reaches the first record again.
    let mut batches = start("2", Some(state.clone()));
    assert_eq!(batches.num_bad_records(), 1);
    take(&mut batches, 150);
    assert_eq!(batches.num_bad_records(), 2);

    // The second one is too many, although it is the first of its process.
    let mut batches = start("1", Some(state));
    let error = (0..150).find_map(|_| batches.next_batch().err()).expect("too many").to_string();
    assert!(error.contains("has 2 bad records, more than the 1"), "{error}");
}
