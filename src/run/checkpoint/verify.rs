//! `gimlet checkpoint verify`: reads everything and names the damaged files.

use clap::Args;
use serde_json::{Value, json};

use crate::checkpoint::{CheckpointError, Listed, list};
use crate::models::{HUGGING_FACE, open};
use crate::run::failure::Failure;
use crate::run::output::write;
use crate::telemetry::{counted, notice};

use super::arrays::size;
use super::meter::Meter;
use super::open::{failure, parse_checkpoint};

/// Flags of `gimlet checkpoint verify`.
#[derive(Args, Debug)]
#[command(
    after_help = "Ends with status 0 if everything is whole, 1 if something is damaged or cannot \
    be read, 2 if there is nothing to verify.\nGimlet's checkpoints hold checksums of every file; in others every array \
    is read, and checked\nas far as their format has checksums."
)]
pub struct VerifyArgs {
    /// Checkpoints, or folders of them.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,
    /// Print a JSON list with an entry for each checkpoint.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &VerifyArgs) -> Result<(), Failure> {
    let mut entries = Vec::new();
    let mut is_whole = true;
    for text in &args.paths {
        for one in checkpoints(text)? {
            let found = match damages(&one) {
                Err(CheckpointError::Storage(error)) if error.is_not_found() => {
                    notice(&format!("{}: left out, it was deleted in the meantime", one.path));
                    continue;
                }
                found => found.map_err(|error| error.to_string()),
            };
            is_whole &= found.as_ref().is_ok_and(Vec::is_empty);
            match args.json {
                true => entries.push(as_json(&one, &found)),
                false => write(&report(&one, &found))?,
            }
        }
    }
    if args.json {
        write(&format!("{:#}\n", Value::Array(entries)))?;
    }
    if is_whole { Ok(()) } else { Err(Failure::Said) }
}

/// Returns the checkpoints to verify at a path.
fn checkpoints(text: &str) -> Result<Vec<Listed>, Failure> {
    let path = parse_checkpoint(text)?;
    let listed = list(&path, HUGGING_FACE).map_err(failure)?;
    let mut finished = Vec::new();
    for one in listed {
        match one.is_unfinished().map_err(failure)? {
            true => notice(&format!("{}: left out, it is half-written", one.path)),
            false => finished.push(one),
        }
    }
    if finished.is_empty() {
        // The error of opening names what was found and expected, and the remedy.
        let stored = open(&path).map_err(failure)?;
        return list(stored.path(), HUGGING_FACE).map_err(failure);
    }
    Ok(finished)
}

/// Returns the damages of one checkpoint.
fn damages(one: &Listed) -> Result<Vec<String>, CheckpointError> {
    let mut meter = Meter::new(&format!("verifying {}", one.path), None);
    let found = match open(&one.path) {
        Ok(stored) => stored.damages(&mut |bytes| meter.add(bytes)),
        Err(error) if error.is_damage() => Ok(vec![error]),
        Err(error) => Err(error),
    };
    let mut reasons: Vec<String> = found?.into_iter().map(reason).collect();
    reasons.dedup();
    Ok(reasons)
}

fn reason(error: CheckpointError) -> String {
    match error {
        CheckpointError::Damaged { reason, .. } => reason,
        other => other.to_string(),
    }
}

/// The damages, or the reason why they cannot be found.
type Found = Result<Vec<String>, String>;

fn as_json(one: &Listed, found: &Found) -> Value {
    let damages = found.as_ref().map_or(&[][..], |damages| damages);
    let mut entry = json!({
        "path": one.path.to_string(),
        "whole": found.as_ref().is_ok_and(Vec::is_empty),
        "damages": damages,
    });
    if let Err(reason) = found {
        entry["failed"] = json!(reason);
    }
    entry
}

fn report(one: &Listed, found: &Found) -> String {
    match found.as_ref().map(|damages| (damages.len(), damages)) {
        Err(reason) => format!("{}: not verified\n  {reason}\n", one.path),
        Ok((0, _)) => {
            let files = counted(one.num_files, "file");
            format!("{}: whole, {} in {files}\n", one.path, size(one.bytes))
        }
        Ok((count, damages)) => {
            let lines: Vec<String> = damages.iter().map(|reason| format!("  {reason}\n")).collect();
            format!("{}: {count} damaged\n{}", one.path, lines.concat())
        }
    }
}
