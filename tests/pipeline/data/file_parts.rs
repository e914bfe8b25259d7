//! Files that are divided into parts, as t5-experiments divides them among its processes.

use gimlet::data::{DatasetOptions, check_dataset, get_dataset};

use super::*;

/// The files of each row of the first batches, as one of several hosts reads them; 0 is a row of padding.
fn files(config: &DatasetConfig, tasks: &Tasks, host: (usize, usize)) -> Vec<Vec<i32>> {
    batches(config, tasks, host, 6)
        .iter()
        .map(|batch| batch.rows_of("encoder_input_tokens").map(|row| row[0]).collect())
        .collect()
}

fn batches(
    config: &DatasetConfig,
    tasks: &Tasks,
    (shard_index, num_shards): (usize, usize),
    count: usize,
) -> Vec<Batch> {
    let options = DatasetOptions { shard_index, num_shards, ..DatasetOptions::default() };
    take(&mut get_dataset(config, tasks, options).unwrap(), count)
}

fn in_parts(count: usize) -> DatasetConfig {
    DatasetConfig {
        shuffle: true,
        ends_batch_with_pass: true,
        file_parts: Some(count),
        ..config("ids", (4, 4))
    }
}

/// Files are numbered from 2, and the fifth belongs to no part.
#[test]
fn each_part_has_consecutive_files_and_its_own_rows_of_a_batch() {
    let folder = folder_of_ids(&[2, 3, 1, 6, 9]);
    let tasks = tasks([task_of_ids(&folder)]);
    let mut found = files(&in_parts(2), &tasks, (0, 1));
    found.iter_mut().flat_map(|rows| rows.chunks_mut(2)).for_each(<[i32]>::sort_unstable);
    let by_part = |part: usize| found.iter().flat_map(move |rows| &rows[2 * part..2 * part + 2]);
    // A pass of the first part has 5 rows, and of the second 7: each ends alone.
    let padding: Vec<usize> = (0..12).filter(|row| by_part(0).nth(*row) == Some(&0)).collect();
    assert_eq!(padding, [4, 10]);
    assert_eq!(by_part(1).filter(|file| **file == 0).count(), 1);
    assert!(found[3][2] == 0, "{found:?}");
    assert!(by_part(0).all(|file| [0, 2, 3].contains(file)), "{found:?}");
    assert!(by_part(1).all(|file| [0, 4, 5].contains(file)), "{found:?}");
    let first_pass: Vec<i32> = by_part(1).take(8).copied().collect();
    let count = |file| first_pass.iter().filter(|found| **found == file).count();
    assert_eq!([count(4), count(5)], [1, 6]);
}

#[test]
fn hosts_have_the_rows_that_one_process_has() {
    let folder = folder_of_ids(&[5, 3, 7, 6]);
    let tasks = tasks([task_of_ids(&folder)]);
    for parts in [2, 4] {
        let config = in_parts(parts);
        let whole = batches(&config, &tasks, (0, 1), 9);
        for num_hosts in [2, 4] {
            let hosts: Vec<_> =
                (0..num_hosts).map(|host| batches(&config, &tasks, (host, num_hosts), 9)).collect();
            for (step, whole) in whole.iter().enumerate() {
                let together =
                    hosts.iter().flat_map(|host| host[step].ints("decoder_target_tokens"));
                assert!(together.eq(whole.ints("decoder_target_tokens")), "{parts} {num_hosts}");
            }
        }
    }
}

#[test]
fn the_order_within_a_part_does_not_depend_on_other_parts() {
    let rows = |sizes: &[usize]| {
        let folder = folder_of_ids(sizes);
        files(&in_parts(2), &tasks([task_of_ids(&folder)]), (0, 1))
    };
    let first = |batches: Vec<Vec<i32>>| {
        batches.iter().flat_map(|rows| rows[..2].to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(first(rows(&[4, 4, 9, 9])), first(rows(&[4, 4, 1, 2])));
}

#[test]
fn files_that_no_part_has_are_named() {
    let folder = folder_of_ids(&[2, 2, 2, 2, 2]);
    let tasks = tasks([task_of_ids(&folder)]);
    let notices = |parts| {
        let read = get_dataset(&in_parts(parts), &tasks, DatasetOptions::default()).unwrap();
        read.notices().to_vec()
    };
    let expected = "task `ids` has 5 files, of which `utils.DatasetConfig.file_parts = 2` gives each part 2: not read is \
        `part-04.jsonl`";
    assert_eq!(notices(2), [expected]);
    assert_eq!(notices(1), [""; 0]);
}

#[test]
fn parts_that_cannot_be_are_refused() {
    let folder = folder_of_ids(&[2, 2, 2]);
    let tasks = tasks([task_of_ids(&folder)]);
    let refused = |config: &DatasetConfig, part: &str| {
        let checked = check_dataset(config, &tasks, &DatasetOptions::default());
        let error = checked.expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(
        &in_parts(4),
        "task `ids`, split 'train', has 3 files, expected at least one for each part",
    );
    refused(
        &in_parts(3),
        "`utils.DatasetConfig.file_parts` is 3, expected a divisor of the batch size (4)",
    );
    refused(&in_parts(0), "`utils.DatasetConfig.file_parts` is 0, expected a divisor");
    // Data that are read once are not divided.
    let once = DatasetOptions { num_epochs: Some(1), ..DatasetOptions::default() };
    check_dataset(&in_parts(4), &tasks, &once).expect("it is read as a whole");
}

#[test]
fn a_part_without_examples_is_named() {
    let folder = folder_of_ids(&[5, 5, 0, 0]);
    let tasks = tasks([task_of_ids(&folder)]);
    for ends_batch_with_pass in [false, true] {
        let config = DatasetConfig { ends_batch_with_pass, ..in_parts(2) };
        let mut read = get_dataset(&config, &tasks, DatasetOptions::default()).unwrap();
        let error = read.next_batch().expect_err("nothing is in it").to_string();
        let part = "they are part 2 of `utils.DatasetConfig.file_parts = 2`, `part-02.jsonl`, `part-03.jsonl`: give files";
        assert!(error.contains("`ids`, split 'train', has no examples"), "{error}");
        assert!(error.contains(part), "{error}");
    }
}
