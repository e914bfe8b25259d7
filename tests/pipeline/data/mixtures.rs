//! Mixtures: rates, and the properties that their tasks must share.

use gimlet::data::{
    DataError, DatasetOptions, Mixture, MixtureEntries, MixtureEntry, Rate, SampleFromDatasets,
    get_dataset, subtasks,
};
use gimlet::data::{RateFunction, RateNumExamples};
use gimlet::gin::Ref;
use gimlet::vocab::{ByteVocabulary, SentencePieceVocabulary};

use super::*;

fn named(name: &str, folder: &tempfile::TempDir) -> Task {
    Task { name: Some(name.to_string()), ..task_of_ids(folder) }
}

fn add_mixture(tasks: &mut Tasks, name: &str, entries: &[(&str, Option<f64>)]) {
    let entry = |(name, rate): &(&str, Option<f64>)| MixtureEntry {
        name: name.to_string(),
        rate: rate.map(Rate::Number),
    };
    let mixture = Mixture {
        scope: name.to_string(),
        name: None,
        tasks: MixtureEntries(entries.iter().map(entry).collect()),
        default_rate: Some(Rate::Number(1.0)),
        sample_fn: None,
    };
    tasks.insert(name.to_string(), TaskOrMixture::Mixture(Arc::new(mixture)));
}

fn error(tasks: &Tasks, name: &str) -> String {
    let found = get_dataset(&config(name, (4, 4)), tasks, DatasetOptions::default());
    found.err().expect("an error").to_string()
}

#[test]
fn tasks_are_drawn_by_rate_and_nested_rates_multiply() {
    // Files count up from 0 in each folder, so folders of 1, 2 and 3 files tell the tasks apart.
    let folders = [folder_of_ids(&[9]), folder_of_ids(&[0, 9]), folder_of_ids(&[0, 0, 9])];
    let mut tasks =
        tasks([named("a", &folders[0]), named("b", &folders[1]), named("c", &folders[2])]);
    add_mixture(&mut tasks, "inner", &[("b", Some(30.0)), ("c", Some(10.0))]);
    add_mixture(&mut tasks, "outer", &[("a", None), ("inner", Some(4.0))]);
    let names: Vec<String> = subtasks("outer", &tasks)
        .unwrap()
        .iter()
        .map(|task| task.task_name().to_string())
        .collect();
    assert_eq!(names, ["a", "b", "c"]);
    let mut batches =
        get_dataset(&config("outer", (4, 4)), &tasks, DatasetOptions::default()).unwrap();
    let mut counts = [0; 3];
    for batch in take(&mut batches, 500) {
        for row in batch.rows_of("encoder_input_tokens") {
            counts[row[0] as usize - 2] += 1;
        }
    }
    // Of 2000 examples a fifth, three fifths, a fifth; four standard deviations are about 80.
    for (count, expected) in counts.into_iter().zip([400i32, 1200, 400]) {
        assert!((count - expected).abs() < 80, "{counts:?}");
    }
}

#[test]
fn tasks_must_share_their_features_and_vocabularies() {
    let folder = folder_of_ids(&[3]);
    let mut other = named("other", &folder);
    let bytes = VocabularySpec::Byte(ByteVocabulary::of(0));
    other.output_features = features(&bytes, &["inputs", "targets"]);
    let mut fewer = named("fewer", &folder);
    fewer.output_features.remove("inputs");
    let mut tasks = tasks([task_of_ids(&folder), other, fewer]);
    add_mixture(&mut tasks, "vocabularies", &[("ids", None), ("other", None)]);
    add_mixture(&mut tasks, "features", &[("ids", None), ("fewer", None)]);
    let message = error(&tasks, "vocabularies");
    assert!(message.contains("must use the same vocabulary and dtype: for feature"), "{message}");
    let message = error(&tasks, "features");
    assert!(message.contains("tasks with different output features"), "{message}");
}

