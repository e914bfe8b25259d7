//! The order of examples, and their distribution over shards.

use std::collections::BTreeSet;

use gimlet::data::{DatasetOptions, ExampleOptions, get_dataset, task_examples};

use super::*;

fn targets(batches: &[Batch]) -> Vec<Vec<i32>> {
    batches.iter().map(|batch| batch.ints("decoder_target_tokens").to_vec()).collect()
}

/// The first batches of a shuffled task of five files.
fn shuffled(seed: u64, threads: usize) -> Vec<Vec<i32>> {
    let folder = folder_of_ids(&[20, 30, 10, 25, 15]);
    let tasks = tasks([task_of_ids(&folder)]);
    let config = DatasetConfig {
        shuffle: true,
        seed: Some(seed),
        num_prefetch_threads: Some(threads),
        ..config("ids", (4, 4))
    };
    let mut batches = get_dataset(&config, &tasks, DatasetOptions::default()).unwrap();
    targets(&take(&mut batches, 60))
}

#[test]
fn lines_come_in_the_order_of_seqio() {
    for case in reference_json("interleave.json").as_array().unwrap() {
        let counts = case["lines_per_file"].as_array().unwrap();
        let folder = tempfile::tempdir().unwrap();
        for (file, count) in counts.iter().enumerate() {
            let line = |j: u64| format!("{file}.{j}\n");
            let text: String = (0..count.as_u64().unwrap()).map(line).collect();
            std::fs::write(folder.path().join(format!("part-{file:02}.txt")), text).unwrap();
        }
        let source = text_source(&format!("{}/part-*.txt", folder.path().display()));
        let task = task("text", source, Vec::new(), BTreeMap::new());
        let num_shards = case["num_shards"].as_u64().unwrap() as usize;
        for (shard_index, order) in case["orders"].as_array().unwrap().iter().enumerate() {
            let split = "train".to_string();
            let options =
                ExampleOptions { split, shard_index, num_shards, ..ExampleOptions::default() };
            let examples = task_examples(&task, &options).unwrap();
            let found: Vec<String> =
                examples.map(|example| example.unwrap().text("text").unwrap().into()).collect();
            assert_eq!(serde_json::json!(found), *order, "shard {shard_index} of {counts:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_order_on_any_number_of_threads() {
    assert_eq!(shuffled(1, 2), shuffled(1, 2));
    assert_eq!(shuffled(1, 0), shuffled(1, 3));
}

#[test]
fn another_seed_gives_another_order() {
    assert_ne!(shuffled(1, 2), shuffled(2, 2));
}

#[test]
fn an_epoch_has_every_example_once_and_the_next_another_order() {
    let batches = shuffled(1, 2);
    // 100 examples make 25 batches an epoch; the shuffle buffer of 40 reaches into the next.
    let examples = |batches: &[Vec<i32>]| -> Vec<i32> {
        batches.iter().flat_map(|tokens| tokens.chunks(4).map(|row| row[0])).collect()
    };
    let all: BTreeSet<i32> = examples(&batches).into_iter().collect();
    assert_eq!(all.len(), 100);
    assert_ne!(batches[..25], batches[25..50]);
}

#[test]
fn a_batch_that_ends_with_a_pass_is_filled_with_padding() {
    for (lines, expected) in [(10, [4, 4, 2]), (8, [4, 4, 4])] {
        let folder = folder_of_ids(&[lines - 3, 3]);
        let tasks = tasks([task_of_ids(&folder)]);
        let config =
            DatasetConfig { shuffle: true, ends_batch_with_pass: true, ..config("ids", (4, 4)) };
        let mut batches = get_dataset(&config, &tasks, DatasetOptions::default()).unwrap();
        let batches = take(&mut batches, 6);
        let rows = |batch: &Batch| -> Vec<Vec<i32>> {
            let rows = batch.rows_of("encoder_input_tokens").map(<[i32]>::to_vec);
            rows.filter(|row| row[0] != 0).collect()
        };
        assert!(batches.iter().all(|batch| batch.rows == 4));
        assert_eq!([0, 1, 2].map(|at| rows(&batches[at]).len()), expected);
        let padding = batches[2].rows_of("decoder_loss_weights").filter(|row| row == &[0; 4]);
        assert_eq!(padding.count(), 4 - expected[2]);
        let pass = |batches: &[Batch]| batches.iter().flat_map(rows).collect::<Vec<_>>();
        let length = lines.div_ceil(4);
        let (first, second) = (pass(&batches[..length]), pass(&batches[length..2 * length]));
        assert_ne!(first, second, "each pass is shuffled anew");
        let sorted = |mut rows: Vec<Vec<i32>>| {
            rows.sort_unstable();
            rows
        };
        assert_eq!(sorted(first), sorted(second));
    }
}

#[test]
fn shards_share_everything_and_nothing_twice() {
    let folder = folder_of_ids(&[8, 8, 8]);
    let tasks = tasks([task_of_ids(&folder)]);
    // Two shards get whole files, four get every fourth example.
    for num_shards in [1, 2, 4] {
        let mut seen = Vec::new();
        for shard_index in 0..num_shards {
            let options = DatasetOptions {
                shard_index,
                num_shards,
                num_epochs: Some(1),
                drop_remainder: false,
                ..DatasetOptions::default()
            };
            let config = DatasetConfig { shuffle: true, ..config("ids", (4, 4)) };
            let mut batches = get_dataset(&config, &tasks, options).unwrap();
            for batch in take(&mut batches, 100) {
                assert!(batch.rows <= 4 / num_shards);
                seen.extend(batch.rows_of("encoder_input_tokens").map(|row| (row[0], row[1])));
            }
        }
        seen.sort_unstable();
        let expected: Vec<(i32, i32)> =
            (0..3).flat_map(|file| (0..8).map(move |line| (2 + file, 2 + line))).collect();
        assert_eq!(seen, expected, "{num_shards} shards");
    }
}

#[test]
fn a_training_evaluation_repeats_rows_and_deals_them_out() {
    let folder = folder_of_ids(&[3]);
    let tasks = tasks([task_of_ids(&folder)]);
    let config = config("ids", (3, 4));
    let rows = |num_shards, shard_index| {
        let options = DatasetOptions { num_shards, shard_index, ..DatasetOptions::default() };
        let batches =
            gimlet::data::training_eval_batches(&config, &tasks, &options, Some(2)).unwrap();
        let rows = |batch: &Batch| {
            batch.rows_of("encoder_input_tokens").map(|row| row[1]).collect::<Vec<_>>()
        };
        batches["ids"].iter().map(rows).collect::<Vec<_>>()
    };
    assert_eq!(rows(1, 0), [[2, 3, 4, 2], [3, 4, 2, 3]]);
    assert_eq!(rows(2, 1), [[3, 2], [4, 3]]);
}
