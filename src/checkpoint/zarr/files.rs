//! Locates the files of an array: in a folder, or as entries of a store that is itself in files.

use std::io::{self, Cursor, Read};
use std::sync::Arc;

use gimlet_storage::{Path, StorageError};

/// Parts of files up to this size are read at once.
const SMALL_BYTES: u64 = 8 << 20;

/// The files of one array by name.
pub trait Files: Sync {
    /// Location of a file; `None` if the file is known to be missing.
    fn place(&self, name: &str) -> Option<FileRange>;

    /// Name of a file in errors: its path relative to the checkpoint.
    fn shown(&self, name: &str) -> String;
}

/// Location of the bytes of one file of an array.
#[derive(Clone, Debug)]
pub enum FileRange {
    /// A separate file.
    File(Path),
    /// A separate file whose size and CRC-32C are known.
    Checked { file: Path, bytes: u64, crc32c: u32 },
    /// A part of a larger file.
    Slice { file: Path, offset: u64, length: u64 },
    /// In memory.
    Inline(Arc<[u8]>),
}

impl FileRange {
    /// Opens the bytes for reading from the start.
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

    /// Number of bytes.
    pub fn size(&self) -> Result<u64, StorageError> {
        match self {
            Self::File(file) | Self::Checked { file, .. } => file.size(),
            Self::Slice { length, .. } => Ok(*length),
            Self::Inline(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// The part that begins at `offset`; `None` if it extends beyond the end at `size` bytes.
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

/// A reader that compares a file with its checksum. It returns the last bytes only if all bytes are
/// unchanged.
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
        // The bytes are summed while they are still in the processor's cache.
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
    /// The checkpoint that contains the folder.
    pub checkpoint: &'a Path,
    /// The folder.
    pub dir: Path,
}

impl Files for Folder<'_> {
    fn place(&self, name: &str) -> Option<FileRange> {
        Some(FileRange::File(self.dir.join(name)))
    }

    fn shown(&self, name: &str) -> String {
        self.dir.join(name).relative_to(self.checkpoint).to_string()
    }
}
