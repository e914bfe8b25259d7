//! The commands on a model, a file each: flags, root spec, check, dry run, and the call of the body,
//! which needs libtorch. A new one is a file here and a line in the table below, and its spec one in `run/root.rs`.
//!
//! `gimlet` checks the configuration, makes the dry run, and hands the rest to `gimlet-torch`, which runs
//! the body.

mod answering;
mod eval;
mod export;
mod files;
mod fill;
mod generate;
mod infer;
mod precompile;
mod root_command;
mod score;
mod serve;
mod summary;
mod train;

#[cfg(feature = "torch")]
mod body;
#[cfg(feature = "torch")]
pub(super) mod joined;
#[cfg(feature = "torch")]
mod texts;

use std::process;

use clap::Subcommand;

use crate::gin::{Configurable, config_str, tree};
use crate::launch::DistributedArgs;
use crate::partition::{LocalDevice, Process};

use super::configure::{configure, registry};
use super::failure::Failure;
use super::library::Library;
use super::output::{write, write_error};
use super::root::{PlannedRun, Root};

pub use answering::ModelArgs;
pub use eval::EvalArgs;
use export::ExportArgs;
pub use files::FilesArgs;
use fill::FillArgs;
use generate::GenerateArgs;
use infer::InferArgs;
use precompile::PrecompileArgs;
use root_command::RootCommand;
use score::ScoreArgs;
use serve::ServeArgs;
pub use train::TrainArgs;

pub use summary::{bytes, describe_mesh, grouped};

/// Declares the commands, in the order of the help: `Name(flags)`.
macro_rules! commands {
    ($($(#[$help:meta])* $name:ident($flags:ty),)+) => {
        /// A command on a model.
        #[derive(Debug, Subcommand)]
        pub enum ModelCommand {
            $($(#[$help])* $name(Box<$flags>),)+
        }

        impl ModelCommand {
            /// Reports the user's mistakes before libtorch is loaded, for a run in so many processes; a dry run
            /// ends the process.
            ///
            /// # Errors
            /// Every mistake in flags and gin files; with `--dry_run` those of the run before its
            /// first step.
            pub fn check(&self, color: bool, num_processes: usize) -> Result<(), Failure> {
                match self {
                    $(Self::$name(flags) => check(&**flags, color, num_processes),)+
                }
            }

            /// Returns the configuration as one gin file, with which `gimlet` runs the same.
            ///
            /// # Errors
            /// Every mistake in flags and gin files.
            pub fn print_gin(&self, color: bool) -> Result<String, Failure> {
                match self {
                    $(Self::$name(flags) => print_gin(&**flags, color),)+
                }
            }

            /// Returns T5X's flags for many processes.
            pub fn distributed(&self) -> DistributedArgs {
                match self {
                    $(Self::$name(flags) => flags.distributed(),)+
                }
            }

            /// Whether processes on several devices share the work.
            pub fn is_shared(&self) -> bool {
                match self {
                    $(Self::$name(flags) => flags.is_shared(),)+
                }
            }

            /// Runs the body.
            ///
            /// # Errors
            /// Those of the check and of the body.
            #[cfg(feature = "torch")]
            pub fn run(
                &self,
                verbosity: crate::telemetry::Verbosity,
                color: bool,
            ) -> Result<(), Failure> {
                match self {
                    $(Self::$name(flags) => body::run(&**flags, verbosity, color),)+
                }
            }
        }
    };
}

commands! {
    /// Train the model that gin files describe, continuing from MODEL_DIR's newest checkpoint.
    Train(TrainArgs),
    /// Measure checkpoints with the metrics of a task or mixture, as T5X's eval.py does.
    Eval(EvalArgs),
    /// Write a model's predictions or scores for the examples of a task or mixture, as T5X's infer.py
    /// does.
    Infer(InferArgs),
    /// Write a model as a folder that transformers load, in place of T5X's export.py.
    Export(ExportArgs),
    /// Check shapes and memory of a training without data, in place of T5X's main.py --run_mode=precompile.
    Precompile(PrecompileArgs),
    /// Answer texts: arguments, the lines of a file or of standard input, or a conversation on a terminal.
    Generate(GenerateArgs),
    /// Print the log-likelihood that a model gives to targets.
    Score(ScoreArgs),
    /// Print the likeliest pieces for the masked tokens of texts.
    Fill(FillArgs),
    /// Answer texts over HTTP, several at a time, and show a page to type into.
    Serve(ServeArgs),
    /// Answer the lines of text files, for `t5_mesh_transformer`.
    #[command(skip)]
    Files(FilesArgs),
}

fn print_gin<C: RootCommand>(command: &C, color: bool) -> Result<String, Failure> {
    let configured = configure::<C::Spec>(&*command.gin()?, &Library, color)?;
    write_error(&configured.warnings);
    Ok(config_str(&configured.config, &registry()))
}

fn check<C: RootCommand>(command: &C, color: bool, num_processes: usize) -> Result<(), Failure> {
    let configured = configure::<C::Spec>(&*command.gin()?, &Library, color)?;
    command.suits(&configured.spec)?;
    let first = Process { rank: 0, count: num_processes };
    let mesh = configured.spec.mesh(first, LocalDevice::Cpu).map_err(Failure::usage)?;
    if command.is_dry_run() {
        write_error(&configured.warnings);
        let values = &tree(&configured.config, &registry(), C::Spec::schema());
        let planned = PlannedRun { tasks: &configured.tasks, mesh: &mesh, values };
        write(&configured.spec.dry_run(&planned)?)?;
        process::exit(0)
    }
    Ok(())
}
