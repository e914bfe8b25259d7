//! The program `gimlet`: everything that needs no tensors, in milliseconds.

use std::convert::Infallible;
use std::env;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, ExitCode};

use anyhow::anyhow;

use crate::data::TaskProvider;
use crate::eval::Evaluate;
use crate::storage;
use crate::telemetry;
use crate::train::Train;

use super::bench;
use super::cache::cache_command;
use super::cli::{Command, DistributedArgs, EvalArgs, TrainArgs, expand_flag_files, parse};
use super::configure::{Configured, configure};
use super::doctor;
use super::dry_run::{dry_run, dry_run_evaluation};
use super::failure::Failure;
use super::interrupt;
use super::library::Library;
use super::shell::{completions_command, man_command};
use super::shims::shims_command;
use super::start::torch_command;

/// The way in which libtorch's OpenMP threads wait for work. By default they spin, and on shared
/// cores a step then takes several times as long. The library reads it when it is loaded.
const WAIT_POLICY: &str = "OMP_WAIT_POLICY";

/// The log level of libtorch's profiler on standard error. The profiler always looks for GPUs, and
/// without a driver reports that as an error.
const PROFILER_LOG_LEVEL: &str = "KINETO_LOG_LEVEL";
/// The level above errors.
const SILENT: &str = "5";
/// The folder with information about NVIDIA's driver.
const GPU_DRIVER: &str = "/proc/driver/nvidia";

/// Runs `gimlet` with its command line.
pub fn main(args: impl Iterator<Item = String>) -> ExitCode {
    let color = telemetry::colors(&io::stderr());
    storage::set_observer(telemetry::notice);
    // A mixture reads at least one file of each of its tasks, which may be hundreds, so raise the limit.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    match run(args.collect(), color) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(color),
    }
}

fn run(args: Vec<String>, color: bool) -> Result<(), Failure> {
    // Read once: `gimlet-torch` must see the checked flags, and a flag file may be a pipe.
    let args = expand_flag_files(args).map_err(Failure::Usage)?;
    let cli = parse(args.clone())?;
    match cli.command {
        Command::Train(train) => check_train(&train, color)?,
        Command::Eval(eval) => check_eval(&eval, color)?,
        Command::Bench(bench) => {
            if bench::without_torch(&bench, color)? {
                return Ok(());
            }
        }
        Command::Cache(args) => return cache_command(&args, color),
        Command::Doctor(doctor) if doctor.paths.is_empty() => return diagnose(&args),
        Command::Doctor(doctor) => return examine(&doctor.paths),
        Command::Gin(command) => return command.run(color),
        Command::Task(command) => return command.run(color),
        Command::Vocab(command) => return command.run(),
        Command::Checkpoint(command) => return command.run(),
        Command::Shims(args) => return shims_command(&args),
        Command::Completions(args) => return completions_command(&args),
        Command::Man(args) => return man_command(&args),
    }
    hand_over(&args)
}

/// Reports the user's mistakes before libtorch is loaded; a dry run ends here.
fn check_train(train: &TrainArgs, color: bool) -> Result<(), Failure> {
    let configured = configure::<Train>(&train.gin, &Library, color)?;
    if train.dry_run {
        end_dry_run(&configured, dry_run)?;
    }
    refuse_several_processes(&train.distributed)
}

/// Does the same as [`check_train`] for an evaluation.
fn check_eval(eval: &EvalArgs, color: bool) -> Result<(), Failure> {
    let configured = configure::<Evaluate>(&eval.gin, &Library, color)?;
    if eval.dry_run {
        end_dry_run(&configured, dry_run_evaluation)?;
    }
    Ok(())
}

/// Prints the report and ends the process, unless the run itself would fail.
fn end_dry_run<T>(
    configured: &Configured<T>,
    report: impl FnOnce(&T, &dyn TaskProvider) -> Result<String, Failure>,
) -> Result<Infallible, Failure> {
    eprint!("{}", configured.warnings);
    print!("{}", report(&configured.spec, &configured.tasks)?);
    process::exit(0)
}

/// Refuses several processes, each of which would train alone and write into the same MODEL_DIR.
fn refuse_several_processes(flags: &DistributedArgs) -> Result<(), Failure> {
    match flags.process_count {
        None | Some(1) => Ok(()),
        Some(count) => Err(Failure::Usage(anyhow!(
            "training over {count} processes is not supported yet: drop --process_count to train \
             in this one"
        ))),
    }
}

/// Prints `gimlet-torch`'s report of libtorch; if that fails, the machine and the remedy.
fn diagnose(args: &[String]) -> Result<(), Failure> {
    let trouble = match torch_command() {
        Err(failure) => failure.to_string(),
        Ok(mut command) => match command.args(&args[1..]).output() {
            Ok(output) if output.status.success() => {
                print!("{}", String::from_utf8_lossy(&output.stdout));
                return Ok(());
            }
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                let said = said.lines().next().unwrap_or("it said nothing").to_string();
                format!("cannot be loaded: {said}")
            }
            Err(error) => format!("cannot start {}: {error}", command.get_program().display()),
        },
    };
    print!("{}", doctor::report(&[("libtorch", trouble)]));
    Ok(())
}

/// Tries the actions of a run in each of the folders; status 1 means that a permission is missing.
fn examine(places: &[String]) -> Result<(), Failure> {
    let mut is_sound = true;
    for place in places {
        let examined = doctor::examine(place).map_err(Failure::usage)?;
        print!("{}", examined.report);
        is_sound &= examined.is_sound;
    }
    if is_sound { Ok(()) } else { Err(Failure::Said) }
}

/// Replaces this process by `gimlet-torch`.
fn hand_over(args: &[String]) -> Result<(), Failure> {
    let mut command = torch_command()?;
    // Settings for libraries that read the environment: set for the new program, which has no threads yet.
    let mut set = |name: &str, value: &str| {
        if env::var_os(name).is_none() {
            command.env(name, value);
        }
    };
    set(WAIT_POLICY, "PASSIVE");
    if !Path::new(GPU_DRIVER).exists() {
        set(PROFILER_LOG_LEVEL, SILENT);
    }
    // SAFETY: it calls only functions that are allowed between fork and exec.
    unsafe { command.pre_exec(interrupt::hold) };
    telemetry::detail(&format!("starting {}", command.get_program().display()));
    let error = command.args(&args[1..]).exec();
    let message = format!("cannot start {}", command.get_program().display());
    Err(Failure::World(anyhow!(error).context(message)))
}
