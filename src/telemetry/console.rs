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
    verbosity: Verbosity,
}

/// How much the user wants to be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Warnings and errors only: no notices, no progress.
    Quiet,
    /// What a run is worth telling.
    #[default]
    Normal,
    /// Also which files are read and which programs are started.
    Verbose,
}

static CONSOLE: Mutex<Console> =
    Mutex::new(Console { bar: None, said: BTreeSet::new(), verbosity: Verbosity::Normal });

fn console() -> MutexGuard<'static, Console> {
    // A thread that panicked while printing left nothing half done that matters here.
    CONSOLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets how much this process tells from now on.
pub fn set_verbosity(verbosity: Verbosity) {
    console().verbosity = verbosity;
}

/// Tells a detail, which only those see who asked for more.
pub fn detail(text: &str) {
    say(Verbosity::Verbose, text);
}

/// As [`detail`], the first time this text is given.
pub fn detail_once(text: &str) {
    say_once(Verbosity::Verbose, text);
}

/// Tells the user something worth knowing: one line, lower case, no full stop.
pub fn notice(text: &str) {
    say(Verbosity::Normal, text);
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
    say(Verbosity::Quiet, &format!("warning: {text}"));
}

/// As [`notice`], the first time this text is given.
pub fn notice_once(text: &str) {
    say_once(Verbosity::Normal, text);
}

/// As [`warn`], the first time this text is given.
pub fn warn_once(text: &str) {
    say_once(Verbosity::Quiet, &format!("warning: {text}"));
}

/// Shows `bar` below all lines until it is replaced.
pub(super) fn attach(bar: Option<ProgressBar>) {
    console().bar = bar;
}

/// Whether the user wants to see progress.
pub(super) fn shows_progress() -> bool {
    console().verbosity > Verbosity::Quiet
}

/// Says a line to those who want to be told at least `least`.
fn say(least: Verbosity, text: &str) {
    print(&console(), least, text);
}

fn say_once(least: Verbosity, text: &str) {
    let mut console = console();
    if console.verbosity >= least && console.said.insert(text.to_string()) {
        print(&console, least, text);
    }
}

fn print(console: &Console, least: Verbosity, text: &str) {
    if console.verbosity < least {
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
