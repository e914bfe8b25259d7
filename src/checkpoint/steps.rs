//! Lists the checkpoints of a folder by step.

use std::collections::BTreeMap;

use super::error::CheckpointError;
use super::marks::{
    CHECKPOINT_FILE, TRAINER_FILE, TRAINER_SUFFIX, has_finished_orbax, step_of, step_of_trainer,
};
use gimlet_storage::Path;

/// The steps of all checkpoints that were committed, ascending; none for a missing folder.
pub fn list_steps(model_dir: &Path) -> Result<Vec<u64>, CheckpointError> {
    Ok(committed(model_dir)?.into_keys().collect())
}

/// The checkpoints that were committed, by step; none for a missing folder.
pub fn committed(model_dir: &Path) -> Result<BTreeMap<u64, Path>, CheckpointError> {
    let mut found = BTreeMap::new();
    for (step, path) in named(model_dir)? {
        if is_committed(&path)? {
            found.insert(step, path);
        }
    }
    Ok(found)
}

/// Whether the checkpoint is complete according to its marks; in a store this usually costs one
/// request.
fn is_committed(path: &Path) -> Result<bool, CheckpointError> {
    if path.join(CHECKPOINT_FILE).exists()? || has_finished_orbax(path)? {
        return Ok(true);
    }
    // A plain file is a Trainer's, or may be a flax checkpoint; a folder without marks is unfinished.
    Ok(is_of_accelerate(path)? || (!path.is_dir()? && path.exists()?))
}

/// The paths with the names of checkpoints, committed or not, by step: `checkpoint_N`, and those of a Trainer. Of one step
/// the former counts.
pub(super) fn named(model_dir: &Path) -> Result<BTreeMap<u64, Path>, CheckpointError> {
    let entries = match model_dir.list() {
        Err(error) if error.is_not_found() => return Ok(BTreeMap::new()),
        other => other?,
    };
    let mut found = BTreeMap::new();
    for entry in &entries {
        let Some(step) = step_of_trainer(entry.file_name()) else { continue };
        let is_file = entry.file_name().ends_with(TRAINER_SUFFIX);
        if is_file || is_of_accelerate(entry)? {
            found.insert(step, entry.clone());
        }
    }
    found.extend(entries.into_iter().filter_map(|entry| Some((step_of(&entry)?, entry))));
    Ok(found)
}

/// Whether a folder is a checkpoint that a Trainer has saved with Accelerate.
fn is_of_accelerate(dir: &Path) -> Result<bool, CheckpointError> {
    Ok(step_of_trainer(dir.file_name()).is_some() && dir.join(TRAINER_FILE).exists()?)
}
