//! The texts of the commands that answer lines, and the failures of answering them.

use std::io::{self, BufRead, BufReader};

use crate::interactive::{BadLine, Engine, Format, LinesError, Progress, Text, lines_of};
use crate::run::failure::Failure;
use crate::run::interrupt::Interrupt;
use crate::session::context::Context;
use crate::storage::Path;

use super::answering::LinesArgs;

/// Texts in order.
pub type Texts = Box<dyn Iterator<Item = Result<Text, BadLine>> + Send>;

impl LinesArgs {
    /// Returns the texts of arguments, or of the file or of standard input.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn texts(&self, arguments: &[String], has_targets: bool) -> Result<Texts, Failure> {
        if !arguments.is_empty() {
            let texts: Vec<_> = arguments
                .iter()
                .map(|text| Ok(Text { inputs: text.clone(), targets: None }))
                .collect();
            return Ok(Box::new(texts.into_iter()));
        }
        let reader: Box<dyn BufRead + Send> = match self.file.as_deref() {
            None | Some("-") => Box::new(BufReader::new(io::stdin())),
            Some(file) => {
                let opened =
                    Path::parse(file).and_then(|path| path.open()).map_err(Failure::usage)?;
                Box::new(BufReader::new(opened))
            }
        };
        Ok(Box::new(lines_of(reader, self.source().to_string(), has_targets)))
    }

    /// Returns the place of the text with this number, from 1, for messages.
    pub fn place(&self, arguments: &[String], number: u64) -> String {
        match arguments.is_empty() {
            true => format!("{}:{number}", self.source()),
            false => format!("text {number}"),
        }
    }

    /// Returns the name of the file of lines.
    fn source(&self) -> &str {
        match self.file.as_deref() {
            None | Some("-") => "standard input",
            Some(file) => file,
        }
    }

    /// Returns the work on the texts, whose answers are JSON if it is asked for, and otherwise `plain`.
    pub fn progress<'a>(
        &self,
        engine: &'a Engine<'a>,
        plain: Format,
        context: &'a Context<'_>,
    ) -> Progress<'a> {
        let format = if self.json { Format::Json } else { plain };
        Progress { engine, batch_size: engine.spec().batch_size, format, stop: context.stop }
    }
}

/// Converts the reason for which lines were not all answered.
pub fn failure(error: LinesError, interrupt: &Interrupt) -> Failure {
    match error {
        LinesError::Asked => Failure::Interrupted(interrupt.signal().unwrap_or(libc::SIGTERM)),
        LinesError::Line(error) => Failure::usage(error),
        LinesError::Session(error) => error.into(),
        LinesError::Write(_) => Failure::world(error),
    }
}
