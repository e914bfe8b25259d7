//! The samples of a mapping by their numbers, in memory or in an array of NumPy, of which parts are read.

use std::io::Write;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::mapping::SampleRow;
use crate::error::{DataError, file_error};
use gimlet_storage::{Path, RangeFile, StorageError};

const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";
/// NumPy aligns an array's beginning in its file.
const ALIGNMENT: usize = 64;
/// Upper limit of the bytes of a header.
const LONGEST_HEADER: u64 = 1 << 16;
const ROW_SIZE: u64 = size_of::<SampleRow>() as u64;
/// Samples that are read at once: mostly the next ones follow.
const BLOCK: u64 = 4096;

/// The samples of a mapping.
pub(super) enum SampleRows {
    /// In memory.
    Drawn(Vec<SampleRow>),
    /// In a file.
    Filed(RowFile),
}

/// The samples in a file.
pub(super) struct RowFile {
    file: RangeFile,
    /// The byte at which the first sample begins.
    begin: u64,
    count: u64,
    /// The samples that were read last, and the number of the first of them.
    block: Mutex<(u64, Vec<SampleRow>)>,
}

impl SampleRows {
    /// Number of samples.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Drawn(rows) => rows.len() as u64,
            Self::Filed(file) => file.count,
        }
    }

    /// The sample with this number, which is below [`Self::len`].
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn get(&self, number: u64) -> Result<SampleRow, DataError> {
        match self {
            Self::Drawn(rows) => Ok(rows[number as usize]),
            Self::Filed(file) => file.get(number),
        }
    }
}

impl RowFile {
    /// Opens a file; `None` if it is not one of samples.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, DataError> {
        let file = path.open_ranges()?;
        let head = file.read(0..file.size().min(LONGEST_HEADER))?;
        let size = file.size();
        let place = place_of_rows(&head).filter(|(begin, count)| {
            count.checked_mul(ROW_SIZE).and_then(|bytes| bytes.checked_add(*begin)) == Some(size)
        });
        let block = Mutex::default();
        Ok(place.map(|(begin, count)| Self { file, begin, count, block }))
    }

    /// Whether all samples are as `is_possible` says.
    pub(super) fn all(&self, is_possible: impl Fn(&SampleRow) -> bool) -> Result<bool, DataError> {
        for first in (0..self.count).step_by(BLOCK as usize) {
            if !self.read(first..self.count.min(first + BLOCK))?.iter().all(&is_possible) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn get(&self, number: u64) -> Result<SampleRow, DataError> {
        let mut block = self.block.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, rows) = &mut *block;
        if !(*first..*first + rows.len() as u64).contains(&number) {
            *rows = self.read(number..self.count.min(number + BLOCK))?;
            *first = number;
        }
        let row = rows[(number - *first) as usize];
        match row[0] < row[1] {
            true => Ok(row),
            false => {
                let reason = format!("sample {number} has no sentence; remove the file");
                Err(file_error(self.file.path(), reason))
            }
        }
    }

    fn read(&self, rows: Range<u64>) -> Result<Vec<SampleRow>, DataError> {
        let at = |row| self.begin + row * ROW_SIZE;
        let bytes = self.file.read(at(rows.start)..at(rows.end))?;
        let (rows, _) = bytes.as_chunks::<4>().0.as_chunks::<3>();
        Ok(rows.iter().map(|row| row.map(u32::from_le_bytes)).collect())
    }
}

/// Writes the file that `numpy.save` writes.
pub(super) fn write_rows(path: &Path, rows: &[SampleRow]) -> Result<(), StorageError> {
    let mut header =
        format!("{{'descr': '<u4', 'fortran_order': False, 'shape': ({}, 3), }}", rows.len());
    let before = MAGIC.len() + 2;
    let padded = (before + header.len() + 1).next_multiple_of(ALIGNMENT) - before - 1;
    header = format!("{header:padded$}\n");
    let mut file = path.create_atomic()?;
    let length = (header.len() as u16).to_le_bytes();
    let mut write = |bytes: &[u8]| {
        file.write_all(bytes).map_err(|error| StorageError::new("write", path, error))
    };
    write(&[MAGIC, &length, header.as_bytes()].concat())?;
    rows.as_flattened().iter().try_for_each(|number| write(&number.to_le_bytes()))?;
    file.finish()
}

/// The byte at which the rows begin in an array of NumPy, and their number; `None` if it is not one of samples.
fn place_of_rows(head: &[u8]) -> Option<(u64, u64)> {
    let (length, rest) = head.strip_prefix(MAGIC)?.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_le_bytes(*length));
    let header = std::str::from_utf8(rest.get(..length)?).ok()?;
    let (count, _) = header.split_once("'shape': (")?.1.split_once(", 3)")?;
    let is_plain = header.contains("'<u4'") && header.contains("'fortran_order': False");
    let begin = (MAGIC.len() + 2 + length) as u64;
    Some((begin, count.parse().ok()?)).filter(|_| is_plain)
}
