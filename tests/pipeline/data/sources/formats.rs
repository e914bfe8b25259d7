//! The examples in files of each format.

use gimlet::data::{CacheDatasetPlaceholder, CacheOptions, estimate, split_plans};

use super::*;

const DESCRIPTION: &str = "{'text': @text/tf.io.FixedLenFeature(), 'ids': @tf.io.VarLenFeature(), \
                           'big': ('int64', 2), 'pair': ('float32', 2), \
                           'label': @label/tf.io.FixedLenFeature(), \
                           'words': @tf.io.FixedLenSequenceFeature()}\n\
                           text/tf.io.FixedLenFeature.shape = []\n\
                           text/tf.io.FixedLenFeature.dtype = 'string'\n\
                           label/tf.io.FixedLenFeature.shape = []\n\
                           label/tf.io.FixedLenFeature.dtype = 'int64'\n\
                           label/tf.io.FixedLenFeature.default_value = -7\n\
                           tf.io.VarLenFeature.dtype = 'int64'\n\
                           tf.io.FixedLenSequenceFeature.shape = []\n\
                           tf.io.FixedLenSequenceFeature.dtype = 'string'";

fn over_file(source: &str, name: &str, params: &[(&str, &str)]) -> Task {
    let files = files(&folder(), name);
    task_over(source, &[&[("split_to_filepattern", &files[..])], params].concat())
}

#[test]
fn tf_examples_are_those_of_seqio_however_files_are_compressed() {
    for name in ["examples.tfrecord", "examples_gzip.tfrecord", "examples_zlib.tfrecord"] {
        let task = over_file("TFExampleDataSource", name, &[("feature_description", DESCRIPTION)]);
        check(&task, &reference_json("sources.json")["tf_examples"]);
    }
}

#[test]
fn all_below_a_folder_is_its_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("inner/empty")).unwrap();
    std::fs::write(folder.path().join("a.txt"), "a\n").unwrap();
    std::fs::write(folder.path().join("inner/b.txt"), "b\n").unwrap();
    let files = format!("{{'train': '{}/**'}}", folder.path().display());
    let lines = task_over("TextLineDataSource", &[("split_to_filepattern", &files)]);
    let found = read(&lines, &options("train")).unwrap();
    let texts: Vec<_> = found.iter().map(|example| &example["text"]).collect();
    assert_eq!(texts, ["a", "b"]);
}

#[test]
fn protos_are_decoded_and_files_read_by_functions_of_tensorflow() {
    let decode =
        format!("@tf.io.parse_single_example\ntf.io.parse_single_example.features = {DESCRIPTION}");
    let protos = over_file("ProtoDataSource", "examples.tfrecord", &[("decode_proto_fn", &decode)]);
    check(&protos, &reference_json("sources.json")["tf_examples"]);
    let lines = over_file("TextLineDataSource", "table.tsv", &[]);
    let expected = serde_json::json!(read(&lines, &options("train")).unwrap());
    let read_by =
        |function| over_file("FileDataSource", "table.tsv", &[("read_file_fn", function)]);
    check(&read_by("@tf.data.TextLineDataset"), &expected);
    let expected = "gives serialized protos, of which no examples can be made: name `seqio.Proto";
    check_error(&read_by("@tf.data.TFRecordDataset"), "train", &[expected]);
}

#[test]
fn a_type_of_a_column_that_is_not_there_is_named_before_any_record() {
    for names in ["None", "['text', 'count', 'weight']"] {
        let params =
            [("delimiter", r"'\t'"), ("column_names", names), ("dtypes", "{'cuont': 'int'}")];
        let expected = "`dtypes` names the column 'cuont', and the columns are 'text', 'count', 'weight': \
                        did you mean `count`?";
        check_error(&over_file("CsvDataSource", "table.tsv", &params), "train", &[expected]);
    }
}

#[test]
fn a_tf_example_that_lacks_a_feature_is_named() {
    let task = over_file(
        "TFExampleDataSource",
        "examples.tfrecord",
        &[("feature_description", "{'label': 'int64', 'text': 'string'}")],
    );
    check_error(&task, "train", &["examples.tfrecord, record 1 at byte 0: 'label' is missing"]);
}

