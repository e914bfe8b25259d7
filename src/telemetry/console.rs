//! Lines for the user on standard error, printed above the progress line if there is one.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::ProgressBar;

struct Console {
    /// The live line, if one is shown.
    bar: Option<ProgressBar>,
    /// What has been said by the `_once` functions.
    said: BTreeSet<String>,
    muted: bool,
}

static CONSOLE: Mutex<Console> =
    Mutex::new(Console { bar: None, said: BTreeSet::new(), muted: false });

fn console() -> MutexGuard<'static, Console> {
    // A thread that panicked while printing left nothing half done that matters here.
    CONSOLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the user something worth knowing: one line, lower case, no full stop.
pub fn notice(text: &str) {
    print(&mut console(), text);
}

/// Names as a line may hold them: the first `most`, quoted, and how many more there are.
pub fn quoted_names<Name: Display>(names: &[Name], most: usize) -> String {
    let first = names.iter().take(most).map(|name| format!("`{name}`"));
    let first = first.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Tells the user of something that is probably not what was meant.
pub fn warn(text: &str) {
    notice(&format!("warning: {text}"));
}

/// As [`notice`], the first time this text is given.
pub fn notice_once(text: &str) {
    let mut console = console();
    if console.said.insert(text.to_string()) {
        print(&mut console, text);
    }
}

/// As [`warn`], the first time this text is given.
pub fn warn_once(text: &str) {
    notice_once(&format!("warning: {text}"));
}

/// Silences this process; of many that do the same work only the first should speak.
pub fn mute() {
    console().muted = true;
}

/// Shows `bar` below all lines until it is replaced.
pub(super) fn attach(bar: Option<ProgressBar>) {
    console().bar = bar;
}

/// Whether this process is silenced.
pub(super) fn muted() -> bool {
    console().muted
}

fn print(console: &mut Console, text: &str) {
    if console.muted {
        return;
    }
    // A closed standard error must not end the run, as `eprintln!` would.
    let write = || {
        let _ = writeln!(std::io::stderr(), "{text}");
    };
    match &console.bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}
