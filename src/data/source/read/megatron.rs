//! Documents of token ids as Megatron's `preprocess_data.py` stores them; [`Index`] describes the files.

use std::io::{BufReader, Read};
use std::ops::Range;

use super::error::{read_error, shorter};
use super::position::RecordPosition;
use super::record::{Body, RecordReader};
use crate::error::DataError;
use crate::megatron::{Index, cut_short};
use gimlet_storage::Path;

/// Number of documents whose places are read from the index at once.
const DOCUMENTS_AT_ONCE: u64 = 4096;
const BUFFER_SIZE: usize = 256 << 10;

/// The ranges of the documents' ids in the `.bin` file.
fn places(index: &Index, documents: Range<u64>) -> Result<Vec<Range<u64>>, DataError> {
    let firsts = index.documents(documents)?;
    let (begin, end) = (firsts[0], firsts[firsts.len() - 1]);
    let (lengths, starts) = (index.lengths(begin..end)?, index.starts(begin..end)?);
    let place = |pair: &[u64]| {
        let (first, behind) = ((pair[0] - begin) as usize, (pair[1] - begin) as usize);
        if first == behind {
            return 0..0;
        }
        let length = u64::from(lengths[behind - 1]) * index.token_type.size();
        starts[first]..starts[behind - 1].saturating_add(length)
    };
    Ok(firsts.windows(2).map(place).collect())
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
        let index = Index::open_beside(path)?;
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
            self.places = places(&self.index, number..end)?;
            self.first = number;
        }
        Ok(Some(self.places[(number - self.first) as usize].clone()))
    }

    fn read(&mut self, place: &Range<u64>) -> Result<Vec<u8>, DataError> {
        if place.start > place.end || place.end > self.size {
            let document = format!("document {}", self.position.records + 1);
            return Err(cut_short(&self.path, &document, place, self.size));
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
        Ok(Some(Body::Tokens { bytes, dtype: self.index.token_type }))
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
