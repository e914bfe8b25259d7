//! The program `gimlet-torch`: the commands that need tensors.

use std::io;
use std::process::ExitCode;

use crate::storage::set_observer;
use crate::telemetry::{self, Verbosity, set_verbosity};

use super::bench;
use super::cli::{Cli, Command, parse};
use super::doctor;
use super::failure::Failure;
use super::interrupt;
use super::tools;

/// Runs `gimlet-torch` with its command line.
pub fn torch_main(args: impl Iterator<Item = String>) -> ExitCode {
    let color = telemetry::colors(&io::stderr());
    set_observer(telemetry::notice);
    match run(args.collect(), color) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(color),
    }
}

fn run(args: Vec<String>, color: bool) -> Result<(), Failure> {
    let Cli { command, output } = parse(args)?;
    let verbosity = output.verbosity();
    // `gimlet` has already printed notices about the configuration, which is read a second time
    // here.
    set_verbosity(verbosity.min(Verbosity::Normal));
    if let Command::Model(command) = command {
        return command.run(verbosity, color);
    }
    // Other commands end by the system's default action.
    interrupt::release().map_err(Failure::world)?;
    match &command {
        Command::Bench(args) => bench::run(args, color),
        Command::Doctor(_) => {
            print!("{}", doctor::report(&doctor::libtorch()));
            Ok(())
        }
        command => tools::run(command, color).expect("every other command is a tool"),
    }
}
