//! Parses the typed words into a [`CommandLine`].

use std::error::Error;
use std::io::{self, Write};
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};
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

/// The flag for the model of commands that need no gin file.
const CHECKPOINT: &str = "checkpoint";

/// Other programs' names of it.
const MODELS: [&str; 6] =
    ["checkpoint_path", "ckpt", "model", "model_dir", "model_name_or_path", "model_path"];

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
    match try_parse(args.clone()) {
        Ok(cli) => {
            set_verbosity(cli.output.verbosity());
            Ok(cli)
        }
        Err(Unparsed::Mistake(mistake)) => Err(Failure::Usage(mistake)),
        Err(Unparsed::Clap(error)) => end_with(with_tip(*error, &args)),
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

/// Adds a hint about the probable place of a word that is no flag, about a flag's value that is no number, or about a
/// command that belongs to another one.
fn with_tip(mut error: clap::Error, words: &[String]) -> clap::Error {
    let tip = match (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidSubcommand))
    {
        (Some(ContextValue::String(argument)), _) => tip(&error, argument, words),
        (None, Some(ContextValue::String(command))) => nested(command),
        _ => None,
    };
    if let Some(tip) = tip {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// The hint for an error about this argument, which clap shows as `--beam <N>` or as it was typed.
fn tip(error: &clap::Error, argument: &str, words: &[String]) -> Option<String> {
    let takes_checkpoint = || takes(CHECKPOINT, words);
    match error.kind() {
        ErrorKind::UnknownArgument if MODELS.contains(&name_in(argument)) && takes_checkpoint() => {
            Some(format!("a model is given with `--{CHECKPOINT}=PATH`"))
        }
        ErrorKind::UnknownArgument if name_in(argument) == "module_import" => {
            Some("a run imports its tasks: `--gin_bindings='import MODULE'`".to_string())
        }
        ErrorKind::UnknownArgument if error.get(ContextKind::SuggestedArg).is_some() => None,
        ErrorKind::UnknownArgument if is_launch(words) => {
            let whole = "gimlet launch [OPTIONS] train --gin_file=FILE";
            Some(format!("flags of the command follow it: `{whole}`"))
        }
        ErrorKind::UnknownArgument if argument.starts_with('-') || argument.contains('=') => {
            Some(format!("values are bound with `--gin.{}=VALUE`", bindable(name_in(argument))))
        }
        ErrorKind::UnknownArgument if !argument.ends_with(".gin") && takes_checkpoint() => {
            Some(format!("a model is given with `--{CHECKPOINT}={argument}`"))
        }
        ErrorKind::UnknownArgument => {
            Some(format!("a gin file is given with `--gin_file={argument}`"))
        }
        ErrorKind::ValueValidation if argument.starts_with('-') => {
            let (kind, example) = number(error.source()?)?;
            let flag = argument.split(' ').next()?; // before `<N>`
            Some(format!("`{flag}` takes {kind}, as in `{flag}={example}`"))
        }
        _ => None,
    }
}

/// The command that the words name.
fn named(words: &[String]) -> Option<clap::Command> {
    let command = CommandLine::command();
    words.iter().skip(1).find_map(|word| command.find_subcommand(word)).cloned()
}

/// Whether the command of these words has a flag of that name.
fn takes(flag: &str, words: &[String]) -> bool {
    named(words).is_some_and(|named| named.get_arguments().any(|arg| arg.get_long() == Some(flag)))
}

/// Whether the words are those of `gimlet launch`.
fn is_launch(words: &[String]) -> bool {
    named(words).is_some_and(|named| named.get_name() == "launch")
}

/// The hint for an unknown command that is one of another command: `convert` for `checkpoint convert`.
fn nested(name: &str) -> Option<String> {
    let command = CommandLine::command();
    let outer = command.get_subcommands().filter(|outer| outer.find_subcommand(name).is_some());
    let whole: Vec<String> =
        outer.map(|outer| format!("`gimlet {} {name}`", outer.get_name())).collect();
    (!whole.is_empty()).then(|| format!("the command is {}", whole.join(" or ")))
}

/// The kind of number that could not be read, with an example.
fn number(source: &(dyn Error + 'static)) -> Option<(&'static str, &'static str)> {
    if source.is::<ParseFloatError>() {
        return Some(("a number", "0.5"));
    }
    match source.downcast_ref::<ParseIntError>()?.kind() {
        IntErrorKind::InvalidDigit | IntErrorKind::Empty => Some(("a whole number", "4")),
        _ => None, // a whole number out of range, as the error itself says
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(words: &[&str]) -> String {
        let words: Vec<String> = ["gimlet"].iter().chain(words).map(ToString::to_string).collect();
        match try_parse(words.clone()) {
            Err(Unparsed::Clap(error)) => rendered(&with_tip(*error, &words), false),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_word_at_another_place_is_told_its_own() {
        let check = |words: &[&str], tip: &str| {
            let printed = printed(words);
            assert!(printed.contains(&format!("tip: {tip}\n")), "{printed}");
        };
        check(&["convert", "a", "b"], "the command is `gimlet checkpoint convert`");
        check(&["explain", "BATCH_SIZE"], "the command is `gimlet gin explain`");
        check(&["trian"], "a similar subcommand exists: 'train'");
        check(&["serve", "my_model"], "a model is given with `--checkpoint=my_model`");
        check(&["generate", "--model_dir=a", "text"], "a model is given with `--checkpoint=PATH`");
        check(
            &["train", "--model_dir=a"],
            "values are bound with `--gin.CONFIGURABLE.model_dir=VALUE`",
        );
        check(
            &["train", "--module_import=a"],
            "a run imports its tasks: `--gin_bindings='import MODULE'`",
        );
        check(
            &["launch", "--nproc_per_node=2", "--gin_file=a.gin"],
            "flags of the command follow it: `gimlet launch [OPTIONS] train --gin_file=FILE`",
        );
        check(&["serve", "my.gin"], "a gin file is given with `--gin_file=my.gin`");
    }

    #[test]
    fn a_flag_before_words_that_are_no_number_says_what_it_takes() {
        let beams = printed(&["generate", "--beam", "A text."]);
        assert!(beams.contains("tip: `--beam` takes a whole number, as in `--beam=4`"), "{beams}");
        let temperature = printed(&["generate", "--temperature", "hot"]);
        assert!(temperature.contains("tip: `--temperature` takes a number"), "{temperature}");
        let too_large = printed(&["bench", "train_step", "--steps=99999999999999999999999"]);
        assert!(!too_large.contains("tip:"), "{too_large}");
    }
}
