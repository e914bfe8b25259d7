//! The texts of a command, and the failures of answering them.

use std::io::{self, BufRead, BufReader};

use crate::interactive::{BadLine, LinesError, Text, lines_of};
use crate::run::failure::Failure;
use crate::run::interrupt::Interrupt;
use crate::storage::Path;

/// Texts in order.
pub type Texts = Box<dyn Iterator<Item = Result<Text, BadLine>> + Send>;

/// Returns the texts of arguments, or of a file or of standard input.
///
/// # Errors
/// The file cannot be opened.
pub fn texts(
    arguments: &[String],
    file: Option<&str>,
    has_targets: bool,
) -> Result<Texts, Failure> {
    if !arguments.is_empty() {
        let texts: Vec<_> =
            arguments.iter().map(|text| Ok(Text { inputs: text.clone(), targets: None })).collect();
        return Ok(Box::new(texts.into_iter()));
    }
    let (name, reader): (_, Box<dyn BufRead + Send>) = match file {
        None | Some("-") => ("standard input", Box::new(BufReader::new(io::stdin()))),
        Some(file) => {
            let opened = Path::parse(file).and_then(|path| path.open()).map_err(Failure::usage)?;
            (file, Box::new(BufReader::new(opened)))
        }
    };
    Ok(Box::new(lines_of(reader, name.to_string(), has_targets)))
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
