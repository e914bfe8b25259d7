//! Gin files, their includes, and task files, read from a bucket by the program itself.

use std::process::{Command, Output};

use super::faulty::Bucket;

fn gimlet(bucket: &Bucket, args: &[String]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gimlet"));
    command.args(args).current_dir(folder.path()).env_remove("GIMLET_PATH_MAP");
    let output = command.output().unwrap();
    assert!(!bucket.requests().is_empty(), "the bucket was not asked");
    output
}

fn said(output: &Output) -> String {
    let streams = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    streams.concat()
}

fn write(bucket: &Bucket, files: &[(&str, &str)]) {
    for (name, text) in files {
        bucket.path(name).write_atomic(text.as_bytes()).unwrap();
    }
}

#[test]
fn includes_are_found_beside_the_file_that_names_them_and_in_search_paths() {
    let bucket = Bucket::new();
    write(
        &bucket,
        &[
            ("run/a.gin", "include 'parts/b.gin'\ninclude '../c.gin'\ninclude 'd.gin'\nA = %B\n"),
            ("run/parts/b.gin", "B = 'from b'\n"),
            ("c.gin", "C = 'from c'\n"),
            ("search/d.gin", "D = 'from d'\n"),
        ],
    );
    let args = [
        "gin".to_string(),
        "print".to_string(),
        format!("--gin_file={}", bucket.path("run/a.gin")),
        format!("--gin_search_paths={}", bucket.path("search")),
    ];
    let output = gimlet(&bucket, &args);
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    for expected in ["from b", "from c", "from d"] {
        assert!(text.contains(expected), "{text}");
    }
    bucket.path("run/config.gin").write_atomic(b"ByteVocabulary.extra_ids = 5\n").unwrap();
    let [folder, file] = ["run", "run/config.gin"].map(|name| bucket.path(name).to_string());
    let root = "--root=seqio.ByteVocabulary".to_string();
    let output = gimlet(&bucket, &["gin".to_string(), "diff".to_string(), root, folder, file]);
    assert!(output.status.success(), "a run's folder stands for its config.gin: {}", said(&output));
    let text = said(&gimlet(&bucket, &[args[0].clone(), args[1].clone(), args[2].clone()]));
    assert!(text.contains("no gin file `d.gin`"), "{text}");
}

/// The data, the vocabulary's place and the cache lie in the bucket as well.
#[test]
fn tasks_of_a_bucket_are_cached_into_it_and_read_from_there() {
    let bucket = Bucket::new();
    let lines = bucket.path("data/lines.txt");
    let task = format!(
        "lines/seqio.Task:\n  source = @lines/seqio.TextLineDataSource()\n  \
         preprocessors = [@lines/seqio.preprocessors.rekey(), @seqio.CacheDatasetPlaceholder()]\n  \
         output_features = {{'targets': @lines/seqio.Feature()}}\n\
         lines/seqio.preprocessors.rekey.key_map = {{'targets': 'text'}}\n\
         lines/seqio.TextLineDataSource.split_to_filepattern = {{'train': '{lines}'}}\n\
         lines/seqio.Feature.vocabulary = @seqio.ByteVocabulary()\n"
    );
    write(&bucket, &[("data/lines.txt", "one\ntwo\nthree\n"), ("tasks/mine.gin", &task)]);
    let output = gimlet(
        &bucket,
        &[
            "cache".to_string(),
            "--module_import=mine".to_string(),
            format!("--gin_search_paths={}", bucket.path("tasks")),
            "--min_shards=2".to_string(),
            format!("--output_cache_dir={}", bucket.path("caches")),
        ],
    );
    assert!(output.status.success(), "{}", said(&output));
    let files = bucket.path("caches/lines").walk().unwrap();
    let names: Vec<_> = files.iter().map(|file| file.file_name()).collect();
    for expected in ["COMPLETED", "info.train.json", "train.tfrecord-00001-of-00002"] {
        assert!(names.contains(&expected), "{names:?}");
    }
}
