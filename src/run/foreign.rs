//! Commands of other projects' programs, which become commands of Gimlet's own.

use crate::dialects::Statement;
use crate::telemetry;

use super::commands::ModelCommand;
use super::failure::Failure;
use super::output::{write, write_error};
use super::record::Record;

/// Such a command, once it was read and translated.
pub struct Translated {
    /// The command that runs it.
    pub command: ModelCommand,
    /// The files that the run writes beside those of the command.
    pub record: Record,
    /// The statements that the command reads after files of the library.
    pub statements: Vec<Statement>,
    /// Sentences about parts without effect.
    pub notices: Vec<String>,
    /// Warnings, rendered.
    pub warnings: String,
    /// The lines that a dry run prints before those of the command itself.
    pub description: String,
}

/// The flags of such a command.
pub trait ForeignCommand {
    /// Reads and translates the run, for so many processes.
    ///
    /// # Errors
    /// Every mistake in flags and files, and every part of the run that has no counterpart here.
    fn translated(&self, num_processes: usize, color: bool) -> Result<Translated, Failure>;

    /// Whether a run that no launcher has started uses every visible GPU.
    fn uses_every_gpu(&self) -> bool {
        true
    }

    /// Whether the run is only printed as gin.
    fn prints_gin(&self) -> bool;
}

impl Translated {
    /// Says what has no effect and what may not be intended.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn announce(&self) -> Result<(), Failure> {
        self.notices.iter().for_each(|text| telemetry::notice(text));
        write_error(&self.warnings);
        write(&self.description)
    }
}
