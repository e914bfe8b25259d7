//! A file with random access, for formats that do not read it in order.

use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gimlet_storage::{Path, StorageError};

const BUFFER_SIZE: usize = 256 << 10;

/// Reads on from the current position, and seeks by opening the file again at another byte.
pub(super) struct SeekFile {
    path: Path,
    size: u64,
    reader: Option<io::BufReader<Box<dyn Read + Send>>>,
    progress: Arc<Progress>,
}

/// The progress of reading a file, for the owner of a file that a decoder reads.
#[derive(Default)]
pub(super) struct Progress {
    offset: AtomicU64,
    at_end: AtomicBool,
}

impl Progress {
    /// Offset of the next byte to be read.
    pub(super) fn offset(&self) -> u64 {
        self.offset.load(Ordering::Relaxed)
    }

    /// Whether a read went beyond the end of the file.
    pub(super) fn at_end(&self) -> bool {
        self.at_end.load(Ordering::Relaxed)
    }
}

impl SeekFile {
    /// Opens the file at its beginning.
    pub(super) fn open(path: &Path) -> Result<Self, StorageError> {
        let (path, size) = (path.clone(), path.size()?);
        Ok(Self { path, size, reader: None, progress: Arc::default() })
    }

    /// Size of the file in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The progress of reading, which is updated later as well.
    pub(super) fn progress(&self) -> Arc<Progress> {
        self.progress.clone()
    }
}

impl Read for SeekFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let offset = self.progress.offset();
        if self.reader.is_none() {
            let opened = self.path.open_at(offset).map_err(io::Error::other)?;
            self.reader = Some(io::BufReader::with_capacity(BUFFER_SIZE, opened));
        }
        let reader = self.reader.as_mut().expect("it was just opened");
        let found = reader.read(buffer)?;
        self.progress.offset.fetch_add(found as u64, Ordering::Relaxed);
        if found == 0 && !buffer.is_empty() {
            self.progress.at_end.store(true, Ordering::Relaxed);
        }
        Ok(found)
    }
}

impl Seek for SeekFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let now = self.progress.offset();
        let wanted = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(change) => now.checked_add_signed(change),
            SeekFrom::End(change) => self.size.checked_add_signed(change),
        };
        let wanted = wanted.ok_or(io::ErrorKind::InvalidInput)?;
        if wanted != now {
            let ahead = wanted.checked_sub(now).map(|ahead| ahead as usize);
            match (&mut self.reader, ahead) {
                (Some(reader), Some(ahead)) if ahead <= reader.buffer().len() => {
                    reader.consume(ahead);
                }
                _ => self.reader = None,
            }
            self.progress.offset.store(wanted, Ordering::Relaxed);
        }
        Ok(wanted)
    }
}
