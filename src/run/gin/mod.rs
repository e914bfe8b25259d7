//! `gimlet gin`: what is done with gin files beside running them, one tool a file.
//!
//! A tool writes its result to standard output and what is wrong to standard error. It ends with
//! status 1 where it found what it was asked to look for, such as a mistake in a file.

mod input;
mod lsp;
mod parse;

use std::io::{self, ErrorKind, Write};

use clap::Subcommand;

use super::failure::Failure;

/// A tool for gin files.
#[derive(Debug, Subcommand)]
pub enum GinCommand {
    /// Serve an editor: mistakes, completion, documentation, definitions and renaming as one types.
    Lsp(lsp::LspArgs),
    /// Print what gin files say, one JSON object per statement and line.
    Parse(parse::ParseArgs),
}

impl GinCommand {
    /// Runs the tool.
    ///
    /// # Errors
    /// As the tool says; [`Failure::Said`] where its output says it all.
    pub fn run(&self, color: bool) -> Result<(), Failure> {
        match self {
            GinCommand::Lsp(args) => lsp::run(args),
            GinCommand::Parse(args) => parse::run(args, color),
        }
    }
}

/// Writes to standard output. A reader that has seen enough, such as `head`, is no error.
fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::world(error)),
        _ => Ok(()),
    }
}
