//! Rows as SeqIO makes them; the reference was made with `reference/seqio_reference.py`.

use std::io::Write;

use gimlet::data::{DatasetOptions, EncDecBatch, get_dataset, make_autoregressive_inputs};
use serde_json::Value as Json;

use super::*;

/// All rows of the examples, as one batch.
fn rows_of(examples: &[Json], lengths: (usize, usize), pack: bool) -> EncDecBatch {
    let folder = tempfile::tempdir().unwrap();
    let mut file = std::fs::File::create(folder.path().join("a.jsonl")).unwrap();
    for example in examples {
        writeln!(file, "{example}").unwrap();
    }
    let tasks = tasks([task_of_ids(&folder)]);
    let config = DatasetConfig { pack, batch_size: 1000, ..config("ids", lengths) };
    let options =
        DatasetOptions { num_epochs: Some(1), drop_remainder: false, ..DatasetOptions::default() };
    let mut batches = get_dataset(&config, &tasks, options).unwrap();
    let batch = batches.next_batch().unwrap().expect("one batch");
    assert_eq!(batches.next_batch().unwrap(), None);
    batch
}

/// Compares every field with SeqIO's rows.
fn check(batch: &EncDecBatch, expected: &Json) {
    let packing = batch.packing.clone().unwrap_or_default();
    let fields = [
        ("encoder_input_tokens", &batch.encoder_input_tokens),
        ("decoder_target_tokens", &batch.decoder_target_tokens),
        ("decoder_input_tokens", &batch.decoder_input_tokens),
        ("decoder_loss_weights", &batch.decoder_loss_weights),
        ("encoder_segment_ids", &packing.encoder_segment_ids),
        ("encoder_positions", &packing.encoder_positions),
        ("decoder_segment_ids", &packing.decoder_segment_ids),
        ("decoder_positions", &packing.decoder_positions),
    ];
    let expected = expected.as_object().unwrap();
    assert_eq!(expected.len(), if batch.packing.is_some() { 8 } else { 4 });
    for (name, found) in fields.into_iter().take(expected.len()) {
        let rows = expected[name].as_array().unwrap();
        let expected: Vec<i32> = rows.iter().flat_map(ints).collect();
        assert_eq!(batch.rows, rows.len(), "rows");
        assert_eq!(*found, expected, "{name}");
    }
}

#[test]
fn rows_equal_those_of_seqio() {
    for case in reference_json("packing.json").as_array().unwrap() {
        let length = |key: &str| case["lengths"][key].as_u64().unwrap() as usize;
        let lengths = (length("inputs"), length("targets"));
        let examples = case["examples"].as_array().unwrap();
        check(&rows_of(examples, lengths, true), &case["packed"]);
        check(&rows_of(&examples[..10], lengths, false), &case["unpacked"]);
    }
}

#[test]
fn examples_that_fit_share_a_row() {
    let examples = [
        serde_json::json!({"inputs": [7, 8, 5, 1], "targets": [3, 9, 1]}),
        serde_json::json!({"inputs": [8, 4, 9, 3, 1], "targets": [4, 1]}),
    ];
    let row = rows_of(&examples, (10, 7), true);
    let packing = row.packing.unwrap();
    assert_eq!(row.encoder_input_tokens, [7, 8, 5, 1, 8, 4, 9, 3, 1, 0]);
    assert_eq!(packing.encoder_segment_ids, [1, 1, 1, 1, 2, 2, 2, 2, 2, 0]);
    assert_eq!(packing.encoder_positions, [0, 1, 2, 3, 0, 1, 2, 3, 4, 0]);
    assert_eq!(row.decoder_target_tokens, [3, 9, 1, 4, 1, 0, 0]);
    assert_eq!(row.decoder_input_tokens, [0, 3, 9, 0, 4, 0, 0]);
    assert_eq!(row.decoder_loss_weights, [1, 1, 1, 1, 1, 0, 0]);
    assert_eq!(packing.decoder_segment_ids, [1, 1, 1, 2, 2, 0, 0]);
    assert_eq!(packing.decoder_positions, [0, 1, 2, 0, 1, 0, 0]);
    assert_eq!(rows_of(&examples, (7, 3), true).rows, 2);
}

#[test]
fn decoder_inputs_begin_anew_with_each_example() {
    let targets = [3, 8, 1, 9, 1, 5, 4, 1, 0, 0];
    let ids = [1, 1, 1, 2, 2, 3, 3, 3, 0, 0];
    let inputs = make_autoregressive_inputs(&targets, Some(&ids), 0);
    assert_eq!(inputs, [0, 3, 8, 0, 9, 0, 5, 4, 0, 0]);
    let inputs = make_autoregressive_inputs(&targets, None, 2);
    assert_eq!(inputs, [2, 3, 8, 1, 9, 1, 5, 4, 1, 0]);
}
