//! `gimlet task`: looks at tasks and mixtures before anything is trained on them.

mod args;
mod batches;
mod check;
mod elsewhere;
mod import;
mod list;
mod metrics;
mod predictions;
mod show;
mod stats;
mod stream;

use clap::{Args, Subcommand};

use super::failure::Failure;
pub(super) use args::failure;

/// Flags of `gimlet task`.
#[derive(Args, Debug)]
pub struct TaskToolArgs {
    /// The tool.
    #[command(subcommand)]
    pub tool: TaskCommand,
}

/// A tool for tasks.
#[derive(Debug, Subcommand)]
pub enum TaskCommand {
    /// Name every task and mixture, and the file and line that declares it.
    List(list::ListArgs),
    /// Print examples after each step of a task's pipeline, and the packed rows of a batch.
    Show(show::ShowArgs),
    /// Report every mistake in tasks and mixtures; ends with status 2 if there is one.
    Check(check::CheckArgs),
    /// Write the tasks that a Python module registers with SeqIO as a task file.
    Import(import::ImportArgs),
    /// Measure a task: lengths, padding with and without packing, examples and tokens a second.
    Stats(stats::StatsArgs),
    /// Print the batches that a run trains on: the place of each example in its row, its tokens and text.
    Batches(Box<batches::BatchesArgs>),
    /// Write the batches of a task to standard output, for programs.
    Stream(Box<stream::StreamArgs>),
    /// Score predictions in a file with a task's metrics.
    Metrics(metrics::MetricsArgs),
}

impl TaskToolArgs {
    /// Runs the tool.
    ///
    /// # Errors
    /// Mistakes in flags, task files and data.
    pub fn run(&self, color: bool) -> Result<(), Failure> {
        match &self.tool {
            TaskCommand::List(args) => list::run(args, color),
            TaskCommand::Show(args) => show::run(args, color),
            TaskCommand::Check(args) => check::run(args, color),
            TaskCommand::Import(args) => import::run(args),
            TaskCommand::Stats(args) => stats::run(args, color),
            TaskCommand::Batches(args) => batches::run(args, color),
            TaskCommand::Stream(args) => stream::run(args, color),
            TaskCommand::Metrics(args) => metrics::run(args, color),
        }
    }
}
