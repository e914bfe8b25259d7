//! `gimlet bench`: measures the speed of parts of a run that gin files describe, without running
//! it.

mod data;
#[cfg(feature = "torch")]
mod find_batch;
mod report;
#[cfg(feature = "torch")]
mod torch;

use std::num::NonZeroUsize;

use clap::{Args, Subcommand, ValueEnum};

use crate::partition::{LocalDevice, Process};
use crate::train::{Train, decoding_shape, training_shape};

use super::configure::{Configured, configure};
use super::failure::Failure;
use super::gin_flags::GinArgs;
use super::library::Library;
use super::output::write_error;

/// Flags of `gimlet bench`.
#[derive(Args, Debug)]
pub struct BenchToolArgs {
    /// The measurement.
    #[command(subcommand)]
    pub tool: BenchCommand,
}

impl BenchToolArgs {
    /// Whether several processes can make the measurement together.
    pub(super) fn runs_in_processes(&self) -> bool {
        matches!(self.tool, BenchCommand::TrainStep(_))
    }

    /// Reports mistakes in the configuration of a measurement in so many processes.
    ///
    /// # Errors
    /// The first mistake.
    pub(super) fn check(&self, color: bool, num_processes: usize) -> Result<(), Failure> {
        let args = match &self.tool {
            BenchCommand::TrainStep(args) => &args.bench,
            BenchCommand::Decode(args) | BenchCommand::Data(args) => args,
        };
        let spec = configure::<Train>(&args.gin, &Library, color)?.spec;
        let first = Process { rank: 0, count: num_processes };
        spec.mesh(first, LocalDevice::Cpu).map(|_| ()).map_err(Failure::usage)
    }
}

/// The measurements.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Time training steps on full rows of made-up tokens, and show the parts of the time: no data
    /// are read and nothing is written. `gimlet launch` times them in several processes.
    #[command(name = "train_step")]
    TrainStep(Box<TrainStepArgs>),
    /// Time decoding as in the run's evaluation, on made-up inputs and with new parameters; every
    /// sequence is as long as the targets.
    Decode(Box<BenchArgs>),
    /// Time the batches of the training data, without training; needs no libtorch.
    Data(Box<BenchArgs>),
}

/// Flags of `gimlet bench train_step`.
#[derive(Args, Debug)]
pub struct TrainStepArgs {
    /// The measurement.
    #[command(flatten)]
    pub bench: BenchArgs,
    /// Time batches of BATCH_SIZE rows, then of twice as many, until memory ends or ROWS is passed, and
    /// name the fastest.
    #[arg(
        long = "find_batch",
        value_name = "ROWS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = NO_LIMIT
    )]
    pub find_batch: Option<usize>,
    /// Leave out a means of speed on GPUs, to measure what it gains; repeatable.
    #[arg(long, value_name = "MEANS")]
    pub without: Vec<Means>,
}

/// A means of speed on GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Means {
    /// cuDNN's attention: libtorch's takes its place.
    Cudnn,
    /// One launch for a step: each operation is launched.
    Graphs,
    /// Copies of kernels in bfloat16: kernels are cast in each forward pass, and their gradients in each backward pass.
    Copies,
    /// Products of the head in bfloat16: TF32 takes their place.
    Head,
}

/// More rows than memory has room for.
const NO_LIMIT: &str = "1000000000";

/// Flags of each measurement.
#[derive(Args, Debug)]
pub struct BenchArgs {
    /// The configuration.
    #[command(flatten)]
    pub gin: GinArgs,
    /// Number of timed steps or batches; by default 10, and 100 for data.
    #[arg(long, value_name = "N")]
    pub steps: Option<NonZeroUsize>,
    /// Number of steps or batches before them that are not timed.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub warmup: usize,
    /// Print one JSON object, with the time of each step.
    #[arg(long)]
    pub json: bool,
}

impl BenchArgs {
    /// Returns the number of timed steps; `default` if none is given.
    fn steps_or(&self, default: usize) -> usize {
        self.steps.map_or(default, NonZeroUsize::get)
    }

    /// Returns the configured run, after printing its warnings.
    fn configured(&self, color: bool) -> Result<Configured<Train>, Failure> {
        let configured = configure(&self.gin, &Library, color)?;
        write_error(&configured.warnings);
        Ok(configured)
    }
}

/// Does the work that needs no libtorch: reports mistakes in the configuration, and measures data.
/// Returns true if nothing is left to do.
pub(super) fn without_torch(args: &BenchToolArgs, color: bool) -> Result<bool, Failure> {
    let checked = |args: &BenchArgs| configure::<Train>(&args.gin, &Library, color);
    let shape = match &args.tool {
        BenchCommand::Data(args) => return data::run(args, color).map(|()| true),
        BenchCommand::TrainStep(args) => training_shape(&checked(&args.bench)?.spec),
        BenchCommand::Decode(args) => decoding_shape(&checked(args)?.spec),
    };
    shape.map(|_| false).map_err(Failure::usage)
}

/// Runs the measurement.
#[cfg(feature = "torch")]
pub(super) fn run(args: &BenchToolArgs, color: bool) -> Result<(), Failure> {
    match &args.tool {
        BenchCommand::TrainStep(args) => torch::train_step(args, color),
        BenchCommand::Decode(args) => torch::decode(args, color),
        BenchCommand::Data(args) => data::run(args, color),
    }
}
