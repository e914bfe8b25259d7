//! The checkpoint with which a new run begins.

use crate::checkpoint::{CheckpointError, RestoreCheckpointConfig, RestoreMode, Stored, latest};
use crate::models::{Model, open};
use crate::session::described::ModelFacts;
use crate::session::named_checkpoints::named_checkpoints;
use crate::storage::Path;
use crate::telemetry;

/// Opens the checkpoint that the configuration names, if any.
///
/// # Errors
/// The checkpoint is missing, the path holds none, or the file beside it describes another model.
pub fn initial(
    config: &RestoreCheckpointConfig,
    model: &Model,
) -> Result<Option<Box<dyn Stored>>, CheckpointError> {
    let stored = named(config)?;
    if let Some(stored) = &stored {
        ModelFacts::of(model).check(stored.as_ref())?;
    }
    Ok(stored)
}

fn named(config: &RestoreCheckpointConfig) -> Result<Option<Box<dyn Stored>>, CheckpointError> {
    // `check` has ensured that there is at most one.
    let Some(path) = config.path.0.first() else { return Ok(None) };
    let path = Path::parse(path)?;
    if config.mode == RestoreMode::Specific {
        return open(&path).map(Some);
    }
    let found = match &config.nearest_steps {
        Some(_) => named_checkpoints(config)?.pop(),
        None => latest(&path)?,
    };
    match found {
        Some(newest) => open(&newest).map(Some),
        None => {
            telemetry::notice_once(&format!("no checkpoint in {path}: starting from scratch"));
            Ok(None)
        }
    }
}
