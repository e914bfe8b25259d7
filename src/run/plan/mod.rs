//! `gimlet plan`: predicts the steps of a run on a machine that may be elsewhere, for every mesh, and names the best.
//!
//! Everything is arithmetic on the configuration: the memory of `--dry_run`, the bytes of `train::traffic`, and a roofline
//! for the time, whose data are in `device`. `docs/plan.md` compares it with published and measured runs.

mod cluster;
mod device;
mod flags;
mod layout;
#[cfg(test)]
mod peaks;
#[cfg(test)]
mod published;
mod report;
mod search;
mod time;

use clap::Args;

use crate::train::{Train, training_shape};

use super::configure::configure;
use super::failure::Failure;
use super::gin_flags::GinArgs;
use super::library::Library;
use super::output::{write, write_error};

use cluster::Cluster;
use report::report;
use search::{alone, search};

/// Flags of `gimlet plan`.
#[derive(Args, Debug)]
#[group(id = "planned")]
pub struct PlanArgs {
    /// The configuration.
    #[command(flatten)]
    pub gin: GinArgs,
    /// GPUs to plan for, such as 256xH100.
    #[arg(long = "gpus", value_name = "NxGPU", conflicts_with = "cpus")]
    pub gpus: Option<String>,
    /// GPUs of each host, which NVLink joins.
    #[arg(long = "nvlink", value_name = "N", default_value_t = 8)]
    pub nvlink: usize,
    /// Network of each GPU, in bits a second: 400Gb; by default that of NVIDIA's hosts.
    #[arg(long = "network", value_name = "RATE")]
    pub network: Option<String>,
    /// Processes on this machine's processors to plan for.
    #[arg(long = "cpus", value_name = "N")]
    pub cpus: Option<usize>,
    /// Rate of all processors in whole steps, as `gimlet bench train_step` prints it for such a run.
    #[arg(long = "gflops", value_name = "GFLOP/S", conflicts_with = "gpus")]
    pub gflops: Option<f64>,
    /// Time of a step of this run in one process there, such as 1.3s: predictions are scaled by it.
    #[arg(long = "measured_step", value_name = "TIME")]
    pub measured_step: Option<String>,
    /// Share of the backward pass beside which gradients travel, from 0 to 1.
    #[arg(long = "overlap", value_name = "SHARE")]
    pub overlap: Option<f64>,
    /// Meshes to print.
    #[arg(long = "rows", value_name = "N", default_value_t = 10)]
    pub rows: usize,
}

/// Runs the command.
///
/// # Errors
/// Mistakes in flags and in the configuration.
pub(super) fn plan_command(args: &PlanArgs, color: bool) -> Result<(), Failure> {
    let mut machine = flags::machine(args).map_err(Failure::usage)?;
    let configured = configure::<Train>(&args.gin, &Library, color)?;
    write_error(&configured.warnings);
    let train = &configured.spec;
    machine.pace = pace(args, train, &machine)?;
    let plan = search(train, &machine).map_err(Failure::usage)?;
    write(&report(train, &machine, &plan, args.rows).map_err(Failure::usage)?)
}

/// Returns the measured time of a step for each predicted second.
fn pace(args: &PlanArgs, train: &Train, machine: &Cluster) -> Result<f64, Failure> {
    let flops = train.model.train_step_flops(&training_shape(train).map_err(Failure::usage)?);
    let measured = flags::measured_seconds(args, flops).map_err(Failure::usage)?;
    let Some(measured) = measured else { return Ok(1.0) };
    Ok(measured / alone(train, machine).map_err(Failure::usage)?.total())
}
