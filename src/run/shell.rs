//! Files about the command line for shells and `man`: `gimlet completions`, `gimlet man`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::telemetry::notice;

use super::cli::CommandLine;
use super::failure::Failure;
use super::output::write;

/// Arguments of `gimlet completions`.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell. Each shell looks in its own folder for completions, as in
    /// `gimlet completions bash >~/.local/share/bash-completion/completions/gimlet`.
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Arguments of `gimlet man`.
#[derive(Args, Debug)]
pub struct ManArgs {
    /// Folder to write, such as ~/.local/share/man/man1, in which `man gimlet-train` finds its page.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

/// Prints a shell's completions.
///
/// # Errors
/// A standard output that cannot be written.
pub(super) fn completions_command(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut CommandLine::command(), "gimlet", &mut text);
    write(&String::from_utf8_lossy(&text))
}

/// Writes a page for each command.
///
/// # Errors
/// A full disk.
pub(super) fn man_command(args: &ManArgs) -> Result<(), Failure> {
    let dir = &args.dir;
    let written = fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(CommandLine::command(), dir));
    let context = || format!("writing pages of the manual to {}", dir.display());
    written.with_context(context).map_err(Failure::World)?;
    notice(&format!("the pages are in {0}: man {0}/gimlet.1", dir.display()));
    Ok(())
}
