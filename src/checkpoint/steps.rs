//! Lists the checkpoints of a folder by step.

use super::error::CheckpointError;
use super::marks::{CHECKPOINT_FILE, checkpoint_dir, has_finished_orbax, step_of};
use gimlet_storage::Path;

/// The steps of all checkpoints that were committed, ascending; none for a missing folder.
pub fn list_steps(model_dir: &Path) -> Result<Vec<u64>, CheckpointError> {
    let mut steps = Vec::new();
    for step in named_steps(model_dir)? {
        let dir = checkpoint_dir(model_dir, step);
        if is_committed(&dir)? {
            steps.push(step);
        }
    }
    Ok(steps)
}

/// Whether the checkpoint is complete according to its marks; in a store this usually costs one
/// request.
fn is_committed(dir: &Path) -> Result<bool, CheckpointError> {
    if dir.join(CHECKPOINT_FILE).exists()? || has_finished_orbax(dir)? {
        return Ok(true);
    }
    // A plain file with this name may be a flax checkpoint; a folder without marks is unfinished.
    Ok(!dir.is_dir()? && dir.exists()?)
}

/// The steps of all names `checkpoint_N`, committed or not, ascending.
pub(super) fn named_steps(model_dir: &Path) -> Result<Vec<u64>, CheckpointError> {
    let entries = match model_dir.list() {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        other => other?,
    };
    let mut steps: Vec<u64> = entries.iter().filter_map(step_of).collect();
    steps.sort_unstable();
    steps.dedup();
    Ok(steps)
}
