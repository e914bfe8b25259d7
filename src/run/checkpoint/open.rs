//! Opens checkpoints for tools, with errors that name the remedy.

use anyhow::anyhow;

use super::super::failure::Failure;
use crate::checkpoint::{CheckpointError, Stored, chosen};
use crate::models::open;
use crate::storage::{Path, StorageError};
use crate::telemetry::notice;

/// Converts an error to a mistake of the user's or another fault.
pub fn failure(error: CheckpointError) -> Failure {
    if error.is_users() { Failure::usage(error) } else { Failure::world(error) }
}

/// The same for an error of storage.
pub fn storage_failure(error: StorageError) -> Failure {
    failure(error.into())
}

/// Parses a path among the arguments.
pub fn parse_path(text: &str) -> Result<Path, Failure> {
    Path::parse(text).map_err(storage_failure)
}

/// Parses a path that may name one of a folder's checkpoints, as `DIR:best` does, and tells which it is.
pub fn parse_checkpoint(text: &str) -> Result<Path, Failure> {
    let path = parse_path(text)?;
    let named = chosen(&path).map_err(failure)?;
    if named != path {
        notice(&format!("taking {named}"));
    }
    Ok(named)
}

/// Opens the checkpoint at a path; the error for a path with several lists them.
pub(super) fn open_at(text: &str) -> Result<Box<dyn Stored>, Failure> {
    let path = parse_path(text)?;
    open(&path).map_err(|error| match error {
        CheckpointError::NotACheckpoint { path, reason } => {
            // Commands have no modes; the list of the folder is the most useful hint.
            let reason = reason.replace(", or use mode = 'latest'", "");
            Failure::usage(anyhow!(
                "`{path}` is not a checkpoint: {reason}; see `gimlet checkpoint ls`"
            ))
        }
        other => failure(other),
    })
}
