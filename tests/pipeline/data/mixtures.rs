//! Mixtures: rates and what their tasks must share.

use gimlet::data::{DataError, DatasetOptions, Mixture, MixtureEntry, get_dataset, subtasks};
use gimlet::vocab::ByteVocabulary;

use super::*;

fn named(name: &str, folder: &tempfile::TempDir) -> Task {
    Task { name: Some(name.to_string()), ..task_of_ids(folder) }
}

fn add_mixture(tasks: &mut Tasks, name: &str, entries: &[(&str, Option<f64>)]) {
    let entry =
        |(name, rate): &(&str, Option<f64>)| MixtureEntry { name: name.to_string(), rate: *rate };
    let mixture = Mixture {
        scope: name.to_string(),
        name: None,
        tasks: entries.iter().map(entry).collect(),
        default_rate: Some(1.0),
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
    let bytes = VocabularySpec::Byte(ByteVocabulary { extra_ids: 0 });
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
        ("negative", "the rate of `ids` is -1, expected a positive number"),
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
    other.source = DataSource::JsonLines(JsonLinesDataSource {
        split_to_filepattern: BTreeMap::new(),
        columns: None,
        num_input_examples: None,
        cycle_length: 16,
        block_length: 16,
    });
    let mut tasks = tasks([task_of_ids(&folder), other]);
    add_mixture(&mut tasks, "both", &[("ids", None), ("other", None)]);
    let batches = get_dataset(&config("both", (4, 4)), &tasks, DatasetOptions::default()).unwrap();
    assert_eq!(batches.notices(), ["task `other` has no split 'train': it is left out"]);
    drop(batches);
    let alone = get_dataset(&config("other", (4, 4)), &tasks, DatasetOptions::default());
    assert!(matches!(alone.err(), Some(DataError::UnknownSplit { .. })));
}
