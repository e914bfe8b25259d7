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
    /// A part of a larger file.
    Slice { file: Path, offset: u64, length: u64 },
    /// In memory.
    Inline(Arc<[u8]>),
}

impl Place {
    /// Opens it for reading from its start.
    pub fn open(&self) -> Result<Box<dyn Read + Send + '_>, StorageError> {
        Ok(match self {
            Self::File(path) => Box::new(io::BufReader::with_capacity(1 << 18, path.open()?)),
            Self::Slice { file, offset, length } if *length <= SMALL_BYTES => {
                Box::new(Cursor::new(file.read_range(*offset..offset + length)?))
            }
            Self::Slice { file, offset, length } => Box::new(io::BufReader::with_capacity(
                1 << 18,
                file.open_at(*offset)?.take(*length),
            )),
            Self::Inline(bytes) => Box::new(&bytes[..]),
        })
    }

    /// The number of bytes.
    pub fn size(&self) -> Result<u64, StorageError> {
        match self {
            Self::File(path) => path.size(),
            Self::Slice { length, .. } => Ok(*length),
            Self::Inline(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// The part of it that begins at `offset`; `None` where it reaches behind the end of `size` bytes.
    pub fn part(&self, size: u64, offset: u64, length: u64) -> Option<Self> {
        offset.checked_add(length).filter(|end| *end <= size)?;
        Some(match self {
            Self::File(file) => Self::Slice { file: file.clone(), offset, length },
            Self::Slice { file, offset: start, .. } => {
                Self::Slice { file: file.clone(), offset: start.checked_add(offset)?, length }
            }
            Self::Inline(bytes) => {
                Self::Inline(bytes[offset as usize..(offset + length) as usize].into())
            }
        })
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
        let file = self.dir.join(name);
        let name = file.as_str();
        let relative = name.strip_prefix(self.checkpoint.as_str());
        relative.map_or(name, |rest| rest.trim_start_matches('/')).to_string()
    }
}
