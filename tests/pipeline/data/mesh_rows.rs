//! Rows as Mesh TensorFlow's T5 makes them, where they differ from SeqIO's. Expected rows follow `pack_or_pad` and
//! `_dynamic_text2self` by hand.

use gimlet::data::{
    DatasetOptions, EncDecFeatureConverter, PrefixLMFeatureConverter, Take, get_dataset,
};
use serde_json::{Value as Json, json};

use super::*;

/// A task of these examples.
fn of_examples(examples: &[Json], preprocessors: Vec<Preprocessor>) -> (tempfile::TempDir, Tasks) {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = examples.iter().map(|example| format!("{example}\n")).collect();
    std::fs::write(folder.path().join("a.jsonl"), lines).unwrap();
    let tasks = tasks([Task { preprocessors, ..task_of_ids(&folder) }]);
    (folder, tasks)
}

fn joined() -> PrefixLMFeatureConverter {
    PrefixLMFeatureConverter { loss_on_targets_only: false, pack_before_joining: true }
}

fn check(config: &DatasetConfig, converter: PrefixLMFeatureConverter, expected: &Json) {
    let examples = [
        json!({"inputs": [7, 8, 1], "targets": [3, 1]}),
        json!({"inputs": [5, 1], "targets": [4, 6, 1]}),
        json!({"inputs": [9, 9, 9, 9, 9, 9, 9, 1], "targets": [2, 1]}),
    ];
    let (_folder, tasks) = of_examples(&examples, Vec::new());
    let options = DatasetOptions {
        converter: converter.into(),
        num_epochs: Some(1),
        drop_remainder: false,
        ..DatasetOptions::default()
    };
    let batch = get_dataset(config, &tasks, options).unwrap().next_batch().unwrap().unwrap();
    for (name, rows) in expected.as_object().unwrap() {
        let rows: Vec<Vec<i32>> = rows.as_array().unwrap().iter().map(ints).collect();
        assert_eq!(batch.rows_of(name).collect::<Vec<_>>(), rows, "{name}");
    }
}

#[test]
fn packed_rows_are_joined_example_by_example() {
    let config = DatasetConfig { pack: true, ensure_eos: true, ..config("ids", (6, 5)) };
    let expected = json!({
        "decoder_target_tokens": [[7, 8, 1, 3, 1, 5, 1, 4, 6, 1, 0], [9, 9, 9, 9, 9, 1, 2, 1, 0, 0, 0]],
        "decoder_input_tokens": [[0, 7, 8, 1, 3, 0, 5, 1, 4, 6, 0], [0, 9, 9, 9, 9, 9, 1, 2, 0, 0, 0]],
        "decoder_segment_ids": [[1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 0], [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0]],
        "decoder_positions": [[0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0], [0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0]],
        "decoder_loss_weights": [[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0]],
        // Inputs, and the position at which the first target is predicted.
        "decoder_causal_attention": [[1, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]],
    });
    check(&config, joined(), &expected);
}

#[test]
fn unpacked_rows_are_joined_without_padding_between() {
    let config = config("ids", (6, 5));
    let expected = json!({
        "decoder_target_tokens": [
            [7, 8, 1, 3, 1, 0, 0, 0, 0, 0, 0],
            [5, 1, 4, 6, 1, 0, 0, 0, 0, 0, 0],
            [9, 9, 9, 9, 9, 9, 2, 1, 0, 0, 0],
        ],
    });
    check(&config, joined(), &expected);
}

#[test]
fn rows_that_join_features_cannot_end_each_in_eos() {
    let (_folder, tasks) = of_examples(&[json!({"inputs": [1], "targets": [1]})], Vec::new());
    let config = DatasetConfig { ensure_eos: true, ..config("ids", (6, 5)) };
    let class = PrefixLMFeatureConverter { pack_before_joining: false, ..joined() };
    let options = DatasetOptions { converter: class.into(), ..DatasetOptions::default() };
    let error = get_dataset(&config, &tasks, options).err().unwrap().to_string();
    assert!(error.contains("`pack_before_joining = True`"), "{error}");
}

/// Cut rows end in EOS, and neither shorter rows nor features without `add_eos` change.
#[test]
fn cut_rows_end_in_eos() {
    let examples = [json!({"inputs": [7, 8, 9, 1], "targets": [3, 4, 5, 6]})];
    let (_folder, mut tasks) = of_examples(&examples, Vec::new());
    let rows = |tasks: &Tasks, lengths| {
        let config = DatasetConfig { ensure_eos: true, ..config("ids", lengths) };
        let options = DatasetOptions {
            converter: EncDecFeatureConverter {}.into(),
            num_epochs: Some(1),
            drop_remainder: false,
            ..DatasetOptions::default()
        };
        let batch = get_dataset(&config, tasks, options).unwrap().next_batch().unwrap().unwrap();
        ["encoder_input_tokens", "decoder_target_tokens"].map(|name| batch.ints(name).to_vec())
    };
    assert_eq!(rows(&tasks, (3, 5)), [vec![7, 8, 1], vec![3, 4, 5, 6, 0]]);
    assert_eq!(rows(&tasks, (4, 4)), [vec![7, 8, 9, 1], vec![3, 4, 5, 1]]);
    let Some(TaskOrMixture::Task(task)) = tasks.get("ids") else { panic!("it is a task") };
    let mut task = Task::clone(task);
    task.output_features.get_mut("targets").unwrap().add_eos = false;
    tasks.insert("ids".to_string(), TaskOrMixture::Task(Arc::new(task)));
    assert_eq!(rows(&tasks, (3, 3)), [vec![7, 8, 1], vec![3, 4, 5]]);
}

#[test]
fn the_first_examples_repeat_and_resume() {
    let examples: Vec<Json> =
        (2..12).map(|id| json!({"inputs": [id, 1], "targets": [id, 1]})).collect();
    let (_folder, tasks) = of_examples(&examples, vec![Take { num_examples: 3 }.into()]);
    let config = DatasetConfig { batch_size: 2, ..config("ids", (2, 2)) };
    let mut batches = get_dataset(&config, &tasks, DatasetOptions::default()).unwrap();
    let rows = take(&mut batches, 4);
    let first_ids: Vec<i32> = rows
        .iter()
        .flat_map(|batch| batch.rows_of("encoder_input_tokens").map(|row| row[0]))
        .collect();
    assert_eq!(first_ids, [2, 3, 4, 2, 3, 4, 2, 3]);
    super::resume::check(&DatasetConfig { shuffle: true, ..config }, &tasks);
}
