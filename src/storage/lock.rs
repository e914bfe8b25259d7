//! Locks on folders, which tell a living writer from a dead one: the system drops them with the
//! process, however it ends.

use std::fs::{File, TryLockError};

use super::error::StorageError;
use super::files::Place;
use super::path::Path;

/// An exclusive lock on a folder, held until dropped.
#[derive(Debug)]
pub struct FolderLock {
    _folder: File,
}

/// What came of an attempt to lock a folder.
#[derive(Debug)]
pub enum Locked {
    /// The lock is ours.
    Held(FolderLock),
    /// Someone alive holds it.
    Busy,
    /// The file system or store has no locks; nothing is known.
    Unsupported,
}

impl Path {
    /// Tries to lock the folder, without waiting.
    pub fn try_lock(&self) -> Result<Locked, StorageError> {
        let Place::Disk(local) = self.place()? else { return Ok(Locked::Unsupported) };
        let folder = File::open(&local).map_err(|error| StorageError::new("lock", self, error))?;
        Ok(match folder.try_lock() {
            Ok(()) => Locked::Held(FolderLock { _folder: folder }),
            Err(TryLockError::WouldBlock) => Locked::Busy,
            Err(TryLockError::Error(_)) => Locked::Unsupported,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_locked_by_one_and_free_once_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = Path::try_from(dir.path()).unwrap();
        let held = path.try_lock().unwrap();
        assert!(matches!(held, Locked::Held(_)));
        assert!(matches!(path.try_lock().unwrap(), Locked::Busy));
        drop(held);
        assert!(matches!(path.try_lock().unwrap(), Locked::Held(_)));
    }
}
