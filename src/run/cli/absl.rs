//! absl's flags, which scripts for T5X and SeqIO pass to every program. Source: abseil-py `app.py`,
//! `logging/__init__.py` and `flags/_flagvalues.py`.

use std::collections::{HashMap, HashSet};

use anyhow::{Context, anyhow};
use clap::{ArgAction, Command};

use Meaning::{Nothing, Setting, Verbosity, Word};

/// The effect of one of absl's flags here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// A switch of no effect.
    Nothing,
    /// A flag with a value, of no effect.
    Setting,
    /// A number: 1 and above print more, -1 and below less.
    Verbosity,
    /// Another name of one of Gimlet's flags.
    Word(&'static str),
}

/// absl's own flags. Messages go to standard error in any case, without absl's prefixes and log files; Python's
/// debugger and profiler have nothing to look at.
const FLAGS: [(&str, Meaning); 18] = [
    ("alsologtostderr", Nothing),
    ("logtostderr", Nothing),
    ("showprefixforinfo", Nothing),
    ("stderrthreshold", Setting),
    ("log_dir", Setting),
    ("logger_levels", Setting),
    ("v", Verbosity),
    ("verbosity", Verbosity),
    ("only_check_args", Word("--dry_run")),
    ("helpshort", Word("--help")),
    ("helpfull", Word("--help")),
    ("pdb", Nothing),
    ("pdb_post_mortem", Nothing),
    ("run_with_pdb", Nothing),
    ("run_with_profiling", Nothing),
    ("use_cprofile_for_profiling", Nothing),
    ("profile_file", Setting),
    ("undefok", Setting),
];

/// Translates absl's flags and its way of writing booleans (`--noflag`, `--flag=True`), and drops the unknown flags
/// that `--undefok` names. Arguments after `--` stay as they are.
///
/// # Errors
/// Flags whose value is missing.
pub fn translate(args: Vec<String>, command: &Command) -> Result<Vec<String>, anyhow::Error> {
    let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let (args, rest) = args.split_at(end);
    let known = known_flags(command, args);
    let undefined_ok = undefined_ok(args);
    let mut out = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let Some(flag) = Flag::read(arg) else {
            out.push(arg.clone());
            continue;
        };
        let mut value = || {
            let next = || args.next().map(String::as_str);
            flag.value.or_else(next).with_context(|| format!("`{arg}` has no value"))
        };
        match flag.meaning() {
            Some(Nothing) => {}
            Some(Setting) => {
                value()?;
            }
            Some(Verbosity) => out.extend(verbosity(arg, value()?)?),
            Some(Word(word)) => out.push(word.to_string()),
            None => flag.pass(arg, &known, &undefined_ok, &mut out),
        }
    }
    out.extend_from_slice(rest);
    Ok(out)
}

/// A flag as typed.
#[derive(Clone, Copy)]
struct Flag<'a> {
    name: &'a str,
    value: Option<&'a str>,
    /// `-name`, which absl takes for `--name`.
    is_short: bool,
}

impl<'a> Flag<'a> {
    fn read(arg: &'a str) -> Option<Self> {
        let word = arg.strip_prefix('-')?;
        let (word, is_short) = match word.strip_prefix('-') {
            Some(word) => (word, false),
            None => (word, true),
        };
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        (!name.is_empty()).then_some(Flag { name, value, is_short })
    }

    /// Returns the meaning of absl's own flags; `-v` alone is Gimlet's.
    fn meaning(self) -> Option<Meaning> {
        if self.is_short && self.name == "v" && self.value.is_none() {
            return None;
        }
        let find = |name| FLAGS.into_iter().find(|(flag, _)| *flag == name).map(|(_, it)| it);
        let negated = || self.name.strip_prefix("no").and_then(find).filter(|it| *it == Nothing);
        find(self.name).or_else(negated)
    }

    /// Adds the word of a flag that is not absl's. A boolean becomes a plain switch or nothing; an
    /// unknown flag is dropped if `--undefok` names it.
    fn pass(
        self,
        arg: &str,
        known: &HashMap<String, bool>,
        undefined_ok: &HashSet<&str>,
        out: &mut Vec<String>,
    ) {
        let is_boolean = |name: &str| known.get(name) == Some(&true);
        let negated = self.name.strip_prefix("no").filter(|name| is_boolean(name));
        let is_true = self.value.and_then(boolean);
        let (name, is_on) = match (negated, is_true) {
            _ if self.is_short => ("", None),
            (Some(name), _) if self.value.is_none() => (name, Some(false)),
            (None, Some(is_on)) if is_boolean(self.name) => (self.name, Some(is_on)),
            _ => (self.name, None),
        };
        match is_on {
            Some(is_on) => {
                let switch = format!("--{name}");
                // The last switch counts.
                out.retain(|word| *word != switch);
                out.extend(is_on.then_some(switch));
            }
            None if !known.contains_key(self.name) && self.is_among(undefined_ok) => {}
            None => out.push(arg.to_string()),
        }
    }

