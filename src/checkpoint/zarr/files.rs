//! Where the files of an array lie: in a folder, or as entries of a store that is itself in files.

use std::io::{self, Cursor, Read};
use std::sync::Arc;

use crate::storage::{Path, StorageError};

/// Parts of files that are no larger are read at once.
const SMALL_BYTES: u64 = 8 << 20;

/// The files of one array by their names.
pub trait Files: Sync {
    /// Where a file lies; `None` if it is known not to be there.
    fn place(&self, name: &str) -> Option<Place>;

    /// What errors call a file: its path relative to the checkpoint.
    fn shown(&self, name: &str) -> String;
}

/// Where the bytes of one file of an array lie.
#[derive(Clone, Debug)]
pub enum Place {
    /// A file of its own.
    File(Path),
    /// A file of its own whose size and CRC-32C are known.
    Checked { file: Path, bytes: u64, crc32c: u32 },
    /// A part of a larger file.
    Slice { file: Path, offset: u64, length: u64 },
    /// In memory.
    Inline(Arc<[u8]>),
}

impl Place {
    /// Opens it for reading from its start.
    pub fn open(&self) -> Result<Box<dyn Read + Send>, StorageError> {
        Ok(match self {
            Self::File(path) => Box::new(io::BufReader::with_capacity(1 << 18, path.open()?)),
            Self::Checked { file, bytes, crc32c } => {
                let source = Checking::new(file.open()?, *bytes, *crc32c);
                Box::new(io::BufReader::with_capacity(1 << 18, source))
            }
            Self::Slice { file, offset, length } if *length <= SMALL_BYTES => {
                Box::new(Cursor::new(file.read_range(*offset..offset + length)?))
            }
            Self::Slice { file, offset, length } => Box::new(io::BufReader::with_capacity(
                1 << 18,
                file.open_at(*offset)?.take(*length),
            )),
            Self::Inline(bytes) => Box::new(Cursor::new(bytes.clone())),
        })
    }

    /// The number of bytes.
    pub fn size(&self) -> Result<u64, StorageError> {
        match self {
            Self::File(file) | Self::Checked { file, .. } => file.size(),
            Self::Slice { length, .. } => Ok(*length),
            Self::Inline(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// The part of it that begins at `offset`; `None` where it reaches behind the end of `size` bytes.
    pub fn part(&self, size: u64, offset: u64, length: u64) -> Option<Self> {
        offset.checked_add(length).filter(|end| *end <= size)?;
        Some(match self {
            Self::File(file) | Self::Checked { file, .. } => {
                Self::Slice { file: file.clone(), offset, length }
            }
            Self::Slice { file, offset: start, .. } => {
                Self::Slice { file: file.clone(), offset: start.checked_add(offset)?, length }
            }
            Self::Inline(bytes) => {
                Self::Inline(bytes[offset as usize..(offset + length) as usize].into())
            }
        })
    }
}

/// Compares a file with its checksum while it is read. The last bytes are handed out only if all of them
/// are those that were written.
struct Checking<R> {
    inner: R,
    left: u64,
    found: u32,
    expected: u32,
}

impl<R> Checking<R> {
    fn new(inner: R, bytes: u64, crc32c: u32) -> Self {
        Self { inner, left: bytes, found: 0, expected: crc32c }
    }
}

impl<R: Read> Read for Checking<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Summed while the processor still has it at hand.
        let end = buffer.len().min(1 << 20);
        let length = self.inner.read(&mut buffer[..end])?;
        self.found = crc32c::crc32c_append(self.found, &buffer[..length]);
        let changed = || {
            let reason =
                format!("it has changed since it was written (checksum {:08x})", self.found);
            io::Error::new(io::ErrorKind::InvalidData, reason)
        };
        self.left = self.left.checked_sub(length as u64).ok_or_else(changed)?;
        if length == 0 && end > 0 && self.left > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match self.left == 0 && self.found != self.expected {
            true => Err(changed()),
            false => Ok(length),
        }
    }
}

/// A folder with one file for each chunk.
pub struct Folder<'a> {
    /// The checkpoint in which it lies.
    pub checkpoint: &'a Path,
    /// The folder.
    pub dir: Path,
}

impl Files for Folder<'_> {
    fn place(&self, name: &str) -> Option<Place> {
        Some(Place::File(self.dir.join(name)))
    }

    fn shown(&self, name: &str) -> String {
        self.dir.join(name).relative_to(self.checkpoint).to_string()
    }
}