#[test]
fn tasks_may_each_bring_their_copy_of_a_vocabulary() {
    let folder = folder_of_ids(&[3]);
    let copy = folder.path().join("copy.model");
    std::fs::copy(reference("sentencepiece.model"), &copy).unwrap();
    let at = |name: &str, path: &std::path::Path| {
        let vocabulary = VocabularySpec::SentencePiece(SentencePieceVocabulary {
            sentencepiece_model_file: path.display().to_string(),
            extra_ids: 0,
            reverse_extra_ids: true,
            normalizer_spec_overrides: None,
        });
        let output_features = features(&vocabulary, &["inputs", "targets"]);
        Task { output_features, ..named(name, &folder) }
    };
    let mut tasks = tasks([at("a", &reference("sentencepiece.model")), at("b", &copy)]);
    add_mixture(&mut tasks, "both", &[("a", None), ("b", None)]);
    assert_eq!(subtasks("both", &tasks).unwrap().len(), 2);
}

#[test]
fn mixtures_that_make_no_sense_are_errors() {
    let folder = folder_of_ids(&[3]);
    let mut tasks = tasks([task_of_ids(&folder)]);
    add_mixture(&mut tasks, "loop", &[("loop", None), ("ids", None)]);
    add_mixture(&mut tasks, "empty", &[]);
    add_mixture(&mut tasks, "negative", &[("ids", Some(-1.0))]);
    add_mixture(&mut tasks, "unknown", &[("idz", None)]);
    for (name, expected) in [
        ("loop", "mixture `loop` contains itself"),
        ("empty", "mixture `empty` does not contain any tasks"),
        ("negative", "the rate of `ids` is -1, expected a number of 0 or more"),
        ("unknown", "no task or mixture is named `idz`: did you mean `ids`?"),
    ] {
        let message = error(&tasks, name);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_task_without_the_split_is_left_out_with_a_notice() {
    let folder = folder_of_ids(&[5]);
    let mut other = named("other", &folder);
    json_lines(&mut other).split_to_filepattern.clear();
    let mut tasks = tasks([task_of_ids(&folder), other]);
    add_mixture(&mut tasks, "both", &[("ids", None), ("other", None)]);
    let batches = get_dataset(&config("both", (4, 4)), &tasks, DatasetOptions::default()).unwrap();
    assert_eq!(batches.notices(), ["task `other` has no split 'train': it is left out"]);
    drop(batches);
    let alone = get_dataset(&config("other", (4, 4)), &tasks, DatasetOptions::default());
    assert!(matches!(alone.err(), Some(DataError::UnknownSplit { .. })));
}

#[test]
fn one_notice_tells_of_all_tasks_that_have_no_cache_step() {
    let folder = folder_of_ids(&[5]);
    let names: Vec<String> = (0..7).map(|i| format!("t{i}")).collect();
    let mut tasks = tasks(names.iter().map(|name| named(name, &folder)));
    let entries: Vec<(&str, Option<f64>)> = names.iter().map(|name| (&name[..], None)).collect();
    add_mixture(&mut tasks, "all", &entries);
    let config = DatasetConfig { use_cached: true, ..config("all", (4, 4)) };
    let batches = get_dataset(&config, &tasks, DatasetOptions::default()).unwrap();
    let expected = "tasks `t0`, `t1`, `t2`, `t3`, `t4` and 2 more have no cache step \
                    (`CacheDatasetPlaceholder`): they are preprocessed on the fly";
    assert_eq!(batches.notices(), [expected]);
}

fn json_lines(task: &mut Task) -> &mut JsonLinesDataSource {
    let DataSource::JsonLinesDataSource(source) = &mut task.source else { panic!("JSON lines") };
    source
}

/// Returns a task with a declared number of examples.
fn counted(name: &str, folder: &tempfile::TempDir, count: u64) -> Task {
    let mut task = named(name, folder);
    json_lines(&mut task).reading.num_input_examples =
        Some(BTreeMap::from([("train".to_string(), count)]));
    task
}

fn add_proportional(tasks: &mut Tasks, name: &str, entries: &[&str], maximum: Option<f64>) {
    let rate = RateNumExamples {
        maximum,
        temperature: 1.0,
        scale: 1.0,
        fallback_to_num_input_examples: true,
    };
    let entry = |name: &&str| MixtureEntry { name: name.to_string(), rate: None };
    let mixture = Mixture {
        scope: name.to_string(),
        name: None,
        tasks: MixtureEntries(entries.iter().map(entry).collect()),
        default_rate: Some(Rate::Function(Ref(RateFunction::RateNumExamples(rate)))),
        sample_fn: None,
    };
    tasks.insert(name.to_string(), TaskOrMixture::Mixture(Arc::new(mixture)));
}

#[test]
fn tasks_can_be_drawn_by_their_number_of_examples_up_to_a_maximum() {
    let folders = [folder_of_ids(&[9]), folder_of_ids(&[0, 9])];
    let mut tasks = tasks([counted("a", &folders[0], 1000), counted("b", &folders[1], 10)]);
    add_proportional(&mut tasks, "both", &["a", "b"], Some(30.0));
    let mut batches =
        get_dataset(&config("both", (4, 4)), &tasks, DatasetOptions::default()).unwrap();
    let mut counts = [0; 2];
    for batch in take(&mut batches, 500) {
        for row in batch.rows_of("encoder_input_tokens") {
            counts[row[0] as usize - 2] += 1;
        }
    }
    // Of 2000 examples three quarters and a quarter; four standard deviations are about 80.
    for (count, expected) in counts.into_iter().zip([1500i32, 500]) {
        assert!((count - expected).abs() < 80, "{counts:?}");
    }
}

#[test]
fn a_rate_that_is_not_known_is_a_mistake_of_who_draws_by_it() {
    let folder = folder_of_ids(&[9]);
    let mut tasks = tasks([counted("a", &folder, 10), named("b", &folder)]);
    add_proportional(&mut tasks, "both", &["a", "b"], None);
    add_proportional(&mut tasks, "outer", &["a", "both"], None);
    let message = error(&tasks, "both");
    assert!(message.contains("the rate of `b` is the number of its 'train' examples"), "{message}");
    let message = error(&tasks, "outer");
    assert!(message.contains("'rate' for sub-mixture 'both' must be a number"), "{message}");
    assert_eq!(subtasks("outer", &tasks).unwrap().len(), 2);
}

#[test]
fn a_task_of_rate_0_is_part_of_its_mixture_and_never_drawn() {
    let folders = [folder_of_ids(&[9]), folder_of_ids(&[0, 9])];
    let mut tasks = tasks([named("a", &folders[0]), named("b", &folders[1])]);
    add_mixture(&mut tasks, "both", &[("a", Some(0.0)), ("b", Some(1.0))]);
    let mut batches =
        get_dataset(&config("both", (4, 4)), &tasks, DatasetOptions::default()).unwrap();
    let batches = take(&mut batches, 20);
    for batch in &batches {
        assert!(batch.rows_of("encoder_input_tokens").all(|row| row[0] == 3));
    }
    assert_eq!(subtasks("both", &tasks).unwrap().len(), 2);
}

/// How often each of two tasks of 30 and 3 examples is drawn in one pass.
fn drawn_in_a_pass(stop_on_empty_dataset: Option<bool>) -> [usize; 2] {
    let folders = [folder_of_ids(&[30]), folder_of_ids(&[0, 3])];
    let mut tasks = tasks([named("a", &folders[0]), named("b", &folders[1])]);
    let entry = |name: &str| MixtureEntry { name: name.to_string(), rate: None };
    let sample_fn = stop_on_empty_dataset
        .map(|stop_on_empty_dataset| Ref(SampleFromDatasets { stop_on_empty_dataset }));
    let mixture = Mixture {
        scope: "both".to_string(),
        name: None,
        tasks: MixtureEntries(vec![entry("a"), entry("b")]),
        default_rate: Some(Rate::Number(1.0)),
        sample_fn,
    };
    tasks.insert("both".to_string(), TaskOrMixture::Mixture(Arc::new(mixture)));
    let options =
        DatasetOptions { num_epochs: Some(1), drop_remainder: false, ..DatasetOptions::default() };
    let mut batches = get_dataset(&config("both", (4, 4)), &tasks, options).unwrap();
    let mut counts = [0; 2];
    while let Some(batch) = batches.next_batch().unwrap() {
        for row in batch.rows_of("encoder_input_tokens").filter(|row| row[0] != 0) {
            counts[row[0] as usize - 2] += 1;
        }
    }
    counts
}

#[test]
fn a_pass_over_a_mixture_ends_with_its_first_task_or_its_last() {
    let first = drawn_in_a_pass(None);
    assert!(first[1] == 3 && first[0] < 30, "{first:?}");
    assert_eq!(drawn_in_a_pass(Some(true)), first);
    assert_eq!(drawn_in_a_pass(Some(false)), [30, 3]);
}
