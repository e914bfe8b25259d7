//! Runs that `gimlet launch` starts end and go on as runs without it do.

use std::fs;
use std::path::PathBuf;
use std::process::Child;

use crate::command::{Ended, Train};
use crate::folder::{Folder, steps};
use crate::resume::{has_ended, send, wait};

/// The steps of a run, of which those after the first checkpoint take seconds.
const STEPS: u64 = 24;

fn launched(folder: &Folder, steps: u64) -> (Train, PathBuf) {
    let model_dir = folder.path("launched");
    let run = folder.pretrain(steps).bind_text("MODEL_DIR", &model_dir);
    (run.tool(&["launch", "--nproc_per_node=2", "--max_restarts=1", "train"]), model_dir)
}

/// Kills the processes that a process has started.
fn kill_children(parent: &Child) {
    let id = parent.id();
    let list = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("it runs");
    for child in list.split_whitespace() {
        let child = child.parse().expect("the system lists numbers");
        // SAFETY: a plain system call. The process still trains, so its id is its own.
        unsafe { libc::kill(child, libc::SIGKILL) };
    }
}

#[test]
fn a_launched_run_that_is_asked_to_end_saves_and_ends_as_one_without_a_launcher() {
    let folder = Folder::new();
    let (run, model_dir) = launched(&folder, 1_000_000);
    let child = run.start();
    wait(|| !steps(&model_dir).is_empty());
    send(&child, libc::SIGTERM);
    let ended = Ended::new(child.wait_with_output().expect("gimlet ends"));
    assert_eq!(ended.status, Some(128 + libc::SIGTERM), "{}", ended.stderr);
    let saved = *steps(&model_dir).last().expect("it saved");
    assert!(ended.stderr.contains(&format!("step {saved} is saved")), "{}", ended.stderr);
    assert!(!ended.stderr.contains("starting all again"), "{}", ended.stderr);
}

#[test]
fn a_launched_run_goes_on_after_its_process_was_killed() {
    let folder = Folder::new();
    let (run, model_dir) = launched(&folder, STEPS);
    let mut child = run.start();
    wait(|| !steps(&model_dir).is_empty() || has_ended(&mut child));
    kill_children(&child);
    let ended = Ended::new(child.wait_with_output().expect("gimlet ends"));
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("ended by signal 9"), "{}", ended.stderr);
    assert!(ended.stderr.contains("starting all again, 1 of 1"), "{}", ended.stderr);
    assert!(ended.stderr.contains("restored step"), "{}", ended.stderr);
    assert_eq!(steps(&model_dir).last(), Some(&STEPS));
}

#[test]
fn the_failure_of_a_process_is_printed_once_with_its_rank() {
    let folder = Folder::new();
    let (run, model_dir) = launched(&folder, 24);
    fs::write(&model_dir, "a file in the place of the folder").expect("it is writable");
    let ended = run.run();
    assert!(ended.stderr.contains("error: rank 0 on "), "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("error:").count(), 1, "{}", ended.stderr);
}
