//! Locks on folders and files, which distinguish a living writer from a dead one: the system
//! releases a lock when its process ends, for any reason.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path as LocalPath;

use super::error::StorageError;
use super::location::Location;
use super::path::Path;

/// An exclusive lock on a folder or file, held until dropped.
#[derive(Debug)]
pub struct Lock {
    _locked: File,
}

/// The result of an attempt to take a lock.
#[derive(Debug)]
pub enum Locked {
    /// This process holds the lock.
    Held(Lock),
    /// Another living process holds the lock.
    Busy,
    /// The file system or store does not support locks; nothing is known.
    Unsupported,
}

impl Path {
    /// Tries to lock an existing folder or file, without waiting. Network file systems do not share
    /// locks on folders between machines.
    pub fn try_lock(&self) -> Result<Locked, StorageError> {
        let Location::Disk(local) = self.place()? else { return Ok(Locked::Unsupported) };
        // NFS locks files only for writers; a folder cannot be opened for writing.
        let file = OpenOptions::new().read(true).write(true).open(&local);
        let file = self.done("lock", file.or_else(|_| File::open(&local)))?;
        let locked = file.try_lock();
        Ok(told(file, locked))
    }

    /// Tries to lock the file, without waiting, and writes `text` into it; a missing file is
    /// created. On network file systems, such as NFS, all machines see the lock.
    pub fn try_lock_with(&self, text: &str) -> Result<Locked, StorageError> {
        let Location::Disk(local) = self.place()? else { return Ok(Locked::Unsupported) };
        self.done("lock", lock_with(&local, text))
    }
}

/// Maximum number of attempts to create a file that other processes remove.
const TRIES: usize = 100;

fn lock_with(local: &LocalPath, text: &str) -> io::Result<Locked> {
    // NFS locks files only for writers.
    let open =
        || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(local);
    let Some((file, locked)) = open_and_lock(local, open)? else {
        return Err(io::Error::other("other processes create and remove it all the time"));
    };
    if !matches!(locked, Err(TryLockError::WouldBlock)) {
        file.set_len(0)?;
        (&file).write_all(text.as_bytes())?;
    }
    Ok(told(file, locked))
}

/// Opens a file and tries to lock it, without waiting. The previous holder may have removed or renamed the
/// file in between: then the file is opened again. `None` if that happens too often.
fn open_and_lock(
    local: &LocalPath,
    open: impl Fn() -> io::Result<File>,
) -> io::Result<Option<(File, Result<(), TryLockError>)>> {
    for _ in 0..TRIES {
        let file = open()?;
        let locked = file.try_lock();
        if matches!(locked, Err(TryLockError::WouldBlock)) || is_at(&file, local)? {
            return Ok(Some((file, locked)));
        }
    }
    Ok(None)
}

/// Whether an open file still has this name.
fn is_at(file: &File, local: &LocalPath) -> io::Result<bool> {
    let opened = file.metadata()?;
    match fs::metadata(local) {
        Ok(named) => Ok((named.dev(), named.ino()) == (opened.dev(), opened.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn told(file: File, locked: Result<(), TryLockError>) -> Locked {
    match locked {
        Ok(()) => Locked::Held(Lock { _locked: file }),
        Err(TryLockError::WouldBlock) => Locked::Busy,
        Err(TryLockError::Error(_)) => Locked::Unsupported,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

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

    #[test]
    fn a_file_is_locked_by_one_of_many_and_tells_by_whom() {
        let dir = tempfile::tempdir().unwrap();
        let file = Path::try_from(dir.path()).unwrap().join("running.txt");
        let num_held = AtomicUsize::new(0);
        let work = |name: usize| {
            for _ in 0..200 {
                let Locked::Held(lock) = file.try_lock_with(&name.to_string()).unwrap() else {
                    continue;
                };
                assert_eq!(num_held.fetch_add(1, Ordering::SeqCst), 0, "two hold it");
                assert_eq!(file.read_to_string().unwrap(), name.to_string());
                num_held.fetch_sub(1, Ordering::SeqCst);
                file.remove_file().unwrap();
                drop(lock);
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|name| drop(scope.spawn(move || work(name)))));
    }
}
