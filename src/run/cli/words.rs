//! Translates the words of a command line, as scripts for T5X and SeqIO type them, into Gimlet's.

use std::path::Path;

use anyhow::bail;
use clap::Command;

use super::absl;
use super::launchers::with_launcher_translated;

/// The names under which SeqIO and t5 install their programs, each with its command. Links of these names to `gimlet`
/// are these commands.
const PROGRAMS: [(&str, &str); 2] =
    [("seqio_cache_tasks", "cache"), ("t5_mesh_transformer", "t5_mesh_transformer")];

/// The modes of T5X's `main.py`, which are commands.
const RUN_MODES: [&str; 5] = ["train", "eval", "infer", "precompile", "export"];

/// Translates the typed words, program first, into words that `command` knows, except for
/// `bindings` and flag files: translates absl's flags.
///
/// # Errors
/// Flags without their values, modes that T5X does not have, flags of Fiddle, lines of launchers without a counterpart.
pub fn words(args: Vec<String>, command: &Command) -> Result<Vec<String>, anyhow::Error> {
    let args = with_launcher_translated(with_command_of_program(args))?;
    let args = with_command_of_run_mode(args)?;
    if let Some(flag) = args.iter().find(|word| word.starts_with("--fdl_")) {
        let flag = flag.split('=').next().expect("split yields one part");
        bail!(
            "`{flag}` is a flag of Fiddle, and runs are described by gin files: give `--gin_file` and `--gin.NAME=VALUE`"
        );
    }
    let args = with_foreign_flags_apart(with_started_command_apart(args, command), command);
    absl::translate(args, command)
}

/// Adds the command if the program is called by another program's name.
fn with_command_of_program(mut args: Vec<String>) -> Vec<String> {
    let program = args.first().and_then(|program| Path::new(program).file_name());
    let known = PROGRAMS.iter().find(|(name, _)| program.is_some_and(|program| program == *name));
    if let Some((_, command)) = known {
        args.insert(1, command.to_string());
    }
    args
}

/// Adds the command from `--run_mode` if none is given, as in T5X's `main.py`.
fn with_command_of_run_mode(mut args: Vec<String>) -> Result<Vec<String>, anyhow::Error> {
    if args.get(1).is_none_or(|word| !word.starts_with('-')) {
        return Ok(args);
    }
    let is_mode = |word: &String| word == "--run_mode" || word.starts_with("--run_mode=");
    let Some(place) = args.iter().position(is_mode) else { return Ok(args) };
    let flag = args.remove(place);
    let mode = match flag.split_once('=') {
        Some((_, mode)) => mode.to_string(),
        None if place < args.len() => args.remove(place),
        None => return Ok([args, vec![flag]].concat()),
    };
    if !RUN_MODES.contains(&mode.as_str()) {
        bail!("`--run_mode` is `{mode}`, expected one of {}", RUN_MODES.join(", "));
    }
    args.insert(1, mode);
    Ok(args)
}

/// Commands that start another one, with the number of words before it that are neither flags nor the values of flags.
const STARTING: [(&str, usize); 2] = [("launch", 0), ("sweep", 1)];

/// Puts `--` before the command that `gimlet launch` or `gimlet sweep` starts, whose words the processes translate.
fn with_started_command_apart(mut args: Vec<String>, command: &Command) -> Vec<String> {
    let starts = args.iter().position(|word| command.find_subcommand(word).is_some());
    let known = STARTING.iter().find(|(name, _)| starts.is_some_and(|at| args[at] == *name));
    let (Some(start), Some((name, num_before))) = (starts, known) else { return args };
    let takes_value = |flag: &str| {
        let Some(flag) = flag.strip_prefix("--") else { return false };
        let known = command.find_subcommand(name).into_iter().flat_map(Command::get_arguments);
        let mut named = known.filter(|arg| {
            let aliases = arg.get_all_aliases().unwrap_or_default();
            arg.get_long() == Some(flag) || aliases.contains(&flag)
        });
        named.any(|arg| arg.get_action().takes_values())
    };
    let is_inner = |at: &usize| !args[*at].starts_with('-') && !takes_value(&args[*at - 1]);
    let inner = (start + 1..args.len()).filter(is_inner).nth(*num_before);
    if let Some(inner) = inner.filter(|inner| !args[..*inner].iter().any(|word| word == "--")) {
        args.insert(inner, "--".to_string());
    }
    args
}

