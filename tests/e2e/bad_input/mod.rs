//! Mistakes of users and faults of the system: each ends with an error that names the
//! place and the remedy, with status 2 for mistakes and 1 for faults, and nothing is lost.

mod checkpoints;
mod configuration;
mod data;
mod running;
mod world;

use crate::command::{Ended, Train};

/// Exit status of the user's mistakes.
const USER: i32 = 2;
/// Exit status of faults of the system.
const WORLD: i32 = 1;

/// Asserts that the command fails with `status`, and that standard error holds every one of `words`.
fn check(train: &Train, status: i32, words: &[&str]) {
    assert_fails(&train.run(), status, words);
}

fn assert_fails(ended: &Ended, status: i32, words: &[&str]) {
    let Ended { status: found, stderr, .. } = ended;
    assert_eq!(*found, Some(status), "{stderr}");
    // Lines wrap at the width of the terminal, or not.
    let text = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in words {
        assert!(text.contains(word), "`{word}` is not in:\n{stderr}");
    }
    for slip in ["panicked at", "stack backtrace", "RUST_BACKTRACE"] {
        assert!(!text.contains(slip), "{stderr}");
    }
}
