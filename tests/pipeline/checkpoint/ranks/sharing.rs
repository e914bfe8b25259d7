//! The part of an array that each process writes, and refused saves of several processes.

use std::time::Duration;

use gimlet::checkpoint::{
    Array, CheckpointError, Commit, Compression, Procedure, Retention, Saver, Saving, Shard,
    Writer, checkpoint_dir, remove_stale,
};
use gimlet::models::open;
use gimlet::storage::Path;
use serde_json::Value;

use super::{
    Held, LONG, SHORT, STEP, check_whole, every_way, part, place_of, process, processes,
    save_together, state,
};
use crate::checkpoint::stores::orphan;
use crate::checkpoint::{names, newest_whole, scratch};
use crate::storage::faulty::Bucket;

/// Lets two processes, in a folder on disk and one in a bucket, save arrays of their own, and
/// checks that the first one's error contains the reason and that no files remain.
fn check_refused(arrays: fn(usize) -> Vec<(&'static str, Held)>, reason: &str) {
    every_way(|model_dir, commit| {
        let save = |one: &Procedure| {
            let writer = Writer::begin(model_dir, STEP, None, one)?;
            let held = arrays(place_of(one).0);
            let shards: Vec<_> = held.iter().map(|(name, held)| (*name, held.shard())).collect();
            writer.shards(&shards)?;
            writer.commit()
        };
        let all = processes(2, "a1", LONG, commit);
        let saved: Vec<Result<Path, CheckpointError>> = std::thread::scope(|scope| {
            let save = &save;
            let threads: Vec<_> = all.iter().map(|one| scope.spawn(move || save(one))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let message = saved[0].as_ref().unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
        assert!(!model_dir.exists().unwrap() || names(model_dir).is_empty(), "{model_dir}");
    });
}

/// A part of two elements.
fn pair(shape: usize, start: usize, holder: usize) -> Held {
    let array = Array::from_f32(&[2], &[0.0; 2]);
    Held { shape: vec![shape], part: vec![2], start: vec![start], holders: vec![holder], array }
}

#[test]
fn an_array_that_no_process_holds_whole_is_not_committed() {
    let thirds = |rank: usize| vec![("target/a", pair(6, 2 * rank, rank))];
    check_refused(thirds, "no process holds and wrote `target.a/2`");
}

#[test]
fn a_file_that_two_processes_wrote_is_not_committed() {
    // Both hold the second half, and claim to be the only ones.
    let halves = |rank: usize| match rank {
        0 => vec![("target/a", pair(4, 0, 0)), ("target/a", pair(4, 2, 0))],
        _ => vec![("target/a", pair(4, 2, 1))],
    };
    check_refused(halves, "process 1 and one before it wrote `target.a/1`");
}

#[test]
fn arrays_that_the_first_process_does_not_know_are_not_lost_unsaid() {
    // The second array has a folder of its own, the third lies in the file `checkpoint`.
    let more = |rank: usize| {
        let scalar = || Array::scalar_i32(1);
        let (shape, part, start) = (vec![], vec![], vec![]);
        let step = Held { shape, part, start, holders: vec![1], array: scalar() };
        let mut arrays = vec![("target/a", pair(4, 2 * rank, rank))];
        if rank == 1 {
            arrays.extend([("target/b", pair(2, 0, 1)), ("state/step", step)]);
        }
        arrays
    };
    let reason = "process 1 has arrays that process 0 does not know: `state/step`, `target/b`";
    check_refused(more, reason);
}

#[test]
fn of_the_arrays_that_all_hold_each_process_writes_some() {
    every_way(|model_dir, commit| {
        let first = Procedure { commit, ..process(0, 2, "a1", Duration::MAX) };
        let second = Procedure { commit, ..process(1, 2, "a1", LONG) };
        let save = |one: &Procedure| {
            let (rank, count) = place_of(one);
            let writer = Writer::begin(model_dir, STEP, None, one).unwrap();
            let hold = |(name, array, split)| (name, Held::new(&array, split, rank, count));
            let held: Vec<(&str, Held)> = state().into_iter().map(hold).collect();
            let shards: Vec<_> = held.iter().map(|(name, held)| (*name, held.shard())).collect();
            writer.shards(&shards).unwrap();
            let name = format!("gimlet/train_ds-{rank:03}-of-{count:03}.json");
            writer.extra(&name, b"{}").unwrap();
            writer
        };
        std::thread::scope(|scope| {
            let second = scope.spawn(|| save(&second).commit().unwrap());
            let first = save(&first);
            second.join().unwrap();
            let list = model_dir.list().unwrap()[0].join("gimlet/done-00001-of-00002.json");
            let list: Value = serde_json::from_slice(&list.read().unwrap()).unwrap();
            let files: Vec<&String> = list["files"].as_object().unwrap().keys().collect();
            let has = |folder: &str| files.iter().any(|file| file.starts_with(folder));
            // The largest array is the first process's; the next two together are smaller.
            assert!(!has("target.kernel/") && has("target.scale/"), "{files:?}");
            first.commit().unwrap();
        });
        check_whole(model_dir, 2);
    });
}

#[test]
fn who_comes_late_writes_into_no_other_attempt() {
    every_way(|model_dir, commit| {
        let dead = processes(2, "a1", SHORT, commit);
        let first = Writer::begin(model_dir, STEP, None, &dead[0]).unwrap();
        let late = Writer::begin(model_dir, STEP, None, &dead[1]).unwrap();
        first.commit().unwrap_err();
        orphan(model_dir);
        remove_stale(model_dir).unwrap();
        // One array before the next attempt, which would look like a damaged checkpoint, and one
        // after it.
        let write = |name: &str| {
            let whole = Array::from_f32(&[6], &[-1.0; 6]);
            let shard = Shard::whole(whole.view(), vec![1]);
            drop(late.shards(&[(name, shard)]));
        };
        write("target/scale");
        let (newest, skipped) = newest_whole(model_dir).unwrap();
        assert!(newest.is_none() && skipped.is_empty(), "{skipped:?}");
        for saved in save_together(model_dir, &processes(2, "b2", LONG, commit), None) {
            saved.unwrap();
        }
        write("target/bias");
        let message = late.commit().unwrap_err().to_string();
        assert!(message.contains("process 0 has given it up"), "{message}");
        check_whole(model_dir, 2);
    });
}

#[test]
fn a_whole_checkpoint_stays_when_several_save_it_again() {
    every_way(|model_dir, commit| {
        save_together(model_dir, &processes(2, "a1", LONG, commit), None);
        let pin = checkpoint_dir(model_dir, STEP).join("PINNED");
        pin.write_atomic(b"").unwrap();
        for saved in save_together(model_dir, &processes(4, "b2", LONG, commit), None) {
            saved.unwrap();
        }
        assert!(pin.exists().unwrap());
        pin.remove_file().unwrap();
        check_whole(model_dir, 2);
        assert_eq!(names(model_dir), ["checkpoint_7"]);
    });
}

#[test]
fn savers_of_several_processes_save_and_prune_together() {
    let (_dir, model_dir) = scratch();
    let save = |rank: usize| {
        let retention = Retention { keep: Some(2), keep_dataset_checkpoints: None };
        let (model_dir, procedure) = (model_dir.clone(), process(rank, 2, "run", LONG));
        let compression = Compression::None;
        let saving = Saving { model_dir, target_dtype: None, compression, retention, procedure };
        let mut saver = Saver::new(saving);
        for step in 1..=4_u64 {
            let copy = |snapshot: &mut gimlet::checkpoint::Snapshot| {
                let half = Array::from_f32(&[2, 3], &[(10 * step + rank as u64) as f32; 6]);
                let (part, start, holders) = (vec![2, 3], vec![2 * rank, 0], vec![rank]);
                let (shape, array) = (vec![4, 3], half.view());
                snapshot.shard("target/a", Shard { shape, part, start, holders, array });
                snapshot.array("target/b", Array::from_f32(&[2], &[step as f32; 2]).view());
            };
            saver.save(step, None, copy).unwrap();
        }
        saver.wait().unwrap();
    };
    std::thread::scope(|scope| {
        for rank in [0, 1] {
            let save = &save;
            scope.spawn(move || save(rank));
        }
    });
    assert_eq!(names(&model_dir), ["checkpoint_3", "checkpoint_4"]);
    let stored = open(&checkpoint_dir(&model_dir, 4)).unwrap();
    stored.verify().unwrap();
    assert_eq!(stored.read("target/b").unwrap().to_f32().unwrap(), [4.0; 2]);
    let halves = [[40.0; 6], [41.0; 6]].concat();
    assert_eq!(stored.read("target/a").unwrap().to_f32().unwrap(), halves);
}

#[test]
fn a_process_of_another_number_of_them_reads_its_own_part_alone() {
    let bucket = Bucket::new();
    let model_dir = bucket.path("run");
    save_together(&model_dir, &processes(4, "a1", LONG, Commit::LastFile), None);
    let stored = open(&checkpoint_dir(&model_dir, STEP)).unwrap();
    let (name, whole, split) = state().remove(0);
    let read = |rank: usize, count: usize, expected: &[&str]| {
        let before = bucket.requests().len();
        let (range, _) = part(&whole, split, rank, count);
        assert_eq!(stored.read_part(name, &range).unwrap(), whole.part(&range));
        let requests = bucket.requests();
        let chunks =
            requests[before..].iter().filter(|request| !request.target.contains(".zarray"));
        let mut chunks: Vec<&str> =
            chunks.map(|request| request.target.rsplit('/').next().unwrap()).collect();
        chunks.sort_unstable();
        assert_eq!(chunks, expected, "{rank} of {count}");
    };
    read(0, 2, &["0.0", "1.0"]);
    read(1, 2, &["2.0", "3.0"]);
    read(3, 8, &["1.0"]);
    read(0, 1, &["0.0", "1.0", "2.0", "3.0"]);
}
