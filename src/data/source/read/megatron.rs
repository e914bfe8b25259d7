//! Documents of token ids as Megatron's `preprocess_data.py` stores them.
//!
//! ```text
//! .idx: "MMIDIDX\0\0" | u64 version 1 | u8 dtype | u64 sequences | u64 documents + 1
//!       | i32 length of each sequence | i64 byte in .bin of each | i64 first sequence of each document
//! .bin: the ids, one after the other
//! ```
//! All little-endian. A document is one sequence, or several if sentences were split.

use std::io::{BufReader, Read};
use std::ops::Range;

use super::error::{file_error, read_error, shorter};
use super::position::RecordPosition;
use super::record::{Body, RecordReader};
use super::token_type::TokenType;
use crate::error::DataError;
use gimlet_storage::Path;

const MAGIC: &[u8] = b"MMIDIDX\0\0";
const VERSION: u64 = 1;
const HEADER: u64 = 34;
/// Number of documents whose places are read from the index at once.
const DOCUMENTS_AT_ONCE: u64 = 4096;
const BUFFER_SIZE: usize = 256 << 10;

/// The path of the index of a `.bin` file.
fn index_of(bin: &Path) -> Result<Path, DataError> {
    let name = bin.as_str().strip_suffix(".bin").unwrap_or(bin.as_str());
    Ok(Path::parse(&format!("{name}.idx"))?)
}

/// The header of an index.
struct Index {
    path: Path,
    dtype: TokenType,
    num_sequences: u64,
    num_documents: u64,
}

impl Index {
    fn open(path: Path) -> Result<Self, DataError> {
        let size = path.size()?;
        let head = path.read_range(0..HEADER.min(size))?;
        let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("8 bytes"));
        if (head.len() as u64) < HEADER || !head.starts_with(MAGIC) {
            return Err(file_error(&path, "it is not an index of Megatron (\"MMIDIDX\")"));
        }
        if number(9) != VERSION {
            let found = format!("it is of version {}, expected {VERSION}", number(9));
            return Err(file_error(&path, found));
        }
        let code = head[17];
        let Some(dtype) = TokenType::of_code(code) else {
            return Err(file_error(&path, format!("its type {code} is not one of token ids")));
        };
        let (num_sequences, entries) = (number(18), number(26));
        let expected = (num_sequences.checked_mul(12))
            .and_then(|bytes| bytes.checked_add(entries.checked_mul(8)?)?.checked_add(HEADER));
        if expected != Some(size) {
            let found = format!(
                "it has {size} bytes, which do not fit {num_sequences} sequences and {entries} \
                 documents"
            );
            return Err(file_error(&path, found));
        }
        Ok(Self { path, dtype, num_sequences, num_documents: entries.saturating_sub(1) })
    }

    /// Reads numbers of one of the tables.
    fn table<const SIZE: usize>(
        &self,
        start: u64,
        range: Range<u64>,
    ) -> Result<Vec<[u8; SIZE]>, DataError> {
        let at = |entry| start + entry * SIZE as u64;
        let bytes = self.path.read_range(at(range.start)..at(range.end))?;
        Ok(bytes.as_chunks().0.to_vec())
    }

    /// The ranges of the documents' ids in the `.bin` file.
    fn places(&self, documents: Range<u64>) -> Result<Vec<Range<u64>>, DataError> {
        let (lengths, pointers) = (HEADER, HEADER + 4 * self.num_sequences);
        let firsts = pointers + 8 * self.num_sequences;
        let firsts = self.table::<8>(firsts, documents.start..documents.end + 1)?;
        let firsts: Vec<u64> = firsts.into_iter().map(u64::from_le_bytes).collect();
        let (begin, end) = (firsts[0], firsts[firsts.len() - 1]);
        if !firsts.is_sorted() || end > self.num_sequences {
            return Err(file_error(&self.path, "its documents are out of order"));
        }
        let lengths = self.table::<4>(lengths, begin..end)?;
        let pointers = self.table::<8>(pointers, begin..end)?;
        let place = |pair: &[u64]| {
            let (first, behind) = ((pair[0] - begin) as usize, (pair[1] - begin) as usize);
            if first == behind {
                return 0..0;
            }
            let start = u64::from_le_bytes(pointers[first]);
            let last = u64::from_le_bytes(pointers[behind - 1]);
            let length = u64::from(u32::from_le_bytes(lengths[behind - 1]));
            start..last.saturating_add(length * self.dtype.size())
        };
        Ok(firsts.windows(2).map(place).collect())
    }
}

/// Reads a `.bin` document by document.
pub(super) struct Documents {
    path: Path,
    size: u64,
    index: Index,
    /// Ranges of the documents after the position, and the number of the first of them.
    places: Vec<Range<u64>>,
    first: u64,
    reader: Option<(u64, BufReader<Box<dyn Read + Send>>)>,
    position: RecordPosition,
}

impl Documents {
    /// Opens the file at a position that it returned, or at its beginning.
    pub(super) fn open_at(path: &Path, position: RecordPosition) -> Result<Self, DataError> {
        let index = Index::open(index_of(path)?)?;
        if position.records > index.num_documents {
            return Err(shorter(path));
        }
        let (path, size) = (path.clone(), path.size()?);
        Ok(Self { path, size, index, places: Vec::new(), first: 0, reader: None, position })
    }

    /// The range of the next document; `None` after the last one.
    fn next_place(&mut self) -> Result<Option<Range<u64>>, DataError> {
        let number = self.position.records;
        if number >= self.index.num_documents {
            return Ok(None);
        }
        if !(self.first..self.first + self.places.len() as u64).contains(&number) {
            let end = (number + DOCUMENTS_AT_ONCE).min(self.index.num_documents);
            self.places = self.index.places(number..end)?;
            self.first = number;
        }
        Ok(Some(self.places[(number - self.first) as usize].clone()))
    }

    fn read(&mut self, place: &Range<u64>) -> Result<Vec<u8>, DataError> {
        if place.start > place.end || place.end > self.size {
            let (document, Range { start, end }) = (self.position.records + 1, place);
            return Err(file_error(
                &self.path,
                format!(
                    "document {document} should lie at bytes {start} to {end} of {}; is it complete?",
                    self.size
                ),
            ));
        }
        let reader = match &mut self.reader {
            Some((offset, reader)) if *offset == place.start => reader,
            _ => {
                let opened = self.path.open_at(place.start)?;
                let reader = BufReader::with_capacity(BUFFER_SIZE, opened);
                &mut self.reader.insert((place.start, reader)).1
            }
        };
        let mut bytes = vec![0; (place.end - place.start) as usize];
        let read = reader.read_exact(&mut bytes);
        read.map_err(|source| read_error(&self.path, self.position, source))?;
        self.reader.as_mut().expect("it was read").0 = place.end;
        Ok(bytes)
    }
}

impl RecordReader for Documents {
    fn next_record(&mut self) -> Result<Option<Body>, DataError> {
        let Some(place) = self.next_place()? else { return Ok(None) };
        let bytes = self.read(&place)?;
        self.position.records += 1;
        self.position.bytes = place.end;
        Ok(Some(Body::Tokens { bytes, dtype: self.index.dtype }))
    }

    fn position(&self) -> RecordPosition {
        self.position
    }

    fn skip(&mut self, count: u64) -> Result<(), DataError> {
        let num_documents = self.index.num_documents;
        self.position.records = self.position.records.saturating_add(count).min(num_documents);
        Ok(())
    }
}
