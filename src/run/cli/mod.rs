//! The command line: T5X's flags as typed, and ours.
//!
//! [`expand_flag_files`] comes first, in `gimlet` alone: a flag file may be a pipe. [`parse`] then reads
//! the words in two steps: `words` translates those of scripts for T5X and SeqIO into Gimlet's (absl's
//! flags in `absl`, other launchers' in `launchers`); clap reads the result, as the structs of the commands declare.

mod absl;
mod flag_file;
mod launchers;
mod misplaced;
mod parse;
mod words;

pub use flag_file::expand as expand_flag_files;
pub use parse::{Unparsed, parse, try_parse};

use clap::{Args, Parser, Subcommand};

use crate::telemetry::Verbosity;

use super::bench::BenchToolArgs;
use super::cache::CacheArgs;
use super::checkpoint::CheckpointToolArgs;
use super::commands::ModelCommand;
use super::doctor::DoctorArgs;
use super::foreign::ForeignCommand;
use super::gin::GinToolArgs;
use super::launch_flags::LaunchArgs;
use super::megatron_index::MegatronIndexArgs;
use super::plan::PlanArgs;
use super::report::{ReportArgs, TableArgs};
use super::shell::{CompletionsArgs, ManArgs};
use super::shims::ShimsArgs;
use super::sweep::SweepArgs;
use super::t5_experiments::T5ExperimentsArgs;
use super::t5_mesh_transformer::T5MeshTransformerArgs;
use super::task::TaskToolArgs;
use super::vocab::VocabToolArgs;

/// Gin files fully describe a run; gimlet runs them.
#[derive(Debug, Parser)]
#[command(name = "gimlet", version, max_term_width = 100)]
// As with absl: of a flag that takes one value the last one counts.
#[command(args_override_self = true)]
#[command(
    after_help = "Bindings are gin: a text needs its own quotes, --gin.MODEL_DIR=\"'/tmp/run'\"."
)]
pub struct CommandLine {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
    /// Amount of output.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Amount of output on standard error.
#[derive(Args, Clone, Copy, Debug)]
pub struct OutputArgs {
    /// Print only errors: no notices and no progress.
    #[arg(short = 'q', long = "quiet", global = true, overrides_with = "verbose")]
    pub quiet: bool,
    /// Print more: the gin files that are read, the device, the data files that are opened.
    #[arg(short = 'v', long = "verbose", global = true, overrides_with = "quiet")]
    pub verbose: bool,
}

impl OutputArgs {
    /// Returns the verbosity that the flags select.
    pub fn verbosity(self) -> Verbosity {
        match self {
            OutputArgs { quiet: true, .. } => Verbosity::Quiet,
            OutputArgs { verbose: true, .. } => Verbosity::Verbose,
            _ => Verbosity::Normal,
        }
    }
}

impl Command {
    /// The command as one of another project's program, if it is one.
    pub fn foreign(&self) -> Option<&dyn ForeignCommand> {
        match self {
            Self::T5MeshTransformer(args) => Some(&**args),
            Self::T5Experiments(args) => Some(args),
            _ => None,
        }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(flatten)]
    Model(ModelCommand),
    /// Train or evaluate as the configurations of Mesh TensorFlow's T5 say: t5's program of that name, with its flags.
    #[command(name = "t5_mesh_transformer")]
    T5MeshTransformer(Box<T5MeshTransformerArgs>),
    /// Train as the programs of t5-experiments do, with their flags: `gimlet t5_experiments t5 --help` lists them.
    #[command(name = "t5_experiments")]
    T5Experiments(T5ExperimentsArgs),
    /// Run a command in several processes, one for each device of this machine, as torchrun does:
    /// `gimlet launch --nproc_per_node=4 train --gin_file=my.gin`.
    Launch(LaunchArgs),
    /// Run a command for every combination of values, one after another or as the tasks of an array:
    /// `gimlet sweep lr.gin --folder=runs/lr train --gin_file=my.gin --gin.MODEL_DIR="'{folder}'"`.
    Sweep(SweepArgs),
    /// Measure the training step, the decoding or the data of the run that gin files describe.
    Bench(BenchToolArgs),
    /// Predict the steps of the run that gin files describe on other devices, for every mesh, and name the best.
    Plan(Box<PlanArgs>),
    /// Run tasks up to their `CacheDatasetPlaceholder` and write the caches for USE_CACHED_TASKS;
    /// takes the flags of SeqIO's script of that name.
    #[command(visible_alias = "seqio_cache_tasks")]
    Cache(Box<CacheArgs>),
    /// Say what this build and machine support, and what is missing.
    Doctor(Box<DoctorArgs>),
    /// Inspect, check and format gin files.
    Gin(GinToolArgs),
    /// Inspect, check and measure tasks and mixtures.
    Task(TaskToolArgs),
    /// List, show, compare, verify and convert checkpoints of any format.
    Checkpoint(CheckpointToolArgs),
    /// Print the table of runs, such as the points of a sweep: what differs, and the best and last metrics.
    Table(TableArgs),
    /// Write a page about runs for the browser: curves, predictions, configurations, checkpoints.
    Report(ReportArgs),
    /// Train vocabularies, and show how they encode text.
    Vocab(VocabToolArgs),
    /// Convert texts to files of token ids, as Megatron's `preprocess_data.py` does, with its flags.
    #[command(name = "megatron_index")]
    MegatronIndex(Box<MegatronIndexArgs>),
    /// Write a folder of Python programs that replace T5X's, SeqIO's and t5-experiments' in scripts and run gimlet.
    Shims(ShimsArgs),
    /// Print the completions of this command line for a shell: bash, zsh, fish and others.
    Completions(CompletionsArgs),
    /// Write the pages of the manual.
    Man(ManArgs),
}
