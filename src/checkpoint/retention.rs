//! Decides which checkpoints to keep, and removes files that dead runs left behind.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::best::Best;
use super::error::CheckpointError;
use super::marks::{DATASET_PREFIX, ORBAX_ITEM, PINNED_FILE, TEMPORARY_MARK, step_of};
use super::native::create_temporary;
use super::steps::committed;
use super::unfinished;
use gimlet_storage::{Holder, Lock, Locked, Path};

/// An unfinished checkpoint of another program counts as dead after this time.
const FOREIGN_LIFETIME: Duration = Duration::from_secs(3600);

/// Number of checkpoints to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Number of newest checkpoints; `None` keeps all.
    pub keep: Option<usize>,
    /// Number of newest data positions; `None` keeps the data positions of every checkpoint.
    pub keep_dataset_checkpoints: Option<usize>,
}

impl Retention {
    /// Removes the oldest checkpoints and data positions above the limits, or the worst checkpoints
    /// if `best` is given. Pinned checkpoints and symbolic links are kept, but count. `newest` is
    /// the step just saved: later checkpoints, which a run skips only when they are damaged,
    /// neither count nor are removed. Returns the removed checkpoints. As in T5X, 0 keeps all.
    pub fn apply(
        &self,
        model_dir: &Path,
        newest: u64,
        best: Option<&Best>,
    ) -> Result<Vec<Path>, CheckpointError> {
        let mut removed = Vec::new();
        let list = || -> Result<BTreeMap<u64, Path>, CheckpointError> {
            let found = committed(model_dir)?;
            Ok(found.into_iter().filter(|(step, _)| *step <= newest).collect())
        };
        let mut found = list()?;
        let excess: Vec<Path> = match (best, self.keep) {
            (Some(best), Some(keep)) if keep > 0 => {
                let steps: Vec<u64> = found.keys().copied().collect();
                best.excess(&steps, keep).iter().filter_map(|step| found.remove(step)).collect()
            }
            _ => oldest(found.into_values().collect(), self.keep),
        };
        for dir in excess {
            if !is_kept(&dir)? {
                remove(&dir)?;
                removed.push(dir);
            }
        }
        let mut with_dataset = Vec::new();
        let counts_datasets = self.keep_dataset_checkpoints.is_some_and(|keep| keep > 0);
        let found = if counts_datasets { list()? } else { BTreeMap::new() };
        for dir in found.into_values() {
            if !dataset_files(&dir)?.is_empty() {
                with_dataset.push(dir);
            }
        }
        for dir in oldest(with_dataset, self.keep_dataset_checkpoints) {
            if !is_kept(&dir)? {
                dataset_files(&dir)?.iter().try_for_each(Path::remove_file)?;
            }
        }
        Ok(removed)
    }
}

/// Removes leftovers of runs that ended while saving or deleting: `checkpoint_N.tmp-...` folders
/// that no living writer has locked, or in stores has marked, and temporary files that were to
/// replace others. Returns the removed paths.
pub fn remove_stale(model_dir: &Path) -> Result<Vec<Path>, CheckpointError> {
    let entries = match model_dir.list() {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        other => other?,
    };
    let mut removed = Vec::new();
    let lease = model_dir.lease_holder()?;
    if unfinished::is_store(model_dir) {
        for dir in entries.iter().filter(|dir| step_of(dir).is_some()) {
            if unfinished::is_whole_but_marked(dir)? {
                is_gone(unfinished::unmark(dir));
            } else if unfinished::is_unfinished(dir)?
                && unfinished::is_abandoned(dir, lease.as_ref())?
                && is_gone(unfinished::remove(dir))
            {
                removed.push(dir.clone());
            }
        }
    }
    for file in &entries {
        if file.is_abandoned_write()? && is_gone(file.remove_file().map_err(CheckpointError::from))
        {
            removed.push(file.clone());
        }
    }
    for dir in entries {
        let final_name = dir.file_name().split(".tmp-").next().expect("split yields one part");
        let is_temporary = final_name != dir.file_name()
            && !dir.is_link()?
            && step_of(&model_dir.join(final_name)).is_some()
            && dir.is_dir()?;
        if is_temporary
            && let Some(_lock) = if_dead(&dir, lease.as_ref())?
            && is_gone(dir.remove_dir_all().map_err(CheckpointError::from))
        {
            removed.push(dir);
        }
    }
    Ok(removed)
}

