//! The output of the processes of a run beside the first: `logs/rank_R.log` in its folder.

use std::fs::{self, File};
use std::os::fd::AsRawFd;

use crate::partition::Processes;
use crate::storage::Path;
use crate::telemetry::{Verbosity, set_verbosity};

use super::error::SessionError;

/// Writes the output of a process other than the first into a file of its own from now on. Where the folder
/// is in a bucket, such a process says only its warnings.
///
/// # Errors
/// The file cannot be made.
pub fn open(
    processes: &Processes,
    folder: &Path,
    verbosity: Verbosity,
) -> Result<(), SessionError> {
    if processes.is_first() || !folder.is_on_disk() {
        return Ok(());
    }
    let folder = folder.local()?;
    let logs = folder.join("logs");
    let path = logs.join(format!("rank_{}.log", processes.place().rank));
    let opened = fs::create_dir_all(&logs)
        .and_then(|()| File::options().create(true).append(true).open(&path));
    let file = opened.map_err(|error| {
        SessionError::Unfit(format!("cannot write {}: {error}", path.display()))
    })?;
    for stream in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: both numbers are of open files.
        unsafe { libc::dup2(file.as_raw_fd(), stream) };
    }
    set_verbosity(verbosity);
    Ok(())
}
