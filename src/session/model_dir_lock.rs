//! Only one process at a time trains into a MODEL_DIR. On disk, the system releases the lock with
//! the end of the process, so a killed run can be started again at once. In a store, a lease names
//! the active process; it can be taken over if the process is known to be dead, and else once the
//! lease was not renewed for a while.

use crate::storage::{Lease, Leased, Lock, Locked, Path, Process, Takeover};
use crate::telemetry;

use super::error::SessionError;

/// The file that names the active process for a second one. Its content counts only while it is
/// locked.
const FILE: &str = "running.txt";

/// A MODEL_DIR in which this process works, until dropped.
#[derive(Debug)]
pub struct ModelDirLock {
    model_dir: Path,
    hold: Hold,
}

#[derive(Debug)]
enum Hold {
    /// `None` if the file system has no locks.
    Lock {
        _lock: Option<Lock>,
    },
    Lease(Lease),
}

impl ModelDirLock {
    /// Locks an existing folder, or takes a lease on one in a store.
    ///
    /// # Errors
    /// Another process works in it, or it cannot be written.
    pub fn take(model_dir: &Path, takeover: Takeover) -> Result<Self, SessionError> {
        let hold = match model_dir.is_on_disk() {
            true => lock(model_dir)?,
            false => match model_dir.lease(takeover)? {
                Leased::Held(lease) => Hold::Lease(lease),
                Leased::Busy(holder) => return Err(taken(model_dir, holder.to_string())),
            },
        };
        Ok(Self { model_dir: model_dir.clone(), hold })
    }

    /// Checks that the folder still belongs to this process: after a pause of minutes, another
    /// process may have considered it dead.
    ///
    /// # Errors
    /// Another process has taken it over.
    pub fn check(&self) -> Result<(), SessionError> {
        match &self.hold {
            Hold::Lease(lease) if lease.is_lost() => {
                let holder = self.model_dir.lease_holder()?;
                let by = holder.map_or("another process".to_string(), |holder| holder.to_string());
                Err(taken(&self.model_dir, by))
            }
            _ => Ok(()),
        }
    }
}

fn lock(model_dir: &Path) -> Result<Hold, SessionError> {
    let file = model_dir.join(FILE);
    let lock = match file.try_lock_with(&Process::this().to_string())? {
        Locked::Held(lock) => Some(lock),
        Locked::Busy => {
            let by = file.read_to_string().unwrap_or_else(|_| "another process".to_string());
            let model_dir = model_dir.to_string();
            return Err(SessionError::Occupied { model_dir, by, or: "" });
        }
        Locked::Unsupported => {
            telemetry::warn(&format!(
                "{model_dir} lies on a file system without locks: make sure that no other process \
                 trains into it"
            ));
            None
        }
    };
    Ok(Hold::Lock { _lock: lock })
}

fn taken(model_dir: &Path, by: String) -> SessionError {
    let or = "take over with --take_over if it is dead, ";
    SessionError::Occupied { model_dir: model_dir.to_string(), by, or }
}

impl Drop for ModelDirLock {
    fn drop(&mut self) {
        if let Hold::Lock { .. } = self.hold {
            // A remaining file does no harm.
            let _ = self.model_dir.join(FILE).remove_file();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_process_and_is_free_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let model_dir = Path::try_from(dir.path()).unwrap();
        let first = ModelDirLock::take(&model_dir, Takeover::No).unwrap();
        first.check().unwrap();
        let error = ModelDirLock::take(&model_dir, Takeover::Yes).unwrap_err();
        assert!(error.is_users());
        let by = format!("process {} on host", std::process::id());
        assert!(error.to_string().contains(&by), "{error}");
        drop(first);
        assert_eq!(model_dir.list().unwrap(), []);
        ModelDirLock::take(&model_dir, Takeover::No).unwrap();
    }
}
