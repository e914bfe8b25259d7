//! Commands of other projects' programs, which become commands of Gimlet's own.

use std::collections::BTreeSet;

use crate::dialects::Statement;

use super::commands::ModelCommand;
use super::failure::Failure;
use super::record::Record;

/// Such a command, once it was read and translated.
pub struct Translated {
    /// The command that runs it.
    pub command: ModelCommand,
    /// The files that the run writes beside those of the command.
    pub record: Record,
    /// The statements that the command reads after files of the library.
    pub statements: Vec<Statement>,
    /// Warnings, rendered.
    pub warnings: String,
    /// Unknown names of configurables that the other program skips too.
    pub skipped: BTreeSet<String>,
}

/// The flags of such a command.
pub trait ForeignCommand {
    /// Reads and translates the run, for so many processes.
    ///
    /// # Errors
    /// Every mistake in flags and gin files, and every part of the run that has no counterpart here.
    fn translated(&self, num_processes: usize, color: bool) -> Result<Translated, Failure>;

    /// Says what has no effect and what may not be intended.
    ///
    /// # Errors
    /// Standard output is closed.
    fn announce(&self, translated: &Translated) -> Result<(), Failure>;
}
