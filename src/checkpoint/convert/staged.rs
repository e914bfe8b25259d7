//! Files that are seen when all of them are whole.

use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::native::{TEMPORARY_MARK, create_temporary};
use crate::storage::{FolderLock, Locked, Path};

/// A folder that is being filled under another name, beside the one it will have. Gone if dropped before
/// it is committed. Buckets cannot rename a folder: there its files go to their place at once, each whole,
/// and the caller writes last the one that tells that all are there.
pub(super) struct Staged {
    folder: Path,
    finished: Path,
    /// Shows other conversions that this one is alive.
    _lock: Option<FolderLock>,
    is_temporary: bool,
}

impl Staged {
    /// Begins to fill what will be `finished`, and removes what killed conversions to it left.
    pub(super) fn create(finished: &Path) -> Result<Self, CheckpointError> {
        let is_temporary = finished.local().is_ok();
        let mut lock = None;
        let mut folder = finished.clone();
        if is_temporary {
            if let Some(parent) = finished.parent() {
                parent.create_dir_all()?;
                remove_dead(&parent, finished)?;
            }
            folder = create_temporary(finished)?;
            if let Locked::Held(held) = folder.try_lock()? {
                lock = Some(held);
            }
        }
        Ok(Self { folder, finished: finished.clone(), _lock: lock, is_temporary })
    }

    /// Where to write the file of this name.
    pub(super) fn file(&self, name: &str) -> Path {
        self.folder.join(name)
    }

    /// Makes the folder durable and visible.
    pub(super) fn commit(mut self) -> Result<(), CheckpointError> {
        if self.is_temporary {
            self.folder.sync_tree()?;
            self.folder.rename(&self.finished)?;
            self.is_temporary = false;
        }
        Ok(())
    }

    /// Where to write the only file, where what is finished is a file and no folder.
    pub(super) fn only_file(&self) -> Path {
        if self.is_temporary {
            self.folder.join(self.finished.file_name())
        } else {
            self.finished.clone()
        }
    }

    /// As [`Staged::commit`], for the only file.
    pub(super) fn commit_file(self) -> Result<(), CheckpointError> {
        if self.is_temporary {
            self.only_file().rename(&self.finished)?;
        }
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if self.is_temporary {
            // What cannot be removed now is removed by the next conversion to the same place.
            let _ = self.folder.remove_dir_all();
        }
    }
}

fn remove_dead(parent: &Path, finished: &Path) -> Result<(), CheckpointError> {
    let prefix = format!("{}.tmp-", finished.file_name());
    for entry in parent.list()? {
        let name = entry.file_name();
        if name.starts_with(&prefix)
            && name.ends_with(TEMPORARY_MARK)
            && matches!(entry.try_lock()?, Locked::Held(_))
        {
            entry.remove_dir_all()?;
        }
    }
    Ok(())
}
