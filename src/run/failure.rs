//! The failures of a command, with its status: 2 for the user's mistakes, 1 for faults of the
//! system, 128 and more for signals.

use std::fmt;
use std::process::ExitCode;

use crate::checkpoint::CheckpointError;
use crate::gin::Diagnostics;
use crate::session::error::SessionError;

/// The reason why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The configuration cannot be used.
    Configuration(Box<Diagnostics>),
    /// A request that cannot be fulfilled: a wrong flag, a missing file, an unfit value.
    Usage(anyhow::Error),
    /// A fault outside of the command: disk, memory, a broken file.
    World(anyhow::Error),
    /// The command's standard output describes the failure; no message is left to print.
    Said,
    /// A signal asked the command to end, and it ended in order.
    Interrupted(i32),
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

    /// Prints the failure on standard error.
    pub fn report(&self, color: bool) -> ExitCode {
        match self {
            Failure::Configuration(diagnostics) => eprint!("{}", diagnostics.render(color)),
            Failure::Usage(error) | Failure::World(error) => {
                let mut said = error.to_string();
                eprintln!("error: {said}");
                // Many errors quote their cause; it is not printed twice.
                for cause in error.chain().skip(1).map(ToString::to_string) {
                    if !said.contains(&cause) {
                        eprintln!("  because: {cause}");
                        said = cause;
                    }
                }
            }
            Failure::Said | Failure::Interrupted(_) => {}
        }
        match self {
            Failure::Configuration(_) | Failure::Usage(_) => ExitCode::from(2),
            Failure::World(_) | Failure::Said => ExitCode::from(1),
            // Shells use this status for programs that a signal ended.
            Failure::Interrupted(signal) => ExitCode::from(128 + *signal as u8),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Configuration(diagnostics) => f.write_str(&diagnostics.render(false)),
            Failure::Usage(error) | Failure::World(error) => write!(f, "{error:#}"),
            Failure::Said => Ok(()),
            Failure::Interrupted(signal) => write!(f, "interrupted by signal {signal}"),
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
