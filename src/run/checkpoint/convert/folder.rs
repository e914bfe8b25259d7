//! Converts each checkpoint of a folder, one after another.

use anyhow::anyhow;

use super::args::{ConvertArgs, TargetFormat};
use super::{Conversion, convert};
use crate::checkpoint::{CheckpointError, Condition, Format, Listed, list};
use crate::models::{HUGGING_FACE, open};
use crate::run::checkpoint::open::{failure, storage_failure};
use crate::run::failure::Failure;
use crate::storage::{Path, StorageError};
use crate::telemetry::notice;

pub(super) fn convert_all(
    conversion: &Conversion<'_>,
    all: &[Listed],
    to: &Path,
) -> Result<(), Failure> {
    let args = conversion.args;
    let mut num_left_out = 0;
    for one in all {
        let left_out = match (&one.condition, one.step) {
            (Condition::Whole, Some(0)) if args.format() == TargetFormat::Trainer => {
                notice(&format!("{}: left out, a Trainer saves after the first update", one.path));
                continue;
            }
            (Condition::Whole, Some(step)) => {
                match convert_listed(conversion, one, &args.format().place(to, step)) {
                    Ok(()) => continue,
                    // The other checkpoints may still be whole.
                    Err(Stop::Damaged(error)) => Condition::Damaged(reason(error)),
                    Err(Stop::Failed(failure)) => return Err(failure),
                }
            }
            (condition, _) => condition.clone(),
        };
        num_left_out += usize::from(left_out != Condition::HalfWritten);
        notice(&format!("{}: left out, it is {}", one.path, why(&left_out)));
    }
    match num_left_out {
        0 => Ok(()),
        count => Err(Failure::world(anyhow!(
            "{count} of {} checkpoints were left out; see `gimlet checkpoint verify {}`",
            all.len(),
            args.from
        ))),
    }
}

/// Converts one checkpoint of a folder, unless an earlier run has done so.
fn convert_listed(conversion: &Conversion<'_>, one: &Listed, target: &Path) -> Result<(), Stop> {
    let args = conversion.args;
    if is_there(args, target)? {
        args.format().settle(target)?;
        notice(&format!("{target}: left as it is, it is there already"));
        return Ok(());
    }
    match open(&one.path) {
        Err(CheckpointError::Storage(error)) if error.is_not_found() => {
            notice(&format!("{}: left out, it was deleted in the meantime", one.path));
            Ok(())
        }
        stored => convert(conversion, stored?, target),
    }
}

/// The reason why a checkpoint was not converted.
pub(super) enum Stop {
    /// It is damaged; others may be whole.
    Damaged(CheckpointError),
    /// Any other failure.
    Failed(Failure),
}

impl From<CheckpointError> for Stop {
    fn from(error: CheckpointError) -> Self {
        if error.is_damage() { Self::Damaged(error) } else { Self::Failed(failure(error)) }
    }
}

impl From<StorageError> for Stop {
    fn from(error: StorageError) -> Self {
        Self::Failed(storage_failure(error))
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Stop> for Failure {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Damaged(error) => failure(error),
            Stop::Failed(failure) => failure,
        }
    }
}

/// Describes the damage, without the name of the checkpoint.
fn reason(error: CheckpointError) -> String {
    match error {
        CheckpointError::Damaged { reason, .. } => reason,
        other => other.to_string(),
    }
}

fn why(condition: &Condition) -> String {
    match condition {
        Condition::Whole => "of no step".to_string(),
        Condition::HalfWritten => "half-written".to_string(),
        Condition::Damaged(reason) => format!("damaged: {reason}"),
        Condition::Unreadable(reason) => format!("not readable: {reason}"),
    }
}

/// Whether an earlier conversion has written this target; a damaged target is written again.
///
/// # Errors
/// The target is a checkpoint of another format.
fn is_there(args: &ConvertArgs, target: &Path) -> Result<bool, Failure> {
    let format = args.format();
    if !format.is_of_a_step() && format.last(target).exists().map_err(storage_failure)? {
        return Ok(true);
    }
    let is_begun = [target, &format.last(target)]
        .iter()
        .try_fold(false, |found, path| path.exists().map(|exists| found || exists));
    if !is_begun.map_err(storage_failure)? {
        return Ok(false);
    }
    let found = list(target, HUGGING_FACE).map_err(failure)?.into_iter().next();
    let is_other = |found: Format| found != format.recognized();
    if found.as_ref().and_then(|one| one.format).is_some_and(is_other) {
        return Err(Failure::usage(anyhow!(
            "`{target}` is a checkpoint of another format; remove it, or name another TO"
        )));
    }
    let is_whole = found.is_some_and(|one| one.condition == Condition::Whole);
    Ok(format.is_of_a_step() && is_whole)
}
