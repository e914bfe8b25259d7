//! A run that is interrupted and started again with the same command is the same run.

use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use crate::arrays;
use crate::command::{Ended, Train};
use crate::events::{Scalars, read_scalars};
use crate::folder::{Folder, steps};

const STEPS: u64 = 24;

#[test]
fn a_run_that_is_asked_to_end_saves_and_goes_on() {
    let folder = Folder::new();
    let whole = Reference::new(&folder);
    let (run, model_dir) = interrupted(&folder);
    let child = run.start();
    wait(|| !steps(&model_dir).is_empty());
    send(&child, libc::SIGTERM);
    let ended = Ended::new(child.wait_with_output().expect("gimlet ends"));
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    let saved = *steps(&model_dir).last().expect("it saved");
    assert!(saved < STEPS, "it ended before it was asked to:\n{}", ended.stderr);
    let said = format!("interrupted: step {saved} is saved; the same command goes on");
    assert!(ended.stderr.contains(&said), "{}", ended.stderr);

    let resumed = run.succeeds();
    assert!(resumed.stderr.contains(&format!("restored step {saved}")), "{}", resumed.stderr);
    whole.assert_same(&model_dir);
}

#[test]
fn a_run_that_is_killed_loses_only_what_came_after_the_last_save() {
    let folder = Folder::new();
    let whole = Reference::new(&folder);
    let (run, model_dir) = interrupted(&folder);
    // While it starts, then some time after the next checkpoint: while it trains, while it saves.
    for (wait_for_save, millis) in [(false, 40), (true, 0), (true, 13), (true, 37), (true, 61)] {
        let before = steps(&model_dir);
        let mut child = run.start();
        wait(|| !wait_for_save || steps(&model_dir) > before || has_ended(&mut child));
        std::thread::sleep(Duration::from_millis(millis));
        send(&child, libc::SIGKILL);
        child.wait().expect("gimlet ends");
        assert!(steps(&model_dir).starts_with(&before), "a finished checkpoint is gone");
    }
    run.succeeds();
    whole.assert_same(&model_dir);
}

/// The run that nobody interrupts.
struct Reference {
    model_dir: PathBuf,
}

impl Reference {
    fn new(folder: &Folder) -> Self {
        let model_dir = folder.path("whole");
        folder.pretrain(STEPS).num_threads(2).bind_text("MODEL_DIR", &model_dir).succeeds();
        Self { model_dir }
    }

    /// Asserts that every metric of every step, and the last checkpoint, are bit for bit the same.
    fn assert_same(&self, model_dir: &std::path::Path) {
        for events in ["train", "training_eval/lines"] {
            let [found, expected] =
                [model_dir, &self.model_dir].map(|dir| untimed(read_scalars(&dir.join(events))));
            assert_eq!(found, expected, "{events}");
        }
        let losses = &read_scalars(&model_dir.join("train"))["loss"];
        assert!(losses.keys().copied().eq(1..=STEPS as i64));
        let [found, expected] = [model_dir, &self.model_dir].map(|dir| arrays::open(dir, STEPS));
        arrays::assert_same(&found, &expected);
    }
}

fn untimed(mut scalars: Scalars) -> Scalars {
    scalars.retain(|tag, _| !tag.starts_with("timing/"));
    scalars
}

fn interrupted(folder: &Folder) -> (Train, PathBuf) {
    let model_dir = folder.path("interrupted");
    let run = folder.pretrain(STEPS).num_threads(2).bind_text("MODEL_DIR", &model_dir);
    (run, model_dir)
}

fn send(child: &Child, signal: i32) {
    // SAFETY: the process is our child and not yet waited for, so its id is still its own.
    unsafe { libc::kill(child.id() as i32, signal) };
}

fn has_ended(child: &mut Child) -> bool {
    child.try_wait().expect("the child is ours").is_some()
}

fn wait(mut until: impl FnMut() -> bool) {
    let started = Instant::now();
    while !until() {
        assert!(started.elapsed() < Duration::from_secs(120), "waited in vain");
        std::thread::sleep(Duration::from_millis(2));
    }
}
