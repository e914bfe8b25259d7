//! The program `gimlet`: everything that needs no tensors, in milliseconds.

use std::env;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, ExitCode};

use anyhow::anyhow;

use crate::python;
use crate::storage;
use crate::telemetry;

use super::bench;
use super::cli::{Command, expand_flag_files, parse};
use super::doctor;
use super::failure::Failure;
use super::foreign::{ForeignCommand, Translated};
use super::interrupt;
use super::launch;
use super::output::write;
use super::start::torch_command;
use super::tools;

/// The way in which libtorch's OpenMP threads wait for work. By default they spin, and on shared
/// cores a step then takes several times as long. The library reads it when it is loaded.
pub(super) const WAIT_POLICY: &str = "OMP_WAIT_POLICY";

/// The log level of libtorch's profiler on standard error. The profiler always looks for GPUs, and
/// without a driver reports that as an error.
const PROFILER_LOG_LEVEL: &str = "KINETO_LOG_LEVEL";
/// The level above errors.
const SILENT: &str = "5";
/// The folder with information about NVIDIA's driver.
const GPU_DRIVER: &str = "/proc/driver/nvidia";

/// Runs a program on its command line, and reports its failure.
pub(super) fn program(body: fn(Vec<String>, bool) -> Result<(), Failure>) -> ExitCode {
    let color = telemetry::colors(&io::stderr());
    storage::set_observer(telemetry::notice);
    python::set_observer(telemetry::notice);
    // A mixture reads at least one file of each of its tasks, which may be hundreds, so raise the limit.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    match body(env::args().collect(), color) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(color),
    }
}

/// Runs the program `gimlet`.
pub(super) fn run(args: Vec<String>, color: bool) -> Result<(), Failure> {
    // Read once: `gimlet-torch` must see the checked flags, and a flag file may be a pipe.
    let args = expand_flag_files(args).map_err(Failure::Usage)?;
    match without_torch(&args, color)? {
        None => Ok(()),
        Some(Command::Doctor(doctor)) => doctor::diagnose(&args, &doctor, color),
        Some(_) => Err(hand_over(torch_command()?, &args)),
    }
}

/// Does the work that needs no libtorch. Returns the command if other work is left.
pub(super) fn without_torch(args: &[String], color: bool) -> Result<Option<Command>, Failure> {
    let command = parse(args.to_vec())?.command;
    if let Some(done) = tools::run(&command, color) {
        done?;
        let is_verified = matches!(&command, Command::Checkpoint(args) if args.is_verified());
        return Ok(is_verified.then_some(command));
    }
    let is_done = match &command {
        Command::Doctor(doctor) => doctor::without_torch(doctor, color)?,
        Command::Bench(bench) => bench::without_torch(bench, color)?,
        Command::Launch(args) => {
            launch::launch(args, color)?;
            true
        }
        Command::Model(command) => {
            command.check(color, launch::num_processes(command)?)?;
            launch::on_every_device(command, args)?
        }
        command => match command.foreign() {
            Some(run) => run_foreign(run, args, color)?,
            None => false,
        },
    };
    Ok((!is_done).then_some(command))
}

/// Does the part of another project's command that needs no libtorch. Returns whether nothing is left.
fn run_foreign(run: &dyn ForeignCommand, args: &[String], color: bool) -> Result<bool, Failure> {
    let num_processes = launch::num_sharing(run)?;
    let translated = run.translated(num_processes, color)?;
    let is_first = launch::is_first()?;
    if is_first {
        translated.announce()?;
    }
    let Translated { command, record, .. } = translated;
    if run.prints_gin() {
        return if is_first { write(&command.print_gin(color)?).map(|()| true) } else { Ok(true) };
    }
    let num_checked =
        if run.uses_every_gpu() { launch::num_processes(&command)? } else { num_processes };
    command.check(color, num_checked)?;
    if is_first {
        record.write()?;
    }
    Ok(run.uses_every_gpu() && launch::on_every_device(&command, args)?)
}

/// Replaces this process by a program that loads libtorch, with the settings that libraries read when
/// they are loaded. Returns only if that fails.
pub(super) fn hand_over(mut command: process::Command, args: &[String]) -> Failure {
    // Set for the new program, which has no threads yet.
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
    // A link's name may be the command.
    let error = command.arg0(&args[0]).args(&args[1..]).exec();
    let message = format!("cannot start {}", command.get_program().display());
    Failure::World(anyhow!(error).context(message))
}
