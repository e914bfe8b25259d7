//! Lists the checkpoints of a folder, and finds the usable ones.

use std::fmt;

use super::error::CheckpointError;
use super::format::Format;
use super::native::CHECKPOINT_FILE;
use super::open::{has_finished_orbax, is_half_written_orbax, is_marked, open, recognize};
use super::stored::Stored;
use super::unfinished::is_unfinished;
use gimlet_storage::Path;

/// Prefix of the names of checkpoints.
const PREFIX: &str = "checkpoint_";

/// Prefix of the names of TensorFlow's checkpoints.
const BUNDLE_PREFIX: &str = "model.ckpt-";

/// Message for a single checkpoint when a mode needs a folder of checkpoints.
const ONE_CHECKPOINT: &str = "it is one checkpoint; use mode = 'specific'";

/// The folder of the checkpoint of a step.
pub fn checkpoint_dir(model_dir: &Path, step: u64) -> Path {
    model_dir.join(&format!("{PREFIX}{step}"))
}

/// The common prefix of the files of TensorFlow's checkpoint of a step.
pub fn bundle_prefix(folder: &Path, step: u64) -> Path {
    folder.join(&format!("{BUNDLE_PREFIX}{step}"))
}

/// The step in the name of a TensorFlow checkpoint: `model.ckpt-N`.
pub fn step_of_bundle(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(BUNDLE_PREFIX)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// The step in the name of a path.
pub fn step_of(path: &Path) -> Option<u64> {
    step_of_name(path.file_name())
}

/// The step in the name of a checkpoint; `None` for a name that Gimlet would not write, such as
/// `checkpoint_007`.
pub(super) fn step_of_name(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?;
    let step: u64 = digits.parse().ok()?;
    (step.to_string() == digits).then_some(step)
}

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

/// Returns the newest committed checkpoint, without further checks: restore mode 'latest'.
///
/// # Errors
/// The path is not a folder, or is itself a checkpoint: starting from scratch would be a surprise.
pub fn latest(folder: &Path) -> Result<Option<Path>, CheckpointError> {
    if !folder.is_dir()? {
        return refused(folder, "mode = 'latest' needs an existing folder");
    }
    if let Some(step) = list_steps(folder)?.last() {
        return Ok(Some(checkpoint_dir(folder, *step)));
    }
    match recognize(folder)? {
        // A folder of TensorFlow checkpoints has a file that names the newest.
        Format::MeshTensorFlow => Ok(Some(folder.clone())),
        // A folder that was copied without that file may still hold checkpoints.
        Format::T5x if !folder.join(CHECKPOINT_FILE).exists()? => {
            Ok(tensorflow_checkpoints(folder)?.pop())
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
    if !folder.is_dir()? {
        return refused(folder, "mode = 'all' needs an existing folder");
    }
    let steps = list_steps(folder)?;
    if !steps.is_empty() {
        return Ok(steps.into_iter().map(|step| checkpoint_dir(folder, step)).collect());
    }
    let tensorflow = tensorflow_checkpoints(folder)?;
    if !tensorflow.is_empty() {
        return Ok(tensorflow);
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
fn tensorflow_checkpoints(folder: &Path) -> Result<Vec<Path>, CheckpointError> {
    let mut found = Vec::new();
    for entry in folder.list()? {
        let Some(prefix) = entry.file_name().strip_suffix(".index") else { continue };
        found.extend(step_of_bundle(prefix).map(|step| (step, folder.join(prefix))));
    }
    found.sort_by_key(|(step, _)| *step);
    Ok(found.into_iter().map(|(_, prefix)| prefix).collect())
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

/// Calls `restore` for the newest checkpoint, or for older ones while it reports damage, and
/// returns its result; damaged checkpoints are added to `skipped`, newest first. `None` when there
/// are no checkpoints.
///
/// # Errors
/// Every checkpoint is damaged; or an error that is not damage.
pub fn restore_newest<T, E: From<CheckpointError>>(
    model_dir: &Path,
    skipped: &mut Vec<Skipped>,
    mut restore: impl FnMut(Box<dyn Stored>) -> Result<T, E>,
    damage: impl Fn(&E) -> Option<String>,
) -> Result<Option<T>, E> {
    for step in named_steps(model_dir)?.into_iter().rev() {
        let path = checkpoint_dir(model_dir, step);
        let opened = open(&path);
        if opened.is_err() && !path.exists().map_err(CheckpointError::from)? {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_names_tell_a_step() {
        let step = |name: &str| step_of(&Path::parse(&format!("dir/{name}")).unwrap());
        assert_eq!(step("checkpoint_1000"), Some(1000));
        let others = [
            "checkpoint_6.tmp-17",
            "checkpoint_",
            "checkpoint",
            "checkpoint_a",
            "checkpoint_007",
            "x",
        ];
        for other in others {
            assert_eq!(step(other), None, "{other}");
        }
    }
}