    fn is_among(self, names: &HashSet<&str>) -> bool {
        let negated = self.name.strip_prefix("no");
        names.contains(self.name) || negated.is_some_and(|name| names.contains(name))
    }
}

/// Parses the values that absl accepts for a boolean.
fn boolean(value: &str) -> Option<bool> {
    match value.to_lowercase().as_str() {
        "true" | "t" | "1" => Some(true),
        "false" | "f" | "0" => Some(false),
        _ => None,
    }
}

/// Converts absl's levels, which run from -3, fatal, over -1, warnings, and 0, notices, to 1 and
/// more for debugging.
fn verbosity(arg: &str, level: &str) -> Result<Option<String>, anyhow::Error> {
    let level: i64 =
        level.parse().map_err(|_| anyhow!("`{arg}`: expected a whole number, found `{level}`"))?;
    let word = match level {
        1.. => Some("--verbose"),
        0 => None,
        _ => Some("--quiet"),
    };
    Ok(word.map(str::to_string))
}

/// Returns the names that `--undefok` lists.
fn undefined_ok(args: &[String]) -> HashSet<&str> {
    let mut names = HashSet::new();
    for (index, arg) in args.iter().enumerate() {
        let Some(flag) = Flag::read(arg).filter(|flag| flag.name == "undefok") else { continue };
        let list = flag.value.or(args.get(index + 1).map(String::as_str)).unwrap_or_default();
        names.extend(list.split(',').map(str::trim));
    }
    names
}

/// Returns the flags of the command that the words name, and whether each is a boolean.
fn known_flags(command: &Command, args: &[String]) -> HashMap<String, bool> {
    let mut known = HashMap::new();
    let mut add = |command: &Command| {
        for arg in command.get_arguments() {
            let is_boolean = matches!(arg.get_action(), ArgAction::SetTrue);
            let names = arg.get_long().into_iter().chain(arg.get_all_aliases().unwrap_or_default());
            known.extend(names.map(|name| (name.to_string(), is_boolean)));
        }
    };
    let mut command = command;
    add(command);
    for arg in args.iter().skip(1) {
        if let Some(inner) = command.find_subcommand(arg) {
            command = inner;
            add(command);
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::super::CommandLine;
    use super::*;

    fn translated(args: &str) -> Result<String, String> {
        let words = args.split(' ').map(str::to_string).collect();
        let words = translate(words, &CommandLine::command()).map_err(|error| error.to_string())?;
        Ok(words.join(" "))
    }

    fn check(args: &str, expected: &str) {
        assert_eq!(translated(args).as_deref(), Ok(expected), "{args}");
    }

    #[test]
    fn flags_of_logging_are_accepted_by_every_command() {
        let flags = "--alsologtostderr -logtostderr --nologtostderr --logtostderr=True --v=0 \
                     --stderrthreshold info --log_dir=/tmp --nopdb_post_mortem";
        for command in ["train", "eval", "cache", "gin check", "checkpoint ls", "doctor"] {
            check(&format!("gimlet {command} {flags}"), &format!("gimlet {command}"));
        }
    }

    #[test]
    fn levels_of_verbosity_are_ours() {
        check("gimlet train --v=1 --verbosity -1", "gimlet train --verbose --quiet");
        check("gimlet train -v=2 --verbosity=0", "gimlet train --verbose");
        check("gimlet train -v -q", "gimlet train -v -q");
        let expected = "`--v=high`: expected a whole number, found `high`";
        assert_eq!(translated("gimlet train --v=high"), Err(expected.to_string()));
        assert_eq!(translated("gimlet train --v"), Err("`--v` has no value".to_string()));
    }

    #[test]
    fn booleans_are_written_as_absl_takes_them() {
        check(
            "gimlet cache --nooverwrite --ignore_other_caches=True --notes=True --overwrite",
            "gimlet cache --ignore_other_caches --notes=True --overwrite",
        );
        check("gimlet train --dry_run=1 --take_over=f --nostrict", "gimlet train --dry_run");
        // The last switch counts.
        check("gimlet cache --overwrite --nooverwrite", "gimlet cache");
        check("gimlet cache --overwrite=false --overwrite=t", "gimlet cache --overwrite");
    }

    #[test]
    fn unknown_flags_pass_where_undefok_names_them() {
        check(
            "gimlet eval --undefok=mystery,process_count --mystery=1 --nomystery --process_count=2 --gin_file=a",
            "gimlet eval --gin_file=a",
        );
        // Flags that a command knows keep their meaning.
        check(
            "gimlet train --undefok process_count --process_count=1 --other=1",
            "gimlet train --process_count=1 --other=1",
        );
    }

    #[test]
    fn nothing_is_translated_behind_two_dashes() {
        check("gimlet train --v=1 -- --v=1", "gimlet train --verbose -- --v=1");
    }
}
