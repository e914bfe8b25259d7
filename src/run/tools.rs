//! The commands that need no libtorch at all.

use super::cache::cache_command;
use super::cli::Command;
use super::failure::Failure;
use super::megatron_index::megatron_index_command;
use super::plan::plan_command;
use super::report::{report_command, table_command};
use super::shell::{completions_command, man_command};
use super::shims::shims_command;
use super::sweep::sweep_command;

/// Runs a command that needs no libtorch; returns `None` for any other.
pub(super) fn run(command: &Command, color: bool) -> Option<Result<(), Failure>> {
    Some(match command {
        Command::Cache(args) => cache_command(args, color),
        Command::Plan(args) => plan_command(args, color),
        Command::Gin(command) => command.run(color),
        Command::Task(command) => command.run(color),
        Command::Vocab(command) => command.run(),
        Command::Checkpoint(command) => command.run(),
        Command::MegatronIndex(args) => megatron_index_command(args),
        Command::Table(args) => table_command(args),
        Command::Report(args) => report_command(args),
        Command::Sweep(args) => sweep_command(args, color),
        Command::Shims(args) => shims_command(args),
        Command::Completions(args) => completions_command(args),
        Command::Man(args) => man_command(args),
        Command::Model(_)
        | Command::T5MeshTransformer(_)
        | Command::T5Experiments(_)
        | Command::Launch(_)
        | Command::Bench(_)
        | Command::Doctor(_) => {
            return None;
        }
    })
}
