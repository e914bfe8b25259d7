//! Finds the checkpoints of a folder that a restore mode asks for.

use std::fmt;

use super::chosen::chosen;
use super::error::CheckpointError;
use super::foreign::index_of;
use super::format::Format;
use super::marks::{CHECKPOINT_FILE, is_half_written_orbax, step_of_bundle};
use super::names::hugging_face::Families;
use super::open::{is_marked, open, recognize};
use super::steps::{committed, list_steps, named};
use super::stored::Stored;
use super::unfinished::is_unfinished;
use gimlet_storage::{Path, StorageError};

/// Message for a single checkpoint when a mode needs a folder of checkpoints.
const ONE_CHECKPOINT: &str = "it is one checkpoint; use mode = 'specific'";

/// Returns the newest committed checkpoint, without further checks: restore mode 'latest'. `DIR:best`, `DIR:last` and `DIR:STEP`
/// are what they name in any mode.
///
/// # Errors
/// The path is not a folder, or is itself a checkpoint: starting from scratch would be a surprise.
pub fn latest(folder: &Path) -> Result<Option<Path>, CheckpointError> {
    let named = chosen(folder)?;
    if named != *folder {
        return Ok(Some(named));
    }
    if !folder.is_dir()? {
        return refused(folder, "mode = 'latest' needs an existing folder");
    }
    if let Some((_, newest)) = committed(folder)?.pop_last() {
        return Ok(Some(newest));
    }
    match recognize(folder)? {
        // A folder of TensorFlow checkpoints has a file that names the newest.
        Format::MeshTensorFlow => Ok(Some(folder.clone())),
        // A folder that was copied without that file may still hold checkpoints.
        Format::T5x if !folder.join(CHECKPOINT_FILE).exists()? => {
            Ok(tensorflow_checkpoints(folder)?.pop().map(|(_, prefix)| prefix))
        }
        _ => refused(folder, ONE_CHECKPOINT),
    }
}

/// Returns every committed checkpoint by step, without further checks: restore mode 'all'. The list
/// may be empty.
///
/// # Errors
/// The path is not a folder, or is itself a checkpoint.
pub fn every(folder: &Path) -> Result<Vec<Path>, CheckpointError> {
    let named = chosen(folder)?;
    if named != *folder {
        return Ok(vec![named]);
    }
    if !folder.is_dir()? {
        return refused(folder, "mode = 'all' needs an existing folder");
    }
    let own = committed(folder)?;
    if !own.is_empty() {
        return Ok(own.into_values().collect());
    }
    let tensorflow = tensorflow_checkpoints(folder)?;
    if !tensorflow.is_empty() {
        return Ok(tensorflow.into_iter().map(|(_, prefix)| prefix).collect());
    }
    if is_marked(folder)? {
        return refused(folder, ONE_CHECKPOINT);
    }
    Ok(Vec::new())
}

fn refused<T>(folder: &Path, reason: &str) -> Result<T, CheckpointError> {
    let (path, reason) = (folder.to_string(), reason.to_string());
    Err(CheckpointError::NotAFolder { path, reason })
}

/// The prefixes `model.ckpt-N` of TensorFlow checkpoints in a folder, by step.
fn tensorflow_checkpoints(folder: &Path) -> Result<Vec<(u64, Path)>, CheckpointError> {
    let mut found = Vec::new();
    for entry in folder.list()? {
        let Some(prefix) = entry.file_name().strip_suffix(".index") else { continue };
        found.extend(step_of_bundle(prefix).map(|step| (step, folder.join(prefix))));
    }
    found.sort_by_key(|(step, _)| *step);
    Ok(found)
}

/// A damaged checkpoint that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The checkpoint.
    pub path: Path,
    /// Description of the damage.
    pub reason: String,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; falling back to the checkpoint before it", self.reason)
    }
}

/// The checkpoints from which a run in its MODEL_DIR continues, by step: those named `checkpoint_N` or `model_N.pth`,
/// committed or not; in a folder without any, those that Mesh TensorFlow's T5 has left there.
fn resumable(model_dir: &Path) -> Result<Vec<(u64, Path)>, CheckpointError> {
    let own = named(model_dir)?;
    if own.is_empty() && model_dir.is_dir()? {
        return tensorflow_checkpoints(model_dir);
    }
    Ok(own.into_iter().collect())
}

/// The steps of the committed checkpoints from which a run in its MODEL_DIR continues, ascending.
///
/// # Errors
/// The folder cannot be read.
pub fn resumable_steps(model_dir: &Path) -> Result<Vec<u64>, CheckpointError> {
    let steps = list_steps(model_dir)?;
    if steps.is_empty() && named(model_dir)?.is_empty() {
        return Ok(resumable(model_dir)?.into_iter().map(|(step, _)| step).collect());
    }
    Ok(steps)
}

/// Calls `restore` for the newest checkpoint, or for older ones while it reports damage, and
/// returns its result; damaged checkpoints are added to `skipped`, newest first. `None` when there
/// are no checkpoints.
///
/// # Errors
/// Every checkpoint is damaged; or an error that is not damage.
pub fn restore_newest<T, E: From<CheckpointError>>(
    (model_dir, families): (&Path, Families),
    skipped: &mut Vec<Skipped>,
    mut restore: impl FnMut(Box<dyn Stored>) -> Result<T, E>,
    damage: impl Fn(&E) -> Option<String>,
) -> Result<Option<T>, E> {
    for (_, path) in resumable(model_dir)?.into_iter().rev() {
        let opened = open(&path, families);
        let is_there = || Ok(path.exists()? || index_of(&path).exists()?);
        if opened.is_err() && !is_there().map_err(|error: StorageError| E::from(error.into()))? {
            // A link without a target, or a checkpoint that was removed after the listing.
            continue;
        }
        let may_be_orbax = opened.as_ref().map_or(true, |it| it.format() == Format::Orbax);
        if may_be_orbax && is_half_written_orbax(&path)? {
            // Orbax will finish or remove this checkpoint.
            continue;
        }
        match opened.map_err(E::from).and_then(&mut restore) {
            Ok(restored) => return Ok(Some(restored)),
            Err(error) => match damage(&error) {
                // The checkpoint is not damaged, but was never finished: the next run removes it.
                Some(_) if is_unfinished(&path)? => {}
                Some(reason) => skipped.push(Skipped { path, reason }),
                None => return Err(error),
            },
        }
    }
    if skipped.is_empty() {
        return Ok(None);
    }
    let reasons: Vec<_> = skipped.iter().map(|skipped| skipped.reason.clone()).collect();
    let path = model_dir.to_string();
    Err(CheckpointError::AllDamaged { path, reasons: reasons.join("; ") }.into())
}
