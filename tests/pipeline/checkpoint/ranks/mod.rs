//! A checkpoint that several processes save together, each its own parts.

mod sharing;

use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use gimlet::checkpoint::{
    Array, CheckpointError, Commit, Procedure, Shard, Share, Writer, checkpoint_dir, list_steps,
    remove_stale,
};
use gimlet::models::open;
use gimlet::storage::Path;
use serde_json::{Value, json};

use super::stores::orphan;
use super::{everywhere, names, newest_whole, scratch};
use crate::child;

/// The step that all processes save.
const STEP: u64 = 7;

/// Time to wait for processes that come.
const LONG: Duration = Duration::from_secs(60);

/// Time to wait for processes that start and are killed.
const ENOUGH: Duration = Duration::from_secs(2);

/// Time to wait for processes that do not come.
const SHORT: Duration = Duration::from_millis(50);

/// The distribution of an array over the processes.
#[derive(Clone, Copy)]
enum Split {
    /// Each process holds some rows.
    Rows,
    /// Each pair holds some columns, as with two replicas that have a mesh each.
    ColumnsOfPairs,
    /// Each process holds the whole array.
    Whole,
}

/// Arrays of every kind that a training state has.
fn state() -> Vec<(&'static str, Array, Split)> {
    let array = |shape: &[usize], first: u32| {
        let values = 0..shape.iter().product::<usize>() as u32;
        let values: Vec<f32> = values.map(|i| (first + i) as f32 / 8.0).collect();
        Array::from_f32(shape, &values)
    };
    vec![
        ("target/embedding", array(&[16, 6], 0), Split::Rows),
        ("target/kernel", array(&[6, 8], 1000), Split::ColumnsOfPairs),
        ("target/vocabulary", array(&[5, 6], 500), Split::Rows),
        ("target/scale", array(&[6], 2000), Split::Whole),
        ("target/bias", array(&[5], 3000), Split::Whole),
        ("state/param_states/embedding/v_row", array(&[16], 4000), Split::Whole),
        ("state/step", Array::scalar_i32(STEP as i32), Split::Whole),
    ]
}

/// Returns the range of the part that a process holds, and the processes that hold the same.
fn part(array: &Array, split: Split, rank: usize, count: usize) -> (Vec<Range<usize>>, Vec<usize>) {
    let mut part: Vec<Range<usize>> = array.shape.iter().map(|&size| 0..size).collect();
    let mut divide = |axis: usize, index: usize, parts: usize| {
        let (whole, size) = (array.shape[axis], array.shape[axis].div_ceil(parts));
        part[axis] = (index * size).min(whole)..((index + 1) * size).min(whole);
    };
    match split {
        Split::Rows => {
            divide(0, rank, count);
            (part, vec![rank])
        }
        Split::ColumnsOfPairs => {
            divide(1, rank / 2, count / 2);
            (part, vec![rank / 2 * 2, rank / 2 * 2 + 1])
        }
        Split::Whole => (part, (0..count).collect()),
    }
}

/// The part of an array that a process holds.
struct Held {
    shape: Vec<usize>,
    part: Vec<usize>,
    start: Vec<usize>,
    holders: Vec<usize>,
    array: Array,
}

impl Held {
    fn new(array: &Array, split: Split, rank: usize, count: usize) -> Self {
        let (range, holders) = part(array, split, rank, count);
        let start = range.iter().map(|range| range.start).collect();
        let (first, _) = part(array, split, 0, count);
        let part = first.iter().map(Range::len).collect();
        Self { shape: array.shape.clone(), part, start, holders, array: array.part(&range) }
    }

    fn shard(&self) -> Shard<'_> {
        Shard {
            shape: self.shape.clone(),
            part: self.part.clone(),
            start: self.start.clone(),
            holders: self.holders.clone(),
            array: self.array.view(),
        }
    }
}

/// Saves one process's part of the state; calls `before` before each action.
fn save_part(
    model_dir: &Path,
    procedure: &Procedure,
    before: &mut dyn FnMut() -> Result<(), CheckpointError>,
) -> Result<(), CheckpointError> {
    let (rank, count) = place_of(procedure);
    before()?;
    let writer = Writer::begin(model_dir, STEP, None, procedure)?;
    before()?;
    // One after the other, so that there is a moment between any two arrays.
    for (name, array, split) in state() {
        let held = Held::new(&array, split, rank, count);
        writer.shards(&[(name, held.shard())])?;
        before()?;
    }
    writer.extra("gimlet/run.json", b"{}")?;
    writer.extra(&format!("gimlet/train_ds-{rank:03}-of-{count:03}.json"), b"{}")?;
    before()?;
    writer.commit()?;
    before()
}

/// The number of actions after which a process has done its part.
fn done() -> usize {
    state().len() + 3
}

