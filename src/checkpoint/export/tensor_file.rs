//! The file of weights while it is written, tensor by tensor. On disk it has another name until it
//! is complete; in a store an incomplete upload is not visible.

use std::io::{self, Write};

use crate::error::CheckpointError;
use gimlet_storage::{FileWriter, Lock, Locked, Path};

/// Suffix of the unfinished file.
const UNFINISHED: &str = ".unfinished";

/// A file of tensors that is being written. When it is dropped before [`TensorFile::finish`], it is
/// removed.
pub(super) struct TensorFile {
    target: Path,
    /// `None` in a store.
    staged: Option<Staged>,
    out: FileWriter,
    position: u64,
    /// CRC-32C of the bytes since the beginning of the last tensor.
    crc32c: u32,
}

impl TensorFile {
    /// Begins a file; the file that a killed conversion left is written again. The file counts as
    /// finished if `mark` exists, which may be the file itself; otherwise an older file of that name
    /// is replaced.
    ///
    /// # Errors
    /// Another process writes the file; it cannot be written.
    pub(super) fn begin(target: &Path, mark: &Path) -> Result<Self, CheckpointError> {
        let (staged, out) = match target.is_on_disk() {
            true => stage(target, mark).map(|(staged, out)| (Some(staged), out))?,
            false => (None, target.create()?),
        };
        Ok(Self { target: target.clone(), staged, out, position: 0, crc32c: 0 })
    }

    /// Number of bytes so far.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Adds a tensor, and returns the CRC-32C of its bytes.
    pub(super) fn tensor(
        &mut self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<u32> {
        self.crc32c = 0;
        write(self)?;
        Ok(self.crc32c)
    }

    /// Makes the file durable and renames it to its final name.
    pub(super) fn finish(self) -> Result<(), CheckpointError> {
        self.out.finish()?;
        let Some(mut staged) = self.staged else { return Ok(()) };
        // A file system without locks does not tell of other writers.
        if staged.unfinished.size()? != self.position {
            return Err(CheckpointError::converting(&staged.unfinished));
        }
        staged.unfinished.rename(&self.target)?;
        staged.is_named = true;
        Ok(())
    }
}

impl Write for TensorFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.out.write(bytes)?;
        self.crc32c = crc32c::crc32c_append(self.crc32c, &bytes[..length]);
        self.position += length as u64;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A file on disk under its temporary name.
struct Staged {
    unfinished: Path,
    is_named: bool,
    /// Shows other processes that the writer is alive.
    _lock: Option<Lock>,
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_named {
            // The error that matters is that of writing.
            let _ = self.unfinished.remove_file();
        }
    }
}

/// Begins a file on disk under its temporary name.
fn stage(target: &Path, mark: &Path) -> Result<(Staged, FileWriter), CheckpointError> {
    let unfinished = target.suffixed(UNFINISHED);
    // Not truncated: it may be the file of a living process.
    let out = unfinished.append()?;
    let lock = match unfinished.try_lock()? {
        Locked::Held(lock) => Some(lock),
        Locked::Unsupported => None,
        Locked::Busy => return Err(CheckpointError::converting(&unfinished)),
    };
    let staged = Staged { unfinished, is_named: false, _lock: lock };
    if mark.exists()? {
        // Another process has finished the file in the meantime.
        let reason = "it is there already; name another file or remove it".to_string();
        return Err(CheckpointError::Export { path: target.to_string(), reason });
    }
    if staged.unfinished.size()? > 0 {
        staged.unfinished.set_size(0)?;
    }
    Ok((staged, out))
}
