//! The checkpoints that a `RestoreCheckpointConfig` names.

use std::collections::BTreeSet;

use crate::checkpoint::{CheckpointError, RestoreCheckpointConfig, RestoreMode, every, latest};
use crate::storage::{Path, StorageError};

/// Returns the checkpoints that the mode selects: 'specific' the given paths; 'latest' the newest
/// of the first folder that has one; 'all' those of every folder, each once, by step.
///
/// # Errors
/// A path that does not fit the mode.
pub fn named_checkpoints(config: &RestoreCheckpointConfig) -> Result<Vec<Path>, CheckpointError> {
    let given = config.path.0.iter().map(|path| Path::parse(path));
    let given = given.collect::<Result<Vec<Path>, StorageError>>()?;
    match (config.mode, &config.nearest_steps) {
        (RestoreMode::Specific, _) => Ok(given),
        (RestoreMode::Latest, None) => Ok(vec![newest(&given)?]),
        (RestoreMode::Latest, Some(steps)) => {
            let last = steps.nearest(all(&given)?).pop();
            last.map(|path| vec![path]).ok_or_else(|| no_checkpoint(&given))
        }
        (RestoreMode::All, None) => Ok(all(&given)?.into_iter().map(|(_, path)| path).collect()),
        (RestoreMode::All, Some(steps)) => {
            let paths = steps.nearest(all(&given)?);
            if paths.is_empty() { Err(no_checkpoint(&given)) } else { Ok(paths) }
        }
    }
}

/// Returns the checkpoints of folders, each once, by step.
fn all(folders: &[Path]) -> Result<Vec<(u64, Path)>, CheckpointError> {
    let folders = folders.iter().map(every).collect::<Result<Vec<_>, _>>()?;
    let mut seen = BTreeSet::new();
    let mut paths = folders.concat();
    paths.retain(|path| seen.insert(place(path)));
    let mut paths: Vec<(u64, Path)> =
        paths.into_iter().map(|path| (step_in(&path).unwrap_or(0), path)).collect();
    paths.sort_by_key(|(step, _)| *step);
    Ok(paths)
}

/// Returns the step in which the path of a checkpoint ends: `checkpoint_N`, `model.ckpt-N`, or any
/// other (T5X `eval.py`).
pub fn step_in(checkpoint: &Path) -> Option<u64> {
    number_at_end(checkpoint.as_str())
}

/// Returns the number in which a text ends.
pub fn number_at_end(text: &str) -> Option<u64> {
    let rest = text.trim_end_matches(|letter: char| letter.is_ascii_digit());
    text[rest.len()..].parse().ok()
}

/// Returns the path under which the file system knows a file or folder, so that `a/../b` and `b` compare as equal; of a path in a
/// bucket, the path itself.
fn place(path: &Path) -> String {
    let real = path.local().ok().and_then(|local| local.canonicalize().ok());
    real.map_or_else(|| path.to_string(), |local| local.display().to_string())
}

fn newest(folders: &[Path]) -> Result<Path, CheckpointError> {
    for folder in folders {
        if let Some(newest) = latest(folder)? {
            return Ok(newest);
        }
    }
    Err(no_checkpoint(folders))
}

fn no_checkpoint(folders: &[Path]) -> CheckpointError {
    let names: Vec<&str> = folders.iter().map(Path::as_str).collect();
    CheckpointError::NotACheckpoint {
        path: names.join("`, `"),
        reason: "it holds no checkpoint, expected folders `checkpoint_N`".to_string(),
    }
}
