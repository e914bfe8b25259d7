//! Error messages for wrong data and configurations.

use gimlet::data::{
    CacheDatasetPlaceholder, DatasetOptions, Glue, KnownIds, Rekey, Tokenize, TokenizeAndAppendEos,
    get_dataset,
};
use gimlet::vocab::ByteVocabulary;

use super::*;

fn text_task(folder: &tempfile::TempDir, preprocessors: Vec<Preprocessor>) -> Task {
    let source = text_source(&format!("{}/*.txt", folder.path().display()));
    let bytes = VocabularySpec::Byte(ByteVocabulary::of(0));
    task("text", source, preprocessors, features(&bytes, &["inputs", "targets"]))
}

fn rekey(new_to_old: &[(&str, &str)]) -> Preprocessor {
    let entry = |(new, old): &(&str, &str)| (new.to_string(), Some(old.to_string()));
    Preprocessor::Rekey(Rekey { key_map: new_to_old.iter().map(entry).collect() })
}

fn both() -> Preprocessor {
    rekey(&[("inputs", "text"), ("targets", "text")])
}

fn tokenize() -> Preprocessor {
    Preprocessor::TokenizeAndAppendEos(TokenizeAndAppendEos { copy_pretokenized: true })
}

fn folder_with(name: &str, bytes: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(name), bytes).unwrap();
    folder
}

/// Returns the first error, at any place.
fn error(task: Task, config: &DatasetConfig, num_shards: usize) -> String {
    let options = DatasetOptions { num_shards, ..DatasetOptions::default() };
    match get_dataset(config, &tasks([task]), options) {
        Err(error) => error.to_string(),
        Ok(mut batches) => loop {
            match batches.next_batch() {
                Ok(batch) => assert!(batch.is_some(), "the data end without an error"),
                Err(error) => break error.to_string(),
            }
        },
    }
}