#[test]
fn sequence_examples_are_those_of_tensorflow() {
    let task = over_file(
        "TFExampleDataSource",
        "sequences.tfrecord",
        &[
            ("feature_description", "{'id': 'int64'}"),
            ("sequence_feature_description", "{'ids': 'int64', 'texts': 'string'}"),
        ],
    );
    check(&task, &reference_json("sources.json")["sequence_examples"]);
}

#[test]
fn rows_are_those_of_pyarrow() {
    let rows = &reference_json("sources.json")["rows"];
    check(&over_file("ParquetDataSource", "rows.parquet", &[]), rows);
    check(&over_file("ArrowDataSource", "rows.arrow", &[]), rows);
    check(&over_file("ArrowDataSource", "rows.stream", &[]), rows);
}

#[test]
fn the_cache_of_columnar_files_is_estimated_by_their_first_rows() {
    for (source, file) in [
        ("ParquetDataSource", "rows.parquet"),
        ("ArrowDataSource", "rows.arrow"),
        ("ArrowDataSource", "rows.stream"),
    ] {
        let mut task = over_file(source, file, &[]);
        let step = CacheDatasetPlaceholder { required: false };
        task.preprocessors.push(Preprocessor::CacheDatasetPlaceholder(step));
        let options = CacheOptions::default();
        let plan = split_plans(&task, &options).unwrap().remove(0);
        for sample in [1, 5, u64::MAX] {
            let estimate = estimate(&task, &plan, &options, sample).unwrap().expect("rows tell");
            assert!(estimate.num_examples.abs_diff(11) <= 1, "{file}: {estimate:?}");
        }
    }
}

#[test]
fn columns_are_chosen_also_below_structs_and_lists() {
    let reference = reference_json("sources.json");
    let kept = ["label", "answers/text", "spans/name", "spans/from", "nested/deep/x"];
    let chosen = |row: &serde_json::Value| -> serde_json::Value {
        let features = row.as_object().unwrap().iter().filter(|(key, _)| kept.contains(&&key[..]));
        features
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let rows: Vec<_> = reference["rows"].as_array().unwrap().iter().map(chosen).collect();
    let columns = [("columns", "['label', 'answers/text', 'spans', 'nested']")];
    check(&over_file("ParquetDataSource", "rows.parquet", &columns), &serde_json::json!(rows));
    check(&over_file("ArrowDataSource", "rows.stream", &columns), &serde_json::json!(rows));
}

#[test]
fn files_of_another_schema_and_absent_columns_are_named() {
    let task = over_file("ParquetDataSource", "[or]*.parquet", &[("columns", "['text']")]);
    let expected = ["rows.parquet`: column 'text' is text here and an int in ", "other.parquet`"];
    check_error(&task, "train", &expected);
    let task = over_file("ParquetDataSource", "rows.parquet", &[("columns", "['label', 'x']")]);
    check_error(&task, "train", &["rows.parquet`: it has no column 'x'", "it has 'label'"]);
}

#[test]
fn tables_are_those_of_pythons_reader() {
    let typed = ("dtypes", "{'count': 'int', 'weight': 'float'}");
    let expected = &reference_json("sources.json")["csv"];
    check(&over_file("CsvDataSource", "table.csv", &[typed]), expected);
    let tab = ("delimiter", "'\\t'");
    check(&over_file("CsvDataSource", "table.tsv", &[typed, tab]), expected);
    let names = ("column_names", "['text', 'count', 'weight']");
    let skip = ("skip_header_lines", "1");
    check(&over_file("CsvDataSource", "table.csv", &[typed, names, skip]), expected);
}

#[test]
fn json_arrays_are_read_as_lines_are() {
    let expected = &reference_json("sources.json")["json"];
    check(&over_file("JsonLinesDataSource", "array.json", &[]), expected);
    check(&over_file("JsonLinesDataSource", "field.json", &[("field", "'data'")]), expected);
}

#[test]
fn generated_examples_are_shared_by_shards_and_have_no_end_of_splits() {
    let params = [("num_examples", "{'train': 10, 'test': 3}"), ("max_length", "5")];
    let task = task_over("GeneratedDataSource", &params);
    let all = read(&task, &options("train")).unwrap();
    assert_eq!(all.len(), 10);
    let shard = |shard_index| {
        read(&task, &ExampleOptions { shard_index, num_shards: 2, ..options("train") }).unwrap()
    };
    assert_eq!(shard(0), all.iter().step_by(2).cloned().collect::<Vec<_>>());
    assert_eq!(shard(1), all.iter().skip(1).step_by(2).cloned().collect::<Vec<_>>());
    assert_eq!(read(&task, &options("test")).unwrap().len(), 3);
    check_error(&task, "x", &["`it` has no split 'x'; it has 'test', 'train'"]);
}

#[test]
fn python_sources_say_what_to_name_instead() {
    let task = task_over("FunctionDataSource", &[("splits", "['train']")]);
    check_error(&task, "train", &["Python function", "`seqio.HuggingFaceDataSource`"]);
}

#[test]
fn the_few_shot_preprocessor_writes_what_seqios_writes() {
    for case in reference_json("sources.json")["few_shot"].as_array().unwrap() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.jsonl"), case["example"].to_string()).unwrap();
        let options = case["options"].as_object().unwrap().iter();
        let options: String = options
            .map(|(param, value)| {
                let value = match value {
                    serde_json::Value::Bool(true) => "True".to_string(),
                    value => value.to_string(),
                };
                format!("seqio.experimental.fewshot_preprocessor.{param} = {value}\n")
            })
            .collect();
        let text = format!(
            "it/seqio.Task:\n  source = @seqio.JsonLinesDataSource()\n  output_features = {{}}\n  \
             preprocessors = [@seqio.experimental.fewshot_preprocessor()]\n\
             seqio.JsonLinesDataSource.split_to_filepattern = {}\n{options}",
            files(folder.path(), "*.jsonl")
        );
        check(&task_of(text), &case["made"]);
    }
}

