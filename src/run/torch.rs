//! The commands that need tensors: the program `gimlet-torch`, and programs that run every command.

use std::env;
use std::process::{self, ExitCode};

use crate::telemetry::{Verbosity, set_verbosity};

use super::bench;
use super::cli::{Command, CommandLine, expand_flag_files, parse};
use super::doctor;
use super::failure::Failure;
use super::gimlet_program::{WAIT_POLICY, hand_over, program, without_torch};
use super::interrupt;
use super::launch::num_sharing;
use super::program::Cli;
use super::tools;

impl Cli {
    /// Runs the command line in this program.
    pub fn run(self) -> ExitCode {
        program(run_all)
    }

    /// Runs the program `gimlet-torch`, whose command line `gimlet` has checked.
    pub fn run_torch(self) -> ExitCode {
        program(run)
    }
}

fn run_all(args: Vec<String>, color: bool) -> Result<(), Failure> {
    let args = expand_flag_files(args).map_err(Failure::Usage)?;
    if without_torch(&args, color)?.is_none() {
        return Ok(());
    }
    // This program has loaded libtorch, which has read its settings. So start again with ours.
    if env::var_os(WAIT_POLICY).is_none() {
        let own = env::current_exe().map_err(Failure::world)?;
        return Err(hand_over(process::Command::new(own), &args));
    }
    run(args, color)
}

/// Runs a command that needs libtorch.
fn run(args: Vec<String>, color: bool) -> Result<(), Failure> {
    let CommandLine { command, output } = parse(args)?;
    let verbosity = output.verbosity();
    // `gimlet` has already printed notices about the configuration, which is read a second time
    // here.
    set_verbosity(verbosity.min(Verbosity::Normal));
    if let Command::Model(command) = command {
        return command.run(verbosity, color);
    }
    if let Some(run) = command.foreign() {
        return run.translated(num_sharing(run)?, color)?.command.run(verbosity, color);
    }
    // Other commands end by the system's default action.
    interrupt::release().map_err(Failure::world)?;
    match &command {
        Command::Bench(args) => bench::run(args, color),
        Command::Doctor(args) => doctor::tell(args, color),
        // The conversion itself needs no libtorch, and is done.
        Command::Checkpoint(args) if args.is_verified() => args.verify(),
        command => tools::run(command, color).expect("every other command is a tool"),
    }
}
