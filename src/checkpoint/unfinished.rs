//! Checkpoints in stores, which rename no folders: their files go straight to `checkpoint_N/`, and the
//! file `checkpoint` comes last, or what makes one of Orbax. Until then, and while it is removed again, a
//! mark in the folder says who is at work there; what a dead process has marked can be removed. Where
//! several processes save one checkpoint, the mark tells the others which save it is, on disk too.

use serde::{Deserialize, Serialize};

use super::error::CheckpointError;
use super::native::{CHECKPOINT_FILE, JOURNAL_FILE};
use super::open::{ORBAX_END, ORBAX_ITEM, ORBAX_MARKS, has_finished_orbax};
use crate::storage::{Holder, Path, Process};

/// The mark, relative to the checkpoint.
pub(super) const MARK: &str = "gimlet/unfinished.json";

/// What it says.
#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    /// Who is at work.
    #[serde(flatten)]
    process: Process,
    /// Which save of several processes it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    save_id: Option<String>,
}

/// Whether whole folders cannot be renamed here, so that checkpoints lie open while they are written.
pub(super) fn is_store(model_dir: &Path) -> bool {
    !model_dir.is_on_disk()
}

/// Says that this process is at work in the folder, and for which save of several processes.
pub(super) fn mark(dir: &Path, save_id: Option<&str>) -> Result<(), CheckpointError> {
    let (process, save_id) = (Process::this().clone(), save_id.map(str::to_string));
    let text =
        serde_json::to_vec_pretty(&Mark { process, save_id }).expect("plain data becomes JSON");
    let mark = dir.join(MARK);
    mark.parent().expect("it lies in a folder").create_dir_all()?;
    Ok(mark.write_atomic(&text)?)
}

/// Which save of several processes the folder is marked for; `None` also where there is no folder.
pub(super) fn marked_save(dir: &Path) -> Result<Option<String>, CheckpointError> {
    let text = match dir.join(MARK).read() {
        Err(error) if error.is_not_found() => return Ok(None),
        text => text?,
    };
    Ok(serde_json::from_slice::<Mark>(&text).ok().and_then(|mark| mark.save_id))
}

/// Takes the mark away, if there is one: the folder is whole.
pub(super) fn unmark(dir: &Path) -> Result<(), CheckpointError> {
    remove_if_there(&dir.join(MARK))
}

/// Takes away what the writer of a checkpoint that is whole has left in it when it was killed.
pub(super) fn clear(dir: &Path) -> Result<(), CheckpointError> {
    let folders = [dir.clone(), dir.join(ORBAX_ITEM)];
    folders.iter().try_for_each(|folder| remove_if_there(&folder.join(JOURNAL_FILE)))?;
    unmark(dir)
}

fn remove_if_there(file: &Path) -> Result<(), CheckpointError> {
    match file.remove_file() {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Whether a file is such a mark.
pub(super) fn is_mark(file: &Path) -> bool {
    file.as_str().ends_with(MARK)
}

/// Whether the folder has a mark, whatever else it has.
pub(super) fn is_marked(dir: &Path) -> Result<bool, CheckpointError> {
    Ok(dir.join(MARK).exists()?)
}

/// Whether the checkpoint was finished, and its process killed before it took the mark away.
pub(super) fn is_whole_but_marked(dir: &Path) -> Result<bool, CheckpointError> {
    Ok(is_marked(dir)? && is_finished(dir)?)
}

/// Whether someone was or is at work in the folder, and no reader should see it.
pub fn is_unfinished(dir: &Path) -> Result<bool, CheckpointError> {
    Ok(!dir.join(CHECKPOINT_FILE).exists()? && is_marked(dir)? && !has_finished_orbax(dir)?)
}

/// Whether the file is there that makes the folder a checkpoint.
fn is_finished(dir: &Path) -> Result<bool, CheckpointError> {
    Ok(dir.join(CHECKPOINT_FILE).exists()? || has_finished_orbax(dir)?)
}

/// Whether the process that was at work in an unfinished folder is so no more: it is gone, or this
/// one, which holds the lease on MODEL_DIR, has taken its place.
pub(super) fn is_abandoned(dir: &Path, lease: Option<&Holder>) -> Result<bool, CheckpointError> {
    let Ok(worker) = read_mark(dir)? else {
        // Nobody writes half a mark into a store.
        return Ok(true);
    };
    let is_ours = lease.is_some_and(|holder| holder.process.is_this());
    Ok(!worker.is_this() && (is_ours || worker.is_gone()))
}

/// Checks that nobody else is at work in a folder that is to be written anew. Who holds no lease, as one
/// that converts, is known by the mark alone.
///
/// # Errors
/// Another process has marked it, which is not known to be gone.
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

/// The process that has marked the folder; nothing where none has.
fn read_mark(dir: &Path) -> Result<serde_json::Result<Process>, CheckpointError> {
    match dir.join(MARK).read() {
        Err(error) if error.is_not_found() => Ok(serde_json::from_slice(b"")),
        text => Ok(serde_json::from_slice(&text?)),
    }
}

/// Removes a checkpoint so that at no time half of it is seen: first what makes it one, last the mark.
pub(super) fn remove(dir: &Path) -> Result<(), CheckpointError> {
    let mark = dir.join(MARK);
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

/// The lease on MODEL_DIR, which no living process but this one may hold.
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

/// Checks that the lease on MODEL_DIR is as it was when a checkpoint was begun.
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
