//! Parses the typed words into a [`CommandLine`].

use std::io::{self, Write};
use std::process;

use anyhow::anyhow;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};

use crate::telemetry::{colors, set_verbosity};

use super::super::failure::Failure;
use super::super::gin_flags::bindings;
use super::super::version;
use super::CommandLine;
use super::misplaced::mistake;
use super::words::words;

/// The reason why words are no command line.
#[derive(Debug)]
pub enum Unparsed {
    /// They cannot be a command line of Gimlet.
    Mistake(anyhow::Error),
    /// The error or output of clap, which may be requested help.
    Clap(Box<clap::Error>),
}

/// Reads the command line, and sets the verbosity that it asks for. Help and the version are
/// printed, and end the process; so does a wrong flag, with status 2.
///
/// # Errors
/// Words that cannot be a command line of Gimlet.
pub fn parse(args: Vec<String>) -> Result<CommandLine, Failure> {
    match try_parse(args) {
        Ok(cli) => {
            set_verbosity(cli.output.verbosity());
            Ok(cli)
        }
        Err(Unparsed::Mistake(mistake)) => Err(Failure::Usage(mistake)),
        Err(Unparsed::Clap(error)) => end_with(with_tip(*error)),
    }
}

/// Reads a command line, without side effects.
///
/// # Errors
/// The message to print instead.
pub fn try_parse(args: Vec<String>) -> Result<CommandLine, Unparsed> {
    let mut command = CommandLine::command();
    let words = words(args, &command).map_err(Unparsed::Mistake)?;
    if let Some(mistake) = mistake(&words, &command) {
        return Err(Unparsed::Mistake(anyhow!(mistake)));
    }
    let words = bindings(words).map_err(Unparsed::Mistake)?;
    let matches = command.try_get_matches_from_mut(words);
    let cli = matches.and_then(|matches| CommandLine::from_arg_matches(&matches));
    cli.map_err(|error| Unparsed::Clap(Box::new(error)))
}

/// Prints the output of clap, which may be requested help, and ends the process.
fn end_with(error: clap::Error) -> ! {
    // A closed stream needs no further message.
    if error.kind() == ErrorKind::DisplayVersion {
        let _ = write!(io::stdout(), "{}", version::text());
    } else if error.use_stderr() {
        let _ = write!(io::stderr(), "{}", rendered(&error, colors(&io::stderr())));
    } else {
        let _ = write!(io::stdout(), "{}", rendered(&error, colors(&io::stdout())));
    }
    process::exit(error.exit_code())
}

fn rendered(error: &clap::Error, color: bool) -> String {
    match color {
        true => error.render().ansi().to_string(),
        false => error.render().to_string(),
    }
}

/// Adds a hint about the probable place of a word that is no flag.
fn with_tip(mut error: clap::Error) -> clap::Error {
    let has_tip = error.get(ContextKind::SuggestedArg).is_some();
    let word = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) if !has_tip => word.clone(),
        _ => return error,
    };
    if error.kind() == ErrorKind::UnknownArgument {
        let tip = match word.starts_with('-') || word.contains('=') {
            true => format!("values are bound with `--gin.{}=VALUE`", bindable(name_in(&word))),
            false => format!("a gin file is given with `--gin_file={word}`"),
        };
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// The name of a macro or parameter as a binding has it: a parameter follows its configurable.
fn bindable(name: &str) -> String {
    match name.contains('.') || name.contains(char::is_uppercase) {
        true => name.to_string(),
        false => format!("CONFIGURABLE.{name}"),
    }
}

/// The name in `--NAME`, `NAME=VALUE`, `gin.NAME=VALUE`.
fn name_in(word: &str) -> &str {
    let name = word.trim_start_matches('-').split('=').next().expect("split yields one part");
    name.strip_prefix("gin.").unwrap_or(name)
}
