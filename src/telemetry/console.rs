//! Lines for the user on standard error, printed above the progress line if there is one.

use std::collections::BTreeSet;
use std::env;
use std::fmt::Display;
use std::io::Write;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use indicatif::ProgressBar;

struct Console {
    /// The live line, if one is shown.
    bar: Option<ProgressBar>,
    /// Texts printed by the `_once` functions.
    said: BTreeSet<String>,
    verbosity: Verbosity,
}

/// Amount of output that the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Warnings and errors only: no notices, no progress.
    Quiet,
    /// Also notices and progress of a run.
    #[default]
    Normal,
    /// Also the files that are read and the programs that are started.
    Verbose,
}

/// The variable with the texts that the program which started this one has printed by the `_once` functions.
const SAID: &str = "GIMLET_SAID";

/// The character between these texts, ASCII's record separator.
const SEPARATOR: char = '\u{1e}';

static CONSOLE: LazyLock<Mutex<Console>> = LazyLock::new(|| {
    let said = env::var(SAID).unwrap_or_default();
    let said = said.split(SEPARATOR).map(str::to_string).collect();
    Mutex::new(Console { bar: None, said, verbosity: Verbosity::Normal })
});

fn console() -> MutexGuard<'static, Console> {
    // A thread that panicked while printing left no relevant state incomplete.
    CONSOLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the variable, and its value, with which a program that continues the work of this one does not repeat texts of the
/// `_once` functions.
pub fn said_variable() -> (&'static str, String) {
    let said: Vec<String> = console().said.iter().cloned().collect();
    (SAID, said.join(&SEPARATOR.to_string()))
}

/// Sets the amount of output of this process from now on.
pub fn set_verbosity(verbosity: Verbosity) {
    console().verbosity = verbosity;
}

/// Prints a detail, which users see only if they asked for more output.
pub fn detail(text: &str) {
    say(Verbosity::Verbose, text);
}

/// Does the same as [`detail`], but only the first time for each text.
pub fn detail_once(text: &str) {
    say_once(Verbosity::Verbose, text);
}

/// Prints useful information: one line, lower case, no full stop.
pub fn notice(text: &str) {
    say(Verbosity::Normal, text);
}

/// Formats names for a line: the first `most`, quoted, and the number of further ones.
pub fn quoted_names<Name: Display>(names: &[Name], most: usize) -> String {
    let first = names.iter().take(most).map(|name| format!("`{name}`"));
    let first = first.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Formats a number of things: `1 array`, `2 arrays`.
pub fn counted(count: usize, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        _ => format!("{count} {thing}s"),
    }
}

/// Warns the user of something that is probably unintended.
pub fn warn(text: &str) {
    say(Verbosity::Quiet, &format!("warning: {text}"));
}

/// Does the same as [`notice`], but only the first time for each text.
pub fn notice_once(text: &str) {
    say_once(Verbosity::Normal, text);
}

/// Does the same as [`warn`], but only the first time for each text.
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

/// Prints a line if the verbosity is at least `least`.
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