/// The numbers of actions after which a process dies: before it begins, before the first array, between two, behind the
/// last, before the commit.
fn moments() -> [usize; 5] {
    let arrays = state().len();
    [0, 1, 4, arrays + 1, arrays + 2]
}

/// Returns the procedure of one of several processes.
fn process(rank: usize, count: usize, save_id: &str, patience: Duration) -> Procedure {
    let share = Some(Share {
        rank,
        count,
        save_id: save_id.to_string(),
        patience,
        is_hopeless: Arc::default(),
    });
    Procedure { commit: Commit::LastFile, share }
}

/// Returns the procedures of all processes.
fn processes(count: usize, save_id: &str, patience: Duration, commit: Commit) -> Vec<Procedure> {
    let one = |rank| Procedure { commit, ..process(rank, count, save_id, patience) };
    (0..count).map(one).collect()
}

fn place_of(procedure: &Procedure) -> (usize, usize) {
    let share = procedure.share.as_ref().unwrap();
    (share.rank, share.count)
}

/// Runs a check on disk and in a bucket, there with each way to commit.
fn every_way(check: impl Fn(&Path, Commit)) {
    everywhere(|folder| {
        for commit in [Commit::LastFile, Commit::Rename] {
            check(&folder.join(&format!("{commit:?}")), commit);
        }
    });
}

