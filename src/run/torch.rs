//! The program `gimlet-torch`: the commands that need tensors.

use std::io;
use std::process::ExitCode;

use anyhow::anyhow;
use tch::Device;

use crate::checkpoint::RestoreMode;
use crate::eval::{Evaluate, Evaluations, evaluate};
use crate::gin::config_str;
use crate::nn::cpu;
use crate::session::context::Context;
use crate::session::error::SessionError;
use crate::storage::{Takeover, set_observer};
use crate::telemetry::{self, Verbosity, set_verbosity};
use crate::train::{Outcome, Train, train};

use super::bench;
use super::cache::cache_command;
use super::cli::{Cli, Command, EvalArgs, TrainArgs, parse};
use super::configure::{Configured, configure, registry};
use super::doctor;
use super::failure::Failure;
use super::interrupt::{self, Interrupt};
use super::library::Library;
use super::shell::{completions_command, man_command};
use super::shims::shims_command;

/// Facts about this build: `gimlet --version` looks for them in the program's file.
#[used]
static BUILD: &str =
    concat!("\0gimlet-torch is built for libtorch ", env!("GIMLET_LIBTORCH"), "\0");

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
    if !matches!(command, Command::Train(_) | Command::Eval(_)) {
        // Other commands end by the system's default action.
        interrupt::release().map_err(Failure::world)?;
    }
    match command {
        Command::Train(args) => train_command(&args, verbosity, color),
        Command::Eval(args) => eval_command(&args, verbosity, color),
        Command::Bench(args) => bench::run(&args, color),
        Command::Cache(args) => cache_command(&args, color),
        Command::Doctor(_) => {
            print!("{}", doctor::report(&doctor::libtorch()));
            Ok(())
        }
        Command::Gin(command) => command.run(color),
        Command::Task(command) => command.run(color),
        Command::Vocab(command) => command.run(),
        Command::Checkpoint(command) => command.run(),
        Command::Shims(args) => shims_command(&args),
        Command::Completions(args) => completions_command(&args),
        Command::Man(args) => man_command(&args),
    }
}

fn train_command(args: &TrainArgs, verbosity: Verbosity, color: bool) -> Result<(), Failure> {
    let interrupt = Interrupt::listen().map_err(Failure::world)?;
    let configured = configure::<Train>(&args.gin, &Library, color)?;
    set_verbosity(verbosity);
    let takeover = Takeover::from(args.take_over);
    let run = |spec: &Train, context: &Context<'_>| train(spec, context, takeover);
    let outcome = in_context(&configured, &interrupt, run)?;
    say_how_it_ended(outcome, &configured.spec);
    match (outcome, interrupt.signal()) {
        (Outcome::Interrupted { .. }, Some(signal)) => Err(Failure::Interrupted(signal)),
        _ => Ok(()),
    }
}

fn eval_command(args: &EvalArgs, verbosity: Verbosity, color: bool) -> Result<(), Failure> {
    let interrupt = Interrupt::listen().map_err(Failure::world)?;
    let configured = configure::<Evaluate>(&args.gin, &Library, color)?;
    set_verbosity(verbosity);
    let takeover = Takeover::from(args.take_over);
    let run = |spec: &Evaluate, context: &Context<'_>| evaluate(spec, context, takeover);
    let evaluations = in_context(&configured, &interrupt, run)?;
    say_what_was_evaluated(&evaluations, &configured.spec);
    if let (true, Some(signal)) = (evaluations.is_interrupted, interrupt.signal()) {
        return Err(Failure::Interrupted(signal));
    }
    match &evaluations.damaged[..] {
        [] => Ok(()),
        damaged => Err(Failure::world(anyhow!("left out: {}", damaged.join("; ")))),
    }
}

/// Runs a spec on the available device, until it ends or a signal asks it to.
fn in_context<T, R>(
    configured: &Configured<T>,
    interrupt: &Interrupt,
    run: impl FnOnce(&T, &Context<'_>) -> Result<R, SessionError>,
) -> Result<R, Failure> {
    eprint!("{}", configured.warnings);
    if let Some(signal) = interrupt.signal() {
        telemetry::notice("interrupted before it began; nothing was written");
        return Err(Failure::Interrupted(signal));
    }
    cpu::prepare();
    let device = Device::cuda_if_available();
    telemetry::detail(&format!(
        "{}, device {device:?}, {} threads",
        BUILD.trim_matches('\0'),
        tch::get_num_threads()
    ));
    let context = Context {
        tasks: &configured.tasks,
        config_text: &config_str(&configured.config, &registry()),
        device,
        stop: interrupt.stop(),
    };
    run(&configured.spec, &context).map_err(Failure::from)
}

fn say_what_was_evaluated(evaluations: &Evaluations, spec: &Evaluate) {
    if evaluations.is_interrupted {
        let all = spec.restore_checkpoint_cfg.mode == RestoreMode::All;
        let left =
            if all { "the checkpoints that are left" } else { "that checkpoint from its start" };
        telemetry::notice(&format!("interrupted; the same command continues with {left}"));
    }
    let (checkpoints, output_dir) = (&spec.restore_checkpoint_cfg.path.0, &spec.output_dir);
    telemetry::notice(&match evaluations.count {
        0 => format!("no checkpoint of {} was evaluated", checkpoints.join(", ")),
        1 => format!("1 checkpoint evaluated; results are in {output_dir}"),
        count => format!("{count} checkpoints evaluated; results are in {output_dir}"),
    });
}

fn say_how_it_ended(outcome: Outcome, train: &Train) {
    telemetry::notice(&match outcome {
        Outcome::Finished { step } => format!("finished at step {step}"),
        Outcome::Stopped { step } => format!("stopped at step {step}"),
        Outcome::Interrupted { step } if train.checkpoint_cfg.save.is_none() => {
            format!("interrupted at step {step}; this run saves no checkpoints")
        }
        Outcome::Interrupted { step } if train.relative().is_some() => format!(
            "interrupted: step {step} is saved; the same command trains as many steps again from there, \
             since TRAIN_STEPS_RELATIVE counts from the start: give TRAIN_STEPS to end where this run would have ended"
        ),
        Outcome::Interrupted { step } => {
            format!("interrupted: step {step} is saved; the same command continues from there")
        }
    });
    telemetry::notice(&format!("checkpoints and logs are in {}", train.model_dir));
}

#[cfg(test)]
mod tests {
    use super::super::version::facts;
    use super::*;

    #[test]
    fn the_version_finds_what_this_build_is_for() {
        let found = facts(BUILD.as_bytes()).expect("it is there");
        assert!(found.starts_with("libtorch 2.11.0, "), "{found}");
    }
}
