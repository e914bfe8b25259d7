//! `gimlet checkpoint`: looks at checkpoints, compares and checks them, and converts between formats.

mod arrays;
mod convert;
mod diff;
mod ls;
mod meter;
mod metered;
mod more_tokens;
mod open;
mod show;
mod stream;
mod verify;

pub(super) use arrays::size;
pub(super) use convert::{NamedVocabulary, model_at};
pub(super) use ls::condition;
pub(super) use more_tokens::{Extended, write_with_more_tokens};
pub(super) use open::{failure, parse_checkpoint, parse_path, storage_failure};

use clap::{Args, Subcommand};

use super::failure::Failure;

/// Flags of `gimlet checkpoint`.
#[derive(Args, Debug)]
pub struct CheckpointToolArgs {
    /// The tool.
    #[command(subcommand)]
    pub tool: CheckpointCommand,
}

/// A tool for checkpoints. Each takes any format that Gimlet reads, here or in a bucket.
#[derive(Debug, Subcommand)]
pub enum CheckpointCommand {
    /// List the checkpoints of a folder: step, format, size, age, and whether they are whole.
    Ls(ls::LsArgs),
    /// Print the tree of a checkpoint's arrays: shapes, types, sizes, and norms if asked for.
    Show(show::ShowArgs),
    /// Write the arrays of a checkpoint to standard output as one file of safetensors, for programs.
    Arrays(stream::ArraysArgs),
    /// Compare two checkpoints; ends with status 1 if they differ.
    Diff(diff::DiffArgs),
    /// Read checkpoints and name every damaged file; ends with status 1 if there is one.
    Verify(verify::VerifyArgs),
    /// Write a checkpoint, or each of a folder, in another format or type.
    Convert(Box<convert::ConvertArgs>),
}

impl CheckpointToolArgs {
    /// Whether logits are compared after the work, which needs libtorch.
    pub fn is_verified(&self) -> bool {
        matches!(&self.tool, CheckpointCommand::Convert(args) if args.verify)
    }

    /// Compares the logits of what was converted.
    ///
    /// # Errors
    /// They differ, or cannot be computed.
    #[cfg(feature = "torch")]
    pub fn verify(&self) -> Result<(), Failure> {
        match &self.tool {
            CheckpointCommand::Convert(args) => convert::verify(args),
            _ => Ok(()),
        }
    }

    /// Runs the tool.
    ///
    /// # Errors
    /// Paths that hold no checkpoint, damage, and a full disk.
    pub fn run(&self) -> Result<(), Failure> {
        match &self.tool {
            CheckpointCommand::Ls(args) => ls::run(args),
            CheckpointCommand::Show(args) => show::run(args),
            CheckpointCommand::Arrays(args) => stream::run(args),
            CheckpointCommand::Diff(args) => diff::run(args),
            CheckpointCommand::Verify(args) => verify::run(args),
            CheckpointCommand::Convert(args) => convert::run(args),
        }
    }
}
