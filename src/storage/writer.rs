//! Files that are being written: when finished, they are on disk, not only in the page cache.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use super::disk;
use super::error::StorageError;
use super::path::Path;
use super::remote::Upload;

/// A file that is being written. [`FileWriter::finish`] makes the file durable; otherwise its bytes
/// may be lost or truncated when the machine fails, and a remote file never becomes visible.
pub struct FileWriter {
    path: Path,
    sink: Sink,
}

enum Sink {
    Disk(BufWriter<File>),
    Replacement(disk::Replacement),
    Elsewhere(Box<Upload>),
}

impl FileWriter {
    pub(super) fn on_disk(path: Path, file: File) -> Self {
        Self { path, sink: Sink::Disk(BufWriter::with_capacity(disk::BUFFER, file)) }
    }

    pub(super) fn replacing(path: Path, file: disk::Replacement) -> Self {
        Self { path, sink: Sink::Replacement(file) }
    }

    pub(super) fn elsewhere(path: Path, upload: Upload) -> Self {
        Self { path, sink: Sink::Elsewhere(Box::new(upload)) }
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all bytes and starts writing them to disk, without waiting: for one of many files
    /// that [`Path::sync_tree`] makes durable together.
    pub fn close(self) -> Result<(), StorageError> {
        match self.sink {
            Sink::Disk(mut file) => {
                file.flush().map_err(|error| StorageError::new("write", &self.path, error))?;
                disk::begin_sync(file.get_ref());
                Ok(())
            }
            Sink::Replacement(_) => self.finish(),
            Sink::Elsewhere(upload) => upload.finish(),
        }
    }

    /// Writes all bytes and waits until they are on disk.
    pub fn finish(self) -> Result<(), StorageError> {
        match self.sink {
            Sink::Disk(mut file) => {
                let written = file.flush().and_then(|()| file.get_ref().sync_all());
                written.map_err(|error| StorageError::new("write", &self.path, error))
            }
            Sink::Replacement(file) => {
                file.finish().map_err(|error| StorageError::new("write", &self.path, error))
            }
            Sink::Elsewhere(upload) => upload.finish(),
        }
    }

    /// Like [`FileWriter::finish`], for a process that another process may replace: the file is
    /// written only if `allowed` succeeds at the beginning and at the end, and changes in between
    /// are not overwritten, however late the bytes arrive.
    ///
    /// # Errors
    /// Errors of `allowed`, and those of [`FileWriter::finish`].
    pub fn finish_while<E: From<StorageError>>(
        self,
        allowed: &dyn Fn() -> Result<(), E>,
    ) -> Result<(), E> {
        match self.sink {
            Sink::Elsewhere(upload) => upload.finish_while(allowed),
            Sink::Disk(_) | Sink::Replacement(_) => {
                allowed()?;
                Ok(self.finish()?)
            }
        }
    }
}

impl Write for FileWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Sink::Disk(file) => file.write(bytes),
            Sink::Replacement(file) => file.write(bytes),
            Sink::Elsewhere(upload) => upload.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::Disk(file) => file.flush(),
            Sink::Replacement(file) => file.flush(),
            Sink::Elsewhere(upload) => upload.flush(),
        }
    }
}
