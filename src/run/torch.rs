//! What `gimlet-torch` does: the commands that need tensors.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::anyhow;
use tch::Device;

use crate::checkpoint::RestoreMode;
use crate::gin::config_str;
use crate::nn::cpu;
use crate::storage::{Takeover, set_observer};
use crate::telemetry;
use crate::train::{Context, Evaluate, Evaluations, Outcome, Train, TrainError, evaluate, train};

use super::bench;
use super::cache::cache_command;
use super::cli::{Command, EvalArgs, TrainArgs};
use super::configure::{Configured, configure, registry};
use super::doctor;
use super::failure::Failure;
use super::front::parse;
use super::library::Library;

/// Runs `gimlet-torch` with its command line.
pub fn torch_main(args: impl Iterator<Item = String>) -> ExitCode {
    let color = io::stderr().is_terminal();
    set_observer(telemetry::notice);
    match run(args.collect(), color) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(color),
    }
}

fn run(args: Vec<String>, color: bool) -> Result<(), Failure> {
    match parse(args)?.command {
        Command::Train(args) => train_command(&args, color),
        Command::Eval(args) => eval_command(&args, color),
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
    }
}

fn train_command(args: &TrainArgs, color: bool) -> Result<(), Failure> {
    let configured = configure::<Train>(&args.gin, &Library, color)?;
    let takeover = Takeover::from(args.take_over);
    let outcome = in_context(&configured, |spec, context| train(spec, context, takeover))?;
    say_how_it_ended(outcome, &configured.spec);
    Ok(())
}

fn eval_command(args: &EvalArgs, color: bool) -> Result<(), Failure> {
    let configured = configure::<Evaluate>(&args.gin, &Library, color)?;
    let takeover = Takeover::from(args.take_over);
    let evaluations = in_context(&configured, |spec, context| evaluate(spec, context, takeover))?;
    say_what_was_evaluated(&evaluations, &configured.spec);
    let goes_on = configured.spec.restore_checkpoint_cfg.mode == RestoreMode::All;
    if evaluations.is_interrupted && !goes_on {
        return Err(Failure::world(anyhow!(
            "interrupted before the last checkpoint was evaluated"
        )));
    }
    match &evaluations.damaged[..] {
        [] => Ok(()),
        damaged => Err(Failure::world(anyhow!("left out: {}", damaged.join("; ")))),
    }
}

/// Runs a spec on the device that there is, until it ends or is asked to.
fn in_context<T, R>(
    configured: &Configured<T>,
    run: impl FnOnce(&T, &Context<'_>) -> Result<R, TrainError>,
) -> Result<R, Failure> {
    eprint!("{}", configured.warnings);
    cpu::prepare();
    let stop = stop_on_signals()?;
    let context = Context {
        tasks: &configured.tasks,
        config_text: &config_str(&configured.config, &registry()),
        device: Device::cuda_if_available(),
        stop: &stop,
    };
    run(&configured.spec, &context).map_err(Failure::from)
}

fn say_what_was_evaluated(evaluations: &Evaluations, spec: &Evaluate) {
    if evaluations.is_interrupted && spec.restore_checkpoint_cfg.mode == RestoreMode::All {
        let word = "interrupted; the same command goes on with the checkpoints that are left";
        telemetry::notice(word);
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
        Outcome::Interrupted { step } => {
            format!("interrupted: step {step} is saved; the same command goes on from there")
        }
    });
    telemetry::notice(&format!("checkpoints and logs are in {}", train.model_dir));
}

/// A flag that SIGTERM and SIGINT set; a second SIGINT ends the process at once.
fn stop_on_signals() -> Result<Arc<AtomicBool>, Failure> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    // Schedulers may repeat SIGTERM while the checkpoint is being written; only a person insists.
    let second = signal_hook::flag::register_conditional_shutdown(SIGINT, 130, stop.clone());
    second.map_err(Failure::world)?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, stop.clone()).map_err(Failure::world)?;
    }
    Ok(stop)
}
