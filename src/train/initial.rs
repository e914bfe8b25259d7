//! The checkpoint that a new run begins with.

use crate::checkpoint::{
    CheckpointError, RestoreCheckpointConfig, RestoreMode, Stored, latest, open,
};
use crate::storage::Path;
use crate::telemetry;

/// Opens the checkpoint that the configuration names, if it names one.
///
/// # Errors
/// It is missing, or not a checkpoint.
pub fn initial(
    config: &RestoreCheckpointConfig,
) -> Result<Option<Box<dyn Stored>>, CheckpointError> {
    // `check` has seen that there is at most one.
    let Some(path) = config.path.0.first() else { return Ok(None) };
    let path = Path::parse(path)?;
    if config.mode == RestoreMode::Specific {
        return open(&path).map(Some);
    }
    match latest(&path)? {
        Some(newest) => open(&newest).map(Some),
        None => {
            telemetry::notice(&format!("no checkpoint in {path}: starting from scratch"));
            Ok(None)
        }
    }
}
