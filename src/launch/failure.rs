//! The end of a process that failed, in words.

use std::fmt;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::SystemTime;

use super::workers::Worker;

/// The number of lines that are shown of the output of a process that left no message.
const NUM_LINES: usize = 20;

/// A process that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerFailure {
    /// The process.
    pub rank: usize,
    /// The machine on which it ran.
    pub host: String,
    /// Its exit status; 128 plus the number of the signal that ended it.
    pub status: u8,
    /// Its message.
    pub message: String,
}

impl fmt::Display for WorkerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} on {}: {}", self.rank, self.host, self.message)
    }
}

impl WorkerFailure {
    /// Describes the failure of a process that ended with this status.
    pub(super) fn of(worker: &Worker, status: ExitStatus) -> Self {
        Self {
            rank: worker.rank,
            host: host(),
            status: status_of(status),
            message: message(worker, status),
        }
    }

    /// Whether another start may succeed. Mistakes of the user's, with status 2, remain.
    pub(super) fn may_pass(&self) -> bool {
        self.status != 2
    }
}

/// Returns the status that shells report.
pub fn status_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// A sort key for processes that ended. The cause comes first: the other processes failed because that one was gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EndOrder {
    /// Whether it ended by itself, not by a signal.
    by_itself: bool,
    /// The time of its message.
    written: Option<SystemTime>,
    rank: usize,
}

impl EndOrder {
    /// Whether the process ended by itself with a message that is older than the other's.
    pub fn left_message_before(&self, other: &Self) -> bool {
        self.by_itself && self.written.is_some() && self < other
    }
}

/// Returns the key of a process.
pub(super) fn order(worker: &Worker, status: ExitStatus) -> EndOrder {
    let written = fs::metadata(&worker.error_file).and_then(|file| file.modified()).ok();
    EndOrder { by_itself: status.signal().is_none(), written, rank: worker.rank }
}

fn message(worker: &Worker, status: ExitStatus) -> String {
    let text = fs::read_to_string(&worker.error_file).unwrap_or_default();
    let text = text.trim();
    if !text.is_empty() {
        return text.strip_prefix("error: ").unwrap_or(text).to_string();
    }
    let end = match status.signal() {
        Some(libc::SIGKILL) => {
            "ended by signal 9 (SIGKILL), as the system does when it is out of memory".to_string()
        }
        Some(signal) => format!("ended by signal {signal}"),
        None => format!("ended with status {}", status_of(status)),
    };
    let output = fs::read(&worker.output_file).unwrap_or_default();
    match last_lines(&String::from_utf8_lossy(&output)) {
        lines if lines.is_empty() => end,
        lines => format!("{end}; its last output was\n{lines}"),
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(NUM_LINES)..].join("\n")
}

/// Returns the name of this machine.
fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "this machine".to_string() } else { name.trim().to_string() }
}
