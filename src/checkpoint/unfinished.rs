//! Checkpoints in stores, which cannot rename folders: their files are written directly to
//! `checkpoint_N/`, and the file `checkpoint`, or the mark of an Orbax checkpoint, comes last.
//! Until then, and during removal, a mark in the folder names the process at work; folders marked
//! by a dead process can be removed. If several processes save one checkpoint, the mark also
//! identifies the save, on disk too.

use serde::{Deserialize, Serialize};

use super::error::CheckpointError;
use super::marks::{CHECKPOINT_FILE, ORBAX_END, ORBAX_MARKS, UNFINISHED_FILE, has_finished_orbax};
use gimlet_storage::{Holder, Path, Process};

/// The contents of the mark.
#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    /// The process at work.
    #[serde(flatten)]
    process: Process,
    /// Identifier of the save, if several processes save.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    save_id: Option<String>,
}

/// Whether folders cannot be renamed here, so that checkpoints are visible while they are written.
pub(super) fn is_store(model_dir: &Path) -> bool {
    !model_dir.is_on_disk()
}

/// Records that this process is at work in the folder, and the identifier of the save.
pub(super) fn mark(dir: &Path, save_id: Option<&str>) -> Result<(), CheckpointError> {
    let (process, save_id) = (Process::this().clone(), save_id.map(str::to_string));
    let text =
        serde_json::to_vec_pretty(&Mark { process, save_id }).expect("plain data becomes JSON");
    let mark = dir.join(UNFINISHED_FILE);
    mark.parent().expect("it lies in a folder").create_dir_all()?;
    Ok(mark.write_atomic(&text)?)
}

/// The identifier of the save for which the folder is marked; `None` also if the folder does not
/// exist.
pub(super) fn marked_save(dir: &Path) -> Result<Option<String>, CheckpointError> {
    let text = match dir.join(UNFINISHED_FILE).read() {
        Err(error) if error.is_not_found() => return Ok(None),
        text => text?,
    };
    Ok(serde_json::from_slice::<Mark>(&text).ok().and_then(|mark| mark.save_id))
}

/// Removes the mark, if any, because the folder is complete.
pub(super) fn unmark(dir: &Path) -> Result<(), CheckpointError> {
    match dir.join(UNFINISHED_FILE).remove_file() {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Whether a file is a mark.
pub(super) fn is_mark(file: &Path) -> bool {
    file.as_str().ends_with(UNFINISHED_FILE)
}

/// Whether the folder has a mark, whatever other files it has.
pub(super) fn is_marked(dir: &Path) -> Result<bool, CheckpointError> {
    Ok(dir.join(UNFINISHED_FILE).exists()?)
}

/// Whether the checkpoint was finished, and its writer killed before it removed the mark.
pub(super) fn is_whole_but_marked(dir: &Path) -> Result<bool, CheckpointError> {
    Ok(is_marked(dir)? && is_finished(dir)?)
}

/// Whether a process was or is at work in the folder, so that readers must ignore it.
pub fn is_unfinished(dir: &Path) -> Result<bool, CheckpointError> {
    Ok(!dir.join(CHECKPOINT_FILE).exists()? && is_marked(dir)? && !has_finished_orbax(dir)?)
}

/// Whether the file that makes the folder a checkpoint exists.
fn is_finished(dir: &Path) -> Result<bool, CheckpointError> {
    Ok(dir.join(CHECKPOINT_FILE).exists()? || has_finished_orbax(dir)?)
}

/// Whether the process that was at work in an unfinished folder has stopped: it is gone, or this
/// process, which holds the lease on MODEL_DIR, has taken over.
pub(super) fn is_abandoned(dir: &Path, lease: Option<&Holder>) -> Result<bool, CheckpointError> {
    let Ok(worker) = read_mark(dir)? else {
        // Writes to a store are atomic, so a mark that cannot be parsed has no living writer.
        return Ok(true);
    };
    let is_ours = lease.is_some_and(|holder| holder.process.is_this());
    Ok(!worker.is_this() && (is_ours || worker.is_gone()))
}

/// Checks that no other process is at work in a folder that is to be written again. A process
/// without a lease, such as a conversion, is known only by its mark.
///
/// # Errors
/// Another process, which is not known to be gone, has marked the folder.
pub(super) fn refuse_busy(dir: &Path, lease: Option<&Holder>) -> Result<(), CheckpointError> {
    let Ok(worker) = read_mark(dir)? else { return Ok(()) };
    if worker.is_this() || is_abandoned(dir, lease)? {
        return Ok(());
    }
    Err(CheckpointError::Busy { path: dir.to_string(), by: worker.to_string() })
}

/// Whether this process is at work in an unfinished folder.
pub(super) fn is_own(dir: &Path) -> Result<bool, CheckpointError> {
    Ok(is_unfinished(dir)? && read_mark(dir)?.is_ok_and(|worker| worker.is_this()))
}

/// Reads the file by which a process marks the folder that it writes; a parse error if the file is missing or damaged, as after a
/// kill.
fn read_mark(dir: &Path) -> Result<serde_json::Result<Process>, CheckpointError> {
    match dir.join(UNFINISHED_FILE).read() {
        Err(error) if error.is_not_found() => Ok(serde_json::from_slice(b"")),
        text => Ok(serde_json::from_slice(&text?)),
    }
}

/// Removes a checkpoint so that a partial one is never visible: first the file that makes it a
/// checkpoint, last the mark.
pub(super) fn remove(dir: &Path) -> Result<(), CheckpointError> {
    let mark = dir.join(UNFINISHED_FILE);
    self::mark(dir, None)?;
    for file in [CHECKPOINT_FILE, ORBAX_END].into_iter().chain(ORBAX_MARKS) {
        let file = dir.join(file);
        if file.exists()? {
            file.remove_file()?;
        }
    }
    for entry in dir.entries()? {
        match entry.is_dir {
            true if mark.parent().as_ref() == Some(&entry.path) => {}
            true => entry.path.remove_dir_all()?,
            false => entry.path.remove_file()?,
        }
    }
    for file in mark.parent().expect("it lies in a folder").walk()? {
        if file != mark {
            file.remove_file()?;
        }
    }
    Ok(mark.remove_file()?)
}

/// Returns the lease on MODEL_DIR, unless another living process holds it.
///
/// # Errors
/// Another process works in MODEL_DIR.
pub(super) fn own_lease(model_dir: &Path) -> Result<Option<Holder>, CheckpointError> {
    let holder = model_dir.lease_holder()?;
    match &holder {
        Some(other) if other.is_alive() && !other.process.is_this() => {
            let (path, by) = (model_dir.to_string(), other.to_string());
            Err(CheckpointError::Occupied { path, by })
        }
        _ => Ok(holder),
    }
}

/// Checks that the lease on MODEL_DIR has not changed since the checkpoint was begun.
///
/// # Errors
/// Another process has taken MODEL_DIR over.
pub(super) fn check_lease(model_dir: &Path, begun: Option<&Holder>) -> Result<(), CheckpointError> {
    let now = own_lease(model_dir)?;
    let is_kept = match (begun, &now) {
        (Some(begun), Some(now)) => begun.is_same(now),
        (begun, now) => begun.is_none() && now.is_none(),
    };
    if is_kept {
        return Ok(());
    }
    let by = now.map_or("another process".to_string(), |now| now.to_string());
    Err(CheckpointError::Occupied { path: model_dir.to_string(), by })
}
