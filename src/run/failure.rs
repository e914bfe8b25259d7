//! The failures of a command, with its status: 2 for the user's mistakes, 1 for faults of the
//! system, 128 and more for signals.

use std::env;
use std::fmt;
use std::fs;
use std::process::ExitCode;

use crate::checkpoint::CheckpointError;
use crate::gin::Diagnostics;
use crate::launch::{ERROR_FILE, WorkerFailure};
use crate::session::error::SessionError;

use super::output::write_error;

/// The reason why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The configuration cannot be used.
    Configuration(Box<Diagnostics>),
    /// A request that cannot be fulfilled: a wrong flag, a missing file, an unfit value.
    Usage(anyhow::Error),
    /// A fault outside of the command: disk, memory, a broken file.
    World(anyhow::Error),
    /// The failure has been described elsewhere; no message is left to print.
    Said,
    /// A signal asked the command to end, and it ended in order.
    Interrupted(i32),
    /// The process that did the work ended with this status, and has said why.
    Status(u8),
    /// One of the processes that this one started failed.
    Worker(WorkerFailure),
}

impl Failure {
    /// Creates a failure for a mistake of the user's, without a place in a gin file.
    pub fn usage(error: impl Into<anyhow::Error>) -> Self {
        Failure::Usage(error.into())
    }

    /// Creates a failure for a fault outside of the command.
    pub fn world(error: impl Into<anyhow::Error>) -> Self {
        Failure::World(error.into())
    }

    /// Prints the failure on standard error; a process of many gives it to its launcher, which prints the
    /// first one.
    pub fn report(&self, color: bool) -> ExitCode {
        let file = env::var_os(ERROR_FILE);
        let is_told = file.is_some_and(|file| fs::write(file, self.text(false)).is_ok());
        if !is_told {
            write_error(&self.text(color));
        }
        match self {
            Failure::Configuration(_) | Failure::Usage(_) => ExitCode::from(2),
            Failure::World(_) | Failure::Said => ExitCode::from(1),
            // Shells use this status for programs that a signal ended.
            Failure::Interrupted(signal) => ExitCode::from(128 + *signal as u8),
            Failure::Status(status) => ExitCode::from(*status),
            Failure::Worker(failure) => ExitCode::from(failure.status),
        }
    }

    /// Returns the lines to print.
    fn text(&self, color: bool) -> String {
        match self {
            Failure::Configuration(diagnostics) => diagnostics.render(color),
            Failure::Usage(error) | Failure::World(error) => {
                let mut said = error.to_string();
                let mut text = format!("error: {said}\n");
                // Many errors quote their cause; it is not printed twice.
                for cause in error.chain().skip(1).map(ToString::to_string) {
                    if !said.contains(&cause) {
                        text.push_str(&format!("  because: {cause}\n"));
                        said = cause;
                    }
                }
                text
            }
            Failure::Worker(failure) => format!("error: {failure}\n"),
            Failure::Said | Failure::Status(_) | Failure::Interrupted(_) => String::new(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Configuration(diagnostics) => f.write_str(&diagnostics.render(false)),
            Failure::Usage(error) | Failure::World(error) => write!(f, "{error:#}"),
            Failure::Said => Ok(()),
            Failure::Status(status) => write!(f, "ended with status {status}"),
            Failure::Interrupted(signal) => write!(f, "interrupted by signal {signal}"),
            Failure::Worker(failure) => write!(f, "{failure}"),
        }
    }
}

impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Self {
        if error.is_users() { Failure::usage(error) } else { Failure::world(error) }
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        if error.is_users() { Failure::usage(error) } else { Failure::world(error) }
    }
}

impl From<Diagnostics> for Failure {
    fn from(diagnostics: Diagnostics) -> Self {
        Failure::Configuration(Box::new(diagnostics))
    }
}
