//! One process at a time trains into a MODEL_DIR. The system drops the lock with the process, however
//! it ends, so a run that was killed can be started again at once.

use crate::storage::{FolderLock, Locked, Path};
use crate::telemetry;

use super::error::TrainError;

/// Tells a second process who is at work. Its content counts only while the folder is locked.
const FILE: &str = "running.txt";

/// A MODEL_DIR that this process works in, until dropped.
#[derive(Debug)]
pub struct Occupied {
    file: Path,
    /// `None` where the file system has no locks.
    _lock: Option<FolderLock>,
}

impl Occupied {
    /// Locks an existing folder.
    ///
    /// # Errors
    /// Another process works in it, or it cannot be written.
    pub fn take(model_dir: &Path) -> Result<Self, TrainError> {
        let file = model_dir.join(FILE);
        let lock = match model_dir.try_lock()? {
            Locked::Held(lock) => Some(lock),
            Locked::Busy => {
                let by = file.read_to_string().unwrap_or_else(|_| "another process".to_string());
                return Err(TrainError::Occupied { model_dir: model_dir.to_string(), by });
            }
            Locked::Unsupported => {
                telemetry::warn(&format!(
                    "{model_dir} lies on a file system without locks: see to it that no other \
                     process trains into it"
                ));
                None
            }
        };
        file.write_atomic(this_process().as_bytes())?;
        Ok(Self { file, _lock: lock })
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        // A file that stays behind does no harm.
        let _ = self.file.remove_file();
    }
}

fn this_process() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("process {} on host {}", std::process::id(), host.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_process_and_is_free_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let model_dir = Path::try_from(dir.path()).unwrap();
        let first = Occupied::take(&model_dir).unwrap();
        let error = Occupied::take(&model_dir).unwrap_err();
        assert!(error.is_users());
        let by = format!("process {} on host", std::process::id());
        assert!(error.to_string().contains(&by), "{error}");
        drop(first);
        assert_eq!(model_dir.list().unwrap(), []);
        Occupied::take(&model_dir).unwrap();
    }
}