/// Puts `--` before the words of `gimlet t5_experiments`, which argparse's rules read, and neither absl's nor clap's.
fn with_foreign_flags_apart(mut args: Vec<String>, command: &Command) -> Vec<String> {
    let is_command = |word: &String| command.find_subcommand(word).is_some();
    let place = args.iter().position(is_command).filter(|at| args[*at] == "t5_experiments");
    if let Some(place) = place.filter(|at| args.get(at + 1).is_none_or(|word| word != "--")) {
        args.insert(place + 1, "--".to_string());
    }
    args
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::super::{Command, CommandLine, try_parse};
    use super::*;
    use crate::run::commands::ModelCommand;
    use crate::run::gin_flags::bindings;

    fn split(line: &str) -> Vec<String> {
        shlex::split(line).expect("well formed")
    }

    fn bound(args: &str) -> Vec<(String, String)> {
        let cli = try_parse(split(&format!("gimlet train {args}"))).expect("well formed");
        let Command::Model(ModelCommand::Train(train)) = cli.command else {
            panic!("parsed as train")
        };
        train.gin.files.bindings()
    }

    #[test]
    fn gin_dot_flags_become_bindings_in_order() {
        let found = bound(r#"--gin.a/f.x=1 --gin_bindings='y = 2' --gin.z="{'k': 'a=b'}""#);
        let expected = [
            ("--gin.a/f.x", "a/f.x = 1"),
            ("--gin_bindings", "y = 2"),
            ("--gin.z", "z = {'k': 'a=b'}"),
        ];
        assert_eq!(found, expected.map(|(flag, text)| (flag.to_string(), text.to_string())));
    }

    #[test]
    fn gin_param_is_another_name_of_gin_bindings() {
        assert_eq!(bound("--gin_param 'x = 1'")[0].1, "x = 1");
    }

    #[test]
    fn a_gin_flag_without_a_value_is_refused() {
        let error = bindings(split("gimlet train --gin.test")).expect_err("no value");
        assert!(error.to_string().ends_with("got: --gin.test"));
    }

    #[test]
    fn the_command_comes_from_the_program_s_name_or_the_run_mode() {
        let check = |typed: &str, expected: &str| {
            let found = words(split(typed), &CommandLine::command()).expect("well formed");
            assert_eq!(found, split(expected), "{typed}");
        };
        check("/bin/seqio_cache_tasks --tasks=a", "/bin/seqio_cache_tasks cache --tasks=a");
        check("gimlet --gin_file=a --run_mode=eval", "gimlet eval --gin_file=a");
        check("gimlet --run_mode train --gin_file a", "gimlet train --gin_file a");
        check("gimlet train --run_mode=eval", "gimlet train --run_mode=eval");
        check("gimlet --run_mode", "gimlet --run_mode");
    }

    #[test]
    fn modes_and_flags_that_do_not_exist_are_refused_by_name() {
        let check = |typed: &str, part: &str| {
            let error = words(split(typed), &CommandLine::command()).expect_err(typed).to_string();
            assert!(error.contains(part), "{typed}: {error}");
        };
        check("gimlet --run_mode=score", "`--run_mode` is `score`, expected one of train, eval");
        check("gimlet train --fdl_config=base", "`--fdl_config` is a flag of Fiddle");
    }

    #[test]
    fn the_words_of_a_launched_command_stay_as_they_are() {
        let check = |typed: &str, expected: &str| {
            let found = words(split(typed), &CommandLine::command()).expect("well formed");
            assert_eq!(found, split(expected), "{typed}");
        };
        check(
            "gimlet -q launch --nproc_per_node 2 --v=1 train --v=1 --undefok=a --a",
            "gimlet -q launch --nproc_per_node 2 --verbose -- train --v=1 --undefok=a --a",
        );
        check("gimlet launch -- train --v=1", "gimlet launch -- train --v=1");
        check(
            "gimlet launch --nproc-per-node 2 trian",
            "gimlet launch --nproc-per-node 2 -- trian",
        );
        check(
            "gimlet sweep lr.gin --folder x --list train --v=1 a",
            "gimlet sweep lr.gin --folder x --list -- train --v=1 a",
        );
        check("gimlet t5_experiments t5 --v 1", "gimlet t5_experiments -- t5 --v 1");
        check("gimlet -q t5_experiments -- t5 --v 1", "gimlet -q t5_experiments -- t5 --v 1");
        check("gimlet launch t5_experiments t5 --v 1", "gimlet launch -- t5_experiments t5 --v 1");
        let bound = bindings(split("gimlet launch -- train --gin.x=1")).expect("well formed");
        assert_eq!(bound.last().map(String::as_str), Some("--gin.x=1"));
    }
}