/// Whether leftovers of earlier runs were removed; otherwise the user is told, and the next run
/// tries again.
fn is_gone(removed: Result<(), CheckpointError>) -> bool {
    if let Err(error) = &removed {
        gimlet_telemetry::warn(&format!(
            "{error}; the run continues without it, and the next one tries again"
        ));
    }
    removed.is_ok()
}

/// Locks a folder whose writer is dead, if it can be locked. Gimlet's folders are locked while their writer lives, and
/// marked in stores; T5X's folders are judged by their age.
fn if_dead(dir: &Path, lease: Option<&Holder>) -> Result<Option<Option<Lock>>, CheckpointError> {
    let is_old = || -> Result<bool, CheckpointError> {
        let age = SystemTime::now().duration_since(dir.modified()?).unwrap_or_default();
        Ok(age > FOREIGN_LIFETIME)
    };
    let (lock, is_dead) = match dir.try_lock()? {
        Locked::Busy => (None, false),
        Locked::Held(lock) => (Some(lock), dir.file_name().ends_with(TEMPORARY_MARK) || is_old()?),
        Locked::Unsupported if unfinished::is_store(dir) => match unfinished::is_marked(dir)? {
            true => (None, unfinished::is_abandoned(dir, lease)?),
            false => (None, newest_is_old(dir)?),
        },
        Locked::Unsupported => (None, is_old()?),
    };
    Ok(is_dead.then_some(lock))
}

/// Whether the newest file is old: in stores only files have an age.
fn newest_is_old(dir: &Path) -> Result<bool, CheckpointError> {
    for file in dir.walk()? {
        if SystemTime::now().duration_since(file.modified()?).unwrap_or_default()
            <= FOREIGN_LIFETIME
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the checkpoints that are older than the newest `keep`.
fn oldest(mut checkpoints: Vec<Path>, keep: Option<usize>) -> Vec<Path> {
    let keep = keep.filter(|keep| *keep > 0).unwrap_or(usize::MAX);
    checkpoints.truncate(checkpoints.len().saturating_sub(keep));
    checkpoints
}

/// Removes a checkpoint; renames it first, so that no reader sees a partial checkpoint.
fn remove(dir: &Path) -> Result<(), CheckpointError> {
    if !dir.is_dir()? {
        return Ok(dir.remove_file()?);
    }
    if unfinished::is_store(dir) {
        return unfinished::remove(dir);
    }
    let temporary = create_temporary(dir)?;
    dir.rename(&temporary)?;
    Ok(temporary.remove_dir_all()?)
}

/// Whether a checkpoint is kept: a pinned one, and a link, whose target may belong to someone else.
fn is_kept(dir: &Path) -> Result<bool, CheckpointError> {
    let is_link = dir.is_link()?;
    if is_link {
        gimlet_telemetry::notice_once(&format!(
            "{dir} is a symbolic link: it is kept, remove it yourself"
        ));
    }
    Ok(is_link || dir.join(PINNED_FILE).exists()?)
}

fn dataset_files(dir: &Path) -> Result<Vec<Path>, CheckpointError> {
    let mut files = Vec::new();
    for folder in [dir.clone(), dir.join("gimlet"), dir.join(ORBAX_ITEM).join("gimlet")] {
        if folder.is_dir()? {
            let is_dataset = |file: &Path| file.file_name().starts_with(DATASET_PREFIX);
            files.extend(folder.list()?.into_iter().filter(is_dataset));
        }
    }
    Ok(files)
}
