//! Files being written: on disk, not merely in the page cache, once finished.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use super::error::StorageError;
use super::path::Path;

/// A file being written. [`FileWriter::finish`] makes it durable; without it, what was written may
/// be lost or cut when the machine fails.
pub struct FileWriter {
    path: Path,
    file: BufWriter<File>,
}

impl FileWriter {
    pub(super) fn new(path: Path, file: File) -> Self {
        Self { path, file: BufWriter::with_capacity(1 << 18, file) }
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes everything out without waiting for the disk: for one file of many that
    /// [`Path::sync_tree`] makes durable together.
    pub fn close(mut self) -> Result<(), StorageError> {
        self.file.flush().map_err(|error| StorageError::new("write", &self.path, error))
    }

    /// Writes everything out and waits until the disk has it.
    pub fn finish(mut self) -> Result<(), StorageError> {
        let written = self.file.flush().and_then(|()| self.file.get_ref().sync_all());
        written.map_err(|error| StorageError::new("write", &self.path, error))
    }
}

impl Write for FileWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
