//! The lines of a dry run that `gimlet train` does not print: learning rates, micro-batches, seeds, the files of each
//! process, and the traps of t5-experiments on the way.

use std::fmt::Write;

use crate::dialects::t5_experiments::{Arguments, Facts, shards_of, traps};
use crate::run::commands::TrainArgs;
use crate::run::configure::configure;
use crate::run::failure::Failure;
use crate::run::library::Library;
use crate::train::Train;

use super::record::has_git;

/// Describes the run.
///
/// # Errors
/// Every mistake in the configuration.
pub(super) fn description(
    arguments: &Arguments,
    facts: &Facts,
    train: &TrainArgs,
    color: bool,
) -> Result<String, Failure> {
    let spec = configure::<Train>(&train.gin, &Library, color)?.spec;
    let parts = spec.trainer_cls.0.trainer().num_microbatches();
    let processes = facts.num_processes;
    let rows = spec.train_dataset_cfg.batch_size / parts / processes;
    let seed = spec.random_seed.map_or("drawn".to_string(), |seed| seed.to_string());
    let held_out = spec.train_eval_dataset_cfg.as_ref().and_then(|data| data.seed);
    let held_out = held_out.map(|seed| format!(", validation {seed}")).unwrap_or_default();
    let last = spec.total_steps;
    let mut lines = vec![
        ("updates".to_string(), format!("{} in steps 0 to {last}", last + 1)),
        ("lr".to_string(), learning_rates(arguments, &spec)?),
        ("microbatches".to_string(), format!("{parts} of {rows} rows for each process")),
        ("seeds".to_string(), format!("{seed}{held_out}")),
    ];
    let files = |rank: usize| (format!("rank {rank}"), shards_of(rank, facts).join(", "));
    if facts.reads_shards() {
        lines.extend((0..processes).map(files));
    }
    let met = traps(arguments, facts, has_git());
    lines.extend(met.into_iter().map(|(trap, text)| (format!("trap {trap}"), text.to_string())));
    let mut out = String::new();
    for (name, text) in lines {
        let _ = writeln!(out, "{name:<12} {text}");
    }
    Ok(out)
}

/// Returns the learning rates of the first step, of the first one after the warm-up, and of the last one.
fn learning_rates(arguments: &Arguments, spec: &Train) -> Result<String, Failure> {
    if arguments.text("optimizer").is_some_and(|name| name.ends_with("Adafactor"))
        && arguments.adafactor("relative_step")
    {
        return Ok("relative to the step, by Adafactor's own rule".to_string());
    }
    let schedule = spec.trainer_cls.0.trainer().learning_rate_fn.build().map_err(Failure::usage)?;
    let last = spec.total_steps as i64;
    let warmed_up = arguments.int("num_warmup_steps").unwrap_or_default() as i64;
    let mut steps = vec![0, warmed_up.clamp(0, last), last];
    steps.dedup();
    let rate = |step: &i64| format!("{:?} at step {step}", schedule.at(*step));
    Ok(steps.iter().map(rate).collect::<Vec<_>>().join(", "))
}