fn few_shot(folder: &tempfile::TempDir, more: &str) -> Task {
    for (split, count) in [("train", 20), ("test", 8)] {
        let line = |i| format!("{{\"inputs\": \"{split} {i}\", \"targets\": \"{i}\"}}\n");
        let lines: String = (0..count).map(line).collect();
        std::fs::write(folder.path().join(format!("{split}.jsonl")), lines).unwrap();
    }
    task_of(format!(
        "it/seqio.Task:\n  source = @seqio.experimental.FewshotDataSource()\n  output_features = \
         {{}}\n  preprocessors = []\nFewshotDataSource.original_source = \
         @seqio.HuggingFaceDataSource()\nHuggingFaceDataSource.path = '{}'\n\
         FewshotDataSource.num_shots = 3\n{more}",
        folder.path().display()
    ))
}

#[test]
fn few_shot_examples_have_others_of_the_training_split() {
    let folder = tempfile::tempdir().unwrap();
    let task = few_shot(&folder, "");
    let found = read(&task, &options("test")).unwrap();
    assert_eq!(found.len(), 8);
    let mut shown = std::collections::BTreeSet::new();
    for (i, example) in found.iter().enumerate() {
        assert_eq!(example["eval/inputs"], format!("test {i}"));
        let (inputs, targets) = (&example["train/inputs"], &example["train/targets"]);
        for shot in 0..3 {
            let target = targets[shot].as_str().unwrap();
            assert_eq!(inputs[shot], format!("train {target}"));
            shown.insert(target.to_string());
        }
    }
    // 24 shots of 20 examples, shuffled: all are shown before any is shown twice, except for the
    // buffer.
    assert!(shown.len() > 10, "{shown:?}");
    assert_eq!(found, read(&task, &options("test")).unwrap());
}

#[test]
fn fixed_exemplars_are_the_same_for_every_example() {
    let folder = tempfile::tempdir().unwrap();
    let task = few_shot(&folder, "FewshotDataSource.eval_on_fixed_exemplars = True\n");
    let found = read(&task, &options("test")).unwrap();
    assert!(found.iter().all(|example| example["train/inputs"] == found[0]["train/inputs"]));
    let train = read(&task, &options("train")).unwrap();
    assert!(train.iter().any(|example| example["train/inputs"] != train[0]["train/inputs"]));
}
