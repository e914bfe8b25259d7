//! Features of other ranks and types: lists of texts, numbers, and rows of them.

use gimlet::data::{DataError, Example, ExampleOptions, TaskProvider, Value, task_examples};
use gimlet::run::{GinTasks, registry};

use super::*;

const TASKS: &str = "
byte/seqio.Feature.vocabulary = @seqio.ByteVocabulary()
lines/seqio.Feature.vocabulary = @seqio.ByteVocabulary()
lines/seqio.Feature.rank = 2
frames/seqio.ContinuousFeature.dtype = 'float32'
frames/seqio.ContinuousFeature.rank = 2
levels/seqio.ContinuousFeature.dtype = 'float32'
clip/seqio.JsonLinesDataSource.split_to_filepattern = {'train': 'PATTERN'}
clip/seqio.Task:
  source = @clip/seqio.JsonLinesDataSource()
  preprocessors = [@seqio.preprocessors.tokenize(), @seqio.preprocessors.append_eos_after_trim()]
  output_features = {
    'inputs': @lines/seqio.Feature(),
    'targets': @byte/seqio.Feature(),
    'frames': @frames/seqio.ContinuousFeature(),
    'levels': @levels/seqio.ContinuousFeature(),
  }
";

const RECORD: &str = r#"{"inputs": ["abc", "", "d"], "targets": "xyz",
 "frames": [[0.5, 1.0], [2, 3], [4.0, 5.5]], "levels": [1.5, 2.5, 3.5, 4.5]}"#;

fn examples(record: &str, lengths: Option<&[(&str, usize)]>) -> Result<Vec<Example>, DataError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("clips.jsonl");
    std::fs::write(&file, record.replace('\n', "") + "\n").unwrap();
    let tasks = TASKS.replace("PATTERN", &file.display().to_string());
    let loaded = load_texts("", &tasks).unwrap_or_else(|error| panic!("{}", error.render(false)));
    let TaskOrMixture::Task(task) = GinTasks::new(loaded, registry()).get("clip")? else {
        panic!("a task was expected");
    };
    let lengths = lengths.map(|lengths| lengths.iter().map(|(k, n)| (k.to_string(), *n)).collect());
    let options =
        ExampleOptions { split: "train".to_string(), lengths, ..ExampleOptions::default() };
    task_examples(&task, &options)?.collect()
}

#[test]
fn every_feature_is_tokenized_trimmed_and_kept_as_its_rank_asks() {
    let lengths = [("inputs", 2), ("targets", 3), ("frames", 2), ("levels", 3)];
    for (lengths, rows, targets, frames, levels) in
        [(None, 3, &[123, 124, 125, 1][..], 3, 4), (Some(&lengths[..]), 2, &[123, 124, 1], 2, 3)]
    {
        let [example] = &examples(RECORD, lengths).unwrap()[..] else { panic!("one example") };
        // Rows are trimmed to leave room for EOS; the number of rows is limited in the same way.
        let all = match lengths {
            None => vec![vec![100, 101, 102, 1], vec![1], vec![103, 1]],
            Some(_) => vec![vec![100, 1], vec![1], vec![103, 1]],
        };
        assert_eq!(example.get("inputs"), Some(&Value::IntRows(all[..rows].to_vec())));
        assert_eq!(example.ints("targets"), Some(targets));
        let all = [vec![0.5, 1.0], vec![2.0, 3.0], vec![4.0, 5.5]];
        assert_eq!(example.get("frames"), Some(&Value::FloatRows(all[..frames].to_vec())));
        let all = [1.5, 2.5, 3.5, 4.5];
        assert_eq!(example.get("levels"), Some(&Value::Floats(all[..levels].to_vec())));
        let texts = ["abc", "", "d"].map(str::to_string).to_vec();
        assert_eq!(example.get("inputs_pretokenized"), Some(&Value::Texts(texts)));
        assert_eq!(
            example.get("frames_pretokenized"),
            Some(&Value::FloatRows(vec![vec![0.5, 1.0], vec![2.0, 3.0], vec![4.0, 5.5],]))
        );
    }
}

#[test]
fn lists_have_the_type_of_their_feature() {
    let record = RECORD
        .replace(r#"["abc", "", "d"]"#, "[]")
        .replace("[1.5, 2.5, 3.5, 4.5]", "[1, 2]")
        .replace("[[0.5, 1.0], [2, 3], [4.0, 5.5]]", "[[1, 2], [3, 4]]");
    let [example] = &examples(&record, None).unwrap()[..] else { panic!("one example") };
    assert_eq!(example.get("inputs"), Some(&Value::IntRows(Vec::new())));
    assert_eq!(example.get("levels"), Some(&Value::Floats(vec![1.0, 2.0])));
    let frames = Value::FloatRows(vec![vec![1.0, 2.0], vec![3.0, 4.0]]);
    assert_eq!(example.get("frames"), Some(&frames));
    let none = RECORD.replace("[1.5, 2.5, 3.5, 4.5]", "[]");
    let found = examples(&none, None).unwrap();
    assert_eq!(found[0].get("levels"), Some(&Value::Floats(Vec::new())));
}

#[test]
fn rows_of_texts_and_features_of_three_dimensions_are_kept() {
    let record = RECORD
        .replace('}', r#", "words": [["a"], [], ["b", "c"]], "cube": [[[1], [2, 3]], [[4]]], "late": [[], [["x"]]]}"#);
    let [example] = &examples(&record, None).unwrap()[..] else { panic!("one example") };
    let texts = |texts: &[&str]| Value::Texts(texts.iter().map(ToString::to_string).collect());
    let words = Value::Lists(vec![texts(&["a"]), texts(&[]), texts(&["b", "c"])]);
    assert_eq!(example.get("words"), Some(&words));
    let cube = [vec![vec![1], vec![2, 3]], vec![vec![4]]].map(Value::IntRows);
    assert_eq!(example.get("cube"), Some(&Value::Lists(cube.to_vec())));
    let late = example.get("late").map(Value::type_name);
    assert_eq!(late, Some("texts of three dimensions or more"));
}

#[test]
fn what_does_not_fit_its_feature_is_named() {
    for (from, to, expected) in [
        (r#"["abc", "", "d"]"#, r#""abc""#, "feature 'inputs' has rank 1, expected 2"),
        (r#""xyz""#, r#"["xyz"]"#, "feature 'targets' has rank 2, expected 1"),
        (
            r#""xyz""#,
            "[[\"xyz\"]]",
            "'targets' is numbers of three dimensions or more, expected token ids",
        ),
        (r#"[1.5, 2.5, 3.5, 4.5]"#, r#""loud""#, "'levels' is text, and PassThroughVocabulary"),
    ] {
        let error = examples(&RECORD.replace(from, to), None).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
