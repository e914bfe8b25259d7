//! `gimlet checkpoint verify`: reads everything and names what is damaged.

use clap::Args;
use serde_json::{Value, json};

use crate::checkpoint::{CheckpointError, Condition, Listed, list, open};
use crate::run::failure::Failure;
use crate::run::output::write;
use crate::telemetry::notice;

use super::{Meter, failure, parse_path, size};

/// Flags of `gimlet checkpoint verify`.
#[derive(Args, Debug)]
#[command(
    after_help = "Ends with status 0 if everything is whole, 1 if something is damaged, 2 if \
    there is nothing to verify.\nGimlet's checkpoints hold checksums of every file; of others every array \
    is read, and their\nformat tells what it can."
)]
pub struct VerifyArgs {
    /// Checkpoints, or folders of them.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,
    /// Print a JSON list, a checkpoint an entry.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &VerifyArgs) -> Result<(), Failure> {
    let mut entries = Vec::new();
    let mut is_whole = true;
    for text in &args.paths {
        for one in checkpoints(text)? {
            let damages = damages(&one)?;
            is_whole &= damages.is_empty();
            match args.json {
                true => entries.push(json!({
                    "path": one.path.to_string(),
                    "whole": damages.is_empty(),
                    "damages": damages,
                })),
                false => write(&report(&one, &damages))?,
            }
        }
    }
    if args.json {
        write(&format!("{:#}\n", Value::Array(entries)))?;
    }
    if is_whole { Ok(()) } else { Err(Failure::Said) }
}

/// What is to be verified at a path.
fn checkpoints(text: &str) -> Result<Vec<Listed>, Failure> {
    let path = parse_path(text)?;
    let listed = list(&path).map_err(failure)?;
    let (half_written, finished): (Vec<Listed>, Vec<Listed>) =
        listed.into_iter().partition(|one| {
            one.condition == Condition::HalfWritten && one.path.file_name().contains("tmp")
        });
    for one in &half_written {
        notice(&format!("{}: left out, it is half-written", one.path));
    }
    if finished.is_empty() {
        // The error of opening says what was found, what was expected and what to do.
        let stored = open(&path).map_err(failure)?;
        return list(stored.path()).map_err(failure);
    }
    Ok(finished)
}

/// What is damaged in one checkpoint.
fn damages(one: &Listed) -> Result<Vec<String>, Failure> {
    let mut meter = Meter::new(&format!("verifying {}", one.path), None);
    let found = match open(&one.path) {
        Ok(stored) => stored.damages(&mut |bytes| meter.add(bytes)),
        Err(error) if error.is_damage() => Ok(vec![error]),
        Err(error) => Err(error),
    };
    let mut reasons: Vec<String> = found.map_err(failure)?.into_iter().map(reason).collect();
    reasons.dedup();
    Ok(reasons)
}

fn reason(error: CheckpointError) -> String {
    match error {
        CheckpointError::Damaged { reason, .. } => reason,
        other => other.to_string(),
    }
}

fn report(one: &Listed, damages: &[String]) -> String {
    match damages.len() {
        0 => format!("{}: whole, {} in {} files\n", one.path, size(one.bytes), one.num_files),
        count => {
            let lines: Vec<String> = damages.iter().map(|reason| format!("  {reason}\n")).collect();
            format!("{}: {count} damaged\n{}", one.path, lines.concat())
        }
    }
}