#[track_caller]
fn check(task: Task, expected: &[&str]) {
    let message = error(task, &config("text", (8, 8)), 1);
    for part in expected {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn text_that_is_not_utf8() {
    let folder = folder_with("a.txt", b"fine\nbro\xffken\n");
    check(text_task(&folder, vec![both(), tokenize()]), &["a.txt:2: not UTF-8 at byte 8; convert"]);
}

#[test]
fn malformed_json() {
    let folder = folder_with("a.jsonl", b"{\"inputs\": [1], \"targets\": [1]}\n{\"inputs\": [1\n");
    let mut task = task_of_ids(&folder);
    task.name = Some("text".to_string());
    check(
        task,
        &["a.jsonl:2 at byte 32: malformed JSON at column", "each line is one JSON object"],
    );
}

#[test]
fn missing_and_empty_files() {
    let folder = folder_with("a.txt", b"");
    check(
        text_task(&folder, vec![both(), tokenize()]),
        &["`text`, split 'train', has no examples"],
    );
    std::fs::remove_file(folder.path().join("a.txt")).unwrap();
    check(text_task(&folder, Vec::new()), &["no file of `text`, split 'train', is found under"]);
}

#[test]
fn preprocessors_that_drop_everything() {
    let folder = folder_with("a.txt", b"\n\n\n");
    let spans = gimlet::data::Preprocessor::PrefixLm(gimlet::data::PrefixLm::default());
    let tokenize = Preprocessor::Tokenize(Tokenize { copy_pretokenized: false, with_eos: false });
    let task = text_task(&folder, vec![rekey(&[("targets", "text")]), tokenize, spans]);
    check(task, &["has no examples: its preprocessors drop every one"]);
}

#[test]
fn unknown_splits_and_tasks() {
    let folder = folder_with("a.txt", b"x\n");
    let other = DatasetConfig { split: "valid".to_string(), ..config("text", (8, 8)) };
    let message = error(text_task(&folder, Vec::new()), &other, 1);
    assert_eq!(message, "`text` has no split 'valid'; it has 'train'");
    let message = error(text_task(&folder, Vec::new()), &config("texd", (8, 8)), 1);
    assert_eq!(message, "no task or mixture is named `texd`: did you mean `text`?");
}

#[test]
fn features_that_are_missing_or_of_another_type() {
    let folder = folder_with("a.txt", b"x\n");
    check(
        text_task(&folder, vec![rekey(&[("inputs", "txt")])]),
        &["task `text`, rekey: the example lacks 'txt'; it has 'text' (", "a.txt:1 at byte 0)"],
    );
    check(
        text_task(&folder, vec![rekey(&[("inputs", "text")]), tokenize()]),
        &["after preprocessing: the expected output feature 'targets' is missing"],
    );
    check(
        text_task(&folder, vec![both()]),
        &["task `text`, after preprocessing: feature 'inputs' is text, expected int32"],
    );
}

#[test]
fn sequences_longer_than_their_length() {
    let folder = folder_with("a.txt", b"short\na long line\n");
    let config = DatasetConfig { trim_output_features: false, ..config("text", (8, 8)) };
    let message = error(text_task(&folder, vec![both(), tokenize()]), &config, 1);
    let expected = "a.txt:2 at byte 6: feature 'inputs' has 12 tokens, more than its length of 8; raise \
                    TASK_FEATURE_LENGTHS['inputs']";
    assert!(message.starts_with("task `text`, split 'train', "), "{message}");
    assert!(message.contains(expected), "{message}");
}

/// Returns the first error of a run whose model has nine ids.
fn error_of_nine_ids(task: Task) -> String {
    error_of(KnownIds { count: 9, first_of_inputs: None }, task)
}

fn error_of(known: KnownIds, task: Task) -> String {
    let options = DatasetOptions { known_ids: Some(known), ..DatasetOptions::default() };
    let batches = get_dataset(&config("ids", (8, 8)), &tasks([task]), options);
    batches.unwrap().next_batch().unwrap_err().to_string()
}

#[test]
fn inputs_that_begin_with_the_token_of_no_task() {
    let known = "{\"inputs\": [8, 3], \"targets\": [1]}\n";
    for (inputs, found) in [("[5, 8]", "the token id 5"), ("[]", "no token")] {
        let other = format!("{{\"inputs\": {inputs}, \"targets\": [1]}}\n");
        let folder = folder_with("a.jsonl", format!("{known}{other}").as_bytes());
        let of_tasks = KnownIds { count: 9, first_of_inputs: Some(6..9) };
        let message = error_of(of_tasks, task_of_ids(&folder));
        for part in [
            "a.jsonl:2 at byte 35",
            &format!("feature 'inputs' begins with {found}"),
            "the ids from 6 to 8",
            "add_sentinel_to_beginning",
            "NUM_TASKS",
        ] {
            assert!(message.contains(part), "`{part}` is not in {message}");
        }
    }
}

#[test]
fn token_ids_that_the_model_lacks() {
    let known = "{\"inputs\": [1], \"targets\": [1]}\n";
    let unknown = "{\"inputs\": [7], \"targets\": [9, 1]}\n";
    let folder = folder_with("a.jsonl", format!("{known}{unknown}").as_bytes());
    let message = error_of_nine_ids(task_of_ids(&folder));
    for part in [
        "task `ids`, split 'train', ",
        "a.jsonl:2 at byte 32: feature 'targets' has the token id 9, and the model has those from 0 to 8",
        "network.T5Config.vocab_size = 9",
    ] {
        assert!(message.contains(part), "{message}");
    }
    // An example that was joined from several lines is named by its number.
    let mut joined = task_of_ids(&folder);
    joined.preprocessors = vec![Preprocessor::FullLm(gimlet::data::FullLm::default())];
    let message = error_of_nine_ids(joined);
    assert!(message.ends_with("the example has 'targets' (example 1)"), "{message}");
}

#[test]
fn batches_and_lengths_that_do_not_fit() {
    let folder = folder_with("a.txt", b"x\n");
    let task = || text_task(&folder, vec![both(), tokenize()]);
    let message = error(task(), &config("text", (8, 8)), 3);
    assert!(message.contains("batch size (4) must be divisible by the number of data shards (3)"));
    let mut extra = config("text", (8, 8));
    extra.task_feature_lengths.as_mut().unwrap().insert("suffixes".to_string(), 3);
    assert!(error(task(), &extra, 1).contains("has 'suffixes', which an encoder-decoder model"));
}

#[test]
fn caches_that_are_missing() {
    let folder = folder_with("a.txt", b"x\n");
    let cache =
        |required| Preprocessor::CacheDatasetPlaceholder(CacheDatasetPlaceholder { required });
    let cached = DatasetConfig { use_cached: true, ..config("text", (8, 8)) };
    let task = text_task(&folder, vec![both(), tokenize(), cache(false)]);
    let message = error(task, &cached, 1);
    assert!(message.contains("or set `USE_CACHED_TASKS = False`"), "{message}");
    check(
        text_task(&folder, vec![both(), tokenize(), cache(true)]),
        &["task `text` requires caching"],
    );
    // Without a cache step SeqIO continues, and so does Gimlet.
    let tasks = tasks([text_task(&folder, vec![both(), tokenize()])]);
    let mut batches = get_dataset(&cached, &tasks, DatasetOptions::default()).unwrap();
    assert_eq!(batches.notices().len(), 1);
    assert!(batches.notices()[0].contains("preprocessed on the fly"));
    assert_eq!(take(&mut batches, 2).len(), 2);
}

#[test]
fn lengths_of_none_are_those_of_the_longest_example() {
    let folder = folder_with("a.txt", b"x\nlonger\nmid\n");
    let tasks = tasks([text_task(&folder, vec![both(), tokenize()])]);
    let config = DatasetConfig { task_feature_lengths: None, ..config("text", (8, 8)) };
    let mut batches = get_dataset(&config, &tasks, DatasetOptions::default()).unwrap();
    let batch = batches.next_batch().unwrap().unwrap();
    for name in ["encoder_input_tokens", "decoder_target_tokens"] {
        assert_eq!(batch.feature(name).unwrap().length, 7, "{name}");
    }
}

#[test]
fn a_label_outside_its_range_is_named_with_its_record() {
    let lines = "{\"sentence\": \"a\", \"label\": -1}\n{\"sentence\": \"b\", \"label\": 2}\n";
    let folder = folder_with("a.jsonl", lines.as_bytes());
    let source = json_source(&format!("{}/*.jsonl", folder.path().display()));
    let glue = Glue {
        benchmark_name: "cola".to_string(),
        label_names: vec!["no".to_string(), "yes".to_string()],
        feature_names: None,
        id_key: None,
    };
    let bytes = VocabularySpec::Byte(ByteVocabulary::of(0));
    let steps = vec![glue.into(), tokenize()];
    let task = task("text", source, steps, features(&bytes, &["inputs", "targets"]));
    let expected = [
        "task `text`, glue: the label is 2, expected -1 or one of the 2 of `label_names`",
        "a.jsonl:2 at byte 31",
    ];
    check(task, &expected);
}
