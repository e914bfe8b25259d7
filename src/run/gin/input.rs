//! The files that a tool was given, read in order; `-` is standard input.

use std::io;

use anyhow::anyhow;

use crate::gin::Source;
use crate::run::failure::Failure;
use crate::run::library::{read_anywhere, read_text};

/// The name of standard input in messages.
const STDIN: &str = "<stdin>";

/// Returns the name of the file in messages.
pub fn name(path: &str) -> &str {
    if path == "-" { STDIN } else { path }
}

/// The text of a file.
///
/// # Errors
/// A file that cannot be read as text.
pub fn read(path: &str) -> Result<String, Failure> {
    let text = if path == "-" { read_text(io::stdin().lock()) } else { read_anywhere(path) };
    text.map_err(|error| Failure::usage(anyhow!("cannot read {}: {error}", name(path))))
}

/// Texts that were read already, by the name of their file.
pub struct Given<'a>(pub Vec<(&'a str, &'a String)>);

impl Source for Given<'_> {
    fn read(&self, path: &str) -> io::Result<Option<String>> {
        let found = self.0.iter().find(|(name, _)| *name == path);
        Ok(found.map(|(_, text)| text.to_string()))
    }

    fn similar(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}