/// Saves with as many threads as processes; `died` stops before its n-th action.
fn save_together(
    model_dir: &Path,
    processes: &[Procedure],
    died: Option<(usize, usize)>,
) -> Vec<Result<(), CheckpointError>> {
    let save = |one: &Procedure| {
        let mut left = died.filter(|(rank, _)| *rank == place_of(one).0).map(|(_, at)| at);
        let mut die = || {
            left = left.map(|left| left.wrapping_sub(1));
            match left {
                Some(usize::MAX) => {
                    let (path, reason) = (model_dir.to_string(), "it died".to_string());
                    Err(CheckpointError::Incomplete { path, reason })
                }
                _ => Ok(()),
            }
        };
        save_part(model_dir, one, &mut die)
    };
    std::thread::scope(|scope| {
        let save = &save;
        let threads: Vec<_> = processes.iter().map(|one| scope.spawn(move || save(one))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Checks that the checkpoint equals one saved by a single process.
fn check_whole(model_dir: &Path, count: usize) {
    assert_eq!(list_steps(model_dir).unwrap(), [STEP]);
    let dir = checkpoint_dir(model_dir, STEP);
    let stored = open(&dir).unwrap();
    stored.verify().unwrap();
    assert_eq!(stored.leaves().len(), state().len());
    for (name, expected, _) in state() {
        assert_eq!(stored.read(name).unwrap(), expected, "{name}");
    }
    // No more files are left than expected, and checksums list all of them.
    let sizes = dir.sizes().unwrap();
    let sums: Value =
        serde_json::from_slice(&dir.join("gimlet/checksums.json").read().unwrap()).unwrap();
    let mut known: Vec<&String> = sums["files"].as_object().unwrap().keys().collect();
    let sums_file = "gimlet/checksums.json".to_string();
    known.push(&sums_file);
    known.sort();
    assert_eq!(sizes.keys().collect::<Vec<_>>(), known);
    assert!(sizes.contains_key(&format!("gimlet/train_ds-{:03}-of-{count:03}.json", count - 1)));
}

#[test]
#[ignore = "a child of other tests"]
fn child_saves_its_part() {
    let task: Value = serde_json::from_str(&child::task()).unwrap();
    let number = |name: &str| task[name].as_u64().unwrap();
    let mut left = number("dies_after");
    let mut die = || {
        if left == 0 {
            // SAFETY: ends this process as `kill -9` does.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
        left = left.wrapping_sub(1);
        Ok(())
    };
    let patience = Duration::from_millis(number("patience"));
    let process = process(number("rank") as usize, number("count") as usize, "a1", patience);
    let commit = if task["renames"] == true { Commit::Rename } else { Commit::LastFile };
    let model_dir = Path::parse(task["dir"].as_str().unwrap()).unwrap();
    save_part(&model_dir, &Procedure { commit, ..process }, &mut die).unwrap();
}

/// Starts one process, which dies after that number of actions.
fn spawn(model_dir: &Path, process: &Procedure, dies_after: u64) -> Child {
    let (rank, count) = place_of(process);
    let patience = process.share.as_ref().unwrap().patience.as_millis() as u64;
    let task = json!({
        "dir": model_dir.as_str(), "rank": rank, "count": count, "dies_after": dies_after,
        "patience": patience, "renames": process.commit == Commit::Rename,
    });
    child::command("checkpoint::ranks::child_saves_its_part", &task.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn several_processes_save_what_one_would() {
    every_way(|model_dir, commit| {
        for count in [2, 4] {
            let folder = model_dir.join(&format!("of_{count}"));
            let start = |process: &Procedure| spawn(&folder, process, u64::MAX);
            // The first process comes last: the others wait for it.
            let all = processes(count, "a1", LONG, commit);
            let children: Vec<Child> = all.iter().rev().map(start).collect();
            for child in children {
                let ended = child.wait_with_output().unwrap();
                assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
            }
            check_whole(&folder, count);
            assert_eq!(names(&folder), ["checkpoint_7"]);
        }
    });
}

#[test]
fn whenever_one_of_the_processes_is_killed_nothing_is_visible() {
    let (_dir, scratch) = scratch();
    let kill = |victim: usize, at: usize| {
        let model_dir = scratch.join(&format!("{victim}_{at}"));
        let is_whole = at == done();
        let other_succeeds = is_whole || victim == 0 && at > 0;
        let start = |rank: usize| match rank == victim {
            true => spawn(&model_dir, &process(rank, 2, "a1", LONG), at as u64),
            false => {
                // The first process gives the victim time to start and be killed.
                let patience = match (other_succeeds, rank) {
                    (true, _) => LONG,
                    (false, 0) => ENOUGH,
                    (false, _) => SHORT,
                };
                spawn(&model_dir, &process(rank, 2, "a1", patience), u64::MAX)
            }
        };
        let children = [0, 1].map(start);
        let ended = children.map(|child| child.wait_with_output().unwrap());
        assert_eq!(ended[victim].status.signal(), Some(libc::SIGKILL), "{victim} at {at}");
        assert_eq!(ended[1 - victim].status.success(), other_succeeds, "{victim} at {at}");
        check_left(&model_dir, Commit::LastFile, is_whole);
    };
    std::thread::scope(|scope| {
        for victim in 0..2 {
            let kill = &kill;
            scope.spawn(move || {
                moments().into_iter().chain([done()]).for_each(|at| kill(victim, at))
            });
        }
    });
}

/// Checks the remains of a failed save, that they can be removed, and that the next save succeeds.
fn check_left(model_dir: &Path, commit: Commit, is_whole: bool) {
    let (newest, skipped) = newest_whole(model_dir).unwrap();
    assert_eq!((newest.is_some(), skipped.len()), (is_whole, 0), "{model_dir}");
    assert_eq!(list_steps(model_dir).unwrap().len(), usize::from(is_whole));
    orphan(model_dir);
    remove_stale(model_dir).unwrap();
    let expected: &[&str] = if is_whole { &["checkpoint_7"] } else { &[] };
    assert!(!model_dir.exists().unwrap() || names(model_dir) == expected, "{model_dir}");
    for saved in save_together(model_dir, &processes(2, "b2", LONG, commit), None) {
        saved.unwrap();
    }
    check_whole(model_dir, 2);
    assert_eq!(names(model_dir), ["checkpoint_7"]);
}

#[test]
fn a_process_that_stops_is_named_and_nothing_is_visible_anywhere() {
    every_way(|model_dir, commit| {
        for at in moments() {
            let all = processes(2, "a1", SHORT, commit);
            let folder = model_dir.join(&at.to_string());
            let mut saved = save_together(&folder, &all, Some((1, at)));
            let message = saved.remove(0).unwrap_err().to_string();
            assert!(message.contains("of 2 processes, not done after 0.05 s: 1"), "{message}");
            check_left(&folder, commit, false);
            let folder = model_dir.join(&format!("first_{at}"));
            let mut saved = save_together(&folder, &all, Some((0, at)));
            if at == 0 {
                let message = saved.remove(1).unwrap_err().to_string();
                assert!(message.contains("process 0 has not begun it within 0.05 s"), "{message}");
            }
            check_left(&folder, commit, false);
        }
    });
}

#[test]
fn what_an_earlier_attempt_has_left_never_counts() {
    every_way(|model_dir, commit| {
        let first = Procedure { commit, ..process(0, 2, "b2", SHORT) };
        let writer = Writer::begin(model_dir, STEP, None, &first).unwrap();
        // A process of that attempt was asleep, and continues.
        let folder = model_dir.list().unwrap().remove(0);
        let done = folder.join("gimlet/done-00001-of-00002.json");
        done.write_atomic(br#"{"save_id": "a1", "arrays": [], "files": {}}"#).unwrap();
        let message = writer.commit().unwrap_err().to_string();
        assert!(message.contains("not done after 0.05 s: 1"), "{message}");
        assert!(list_steps(model_dir).unwrap().is_empty());
        let other = Procedure { commit, ..process(1, 2, "a1", SHORT) };
        let message = Writer::begin(model_dir, STEP, None, &other).unwrap_err().to_string();
        assert!(message.contains("process 0 has not begun it within 0.05 s"), "{message}");
    });
}
