//! Rows of a Parquet file: one row group at a time, only the requested columns.

use std::io::{self, Read};
use std::iter;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};

use super::super::row_options::RowOptions;
use super::error::shorter;
use super::panics::decoded;
use super::position::RecordPosition;
use super::record::{Body, RecordReader};
use super::rows::{BATCH_ROWS, Rows};
use crate::error::{DataError, file_error};
use gimlet_storage::{Path, RangeFile};

/// The columns of a row group up to this size are fetched together.
const WHOLE_COLUMNS: u64 = 16 << 20;
/// Bytes fetched at once of longer columns.
const READ_AHEAD: u64 = 4 << 20;
/// Minimum number of bytes fetched for the header of a page.
const SMALL_READ: u64 = 8 << 10;

/// The number of rows of a Parquet file, from its footer.
pub(crate) fn num_rows(path: &Path) -> Result<u64, DataError> {
    let metadata = metadata_of(&FileBytes::open(path)?)?;
    Ok(metadata.metadata().file_metadata().num_rows().max(0) as u64)
}

/// Reads a file row by row.
pub(super) struct ParquetRows {
    file: FileBytes,
    options: Arc<RowOptions>,
    metadata: ArrowReaderMetadata,
    /// The row group that comes next.
    next_group: usize,
    /// Number of its rows to skip.
    offset: usize,
    batches: Option<ParquetRecordBatchReader>,
    batch: Option<(Arc<Rows>, usize)>,
    position: RecordPosition,
    checked: bool,
}

impl ParquetRows {
    /// Opens the file at a position that it returned, or at its beginning.
    pub(super) fn open_at(
        path: &Path,
        options: Arc<RowOptions>,
        position: RecordPosition,
    ) -> Result<Self, DataError> {
        let file = FileBytes::open(path)?;
        let metadata = metadata_of(&file)?;
        let mut rows = Self {
            file,
            options,
            metadata,
            next_group: 0,
            offset: 0,
            batches: None,
            batch: None,
            position: RecordPosition::default(),
            checked: false,
        };
        rows.skip(position.records)?;
        match rows.position.records == position.records {
            true => Ok(rows),
            false => Err(shorter(path)),
        }
    }

    fn rows_in(&self, group: usize) -> u64 {
        self.metadata.metadata().row_group(group).num_rows().max(0) as u64
    }

    fn error(&self, error: impl ToString) -> DataError {
        let (group, row) = (self.next_group, self.position.records + 1);
        let reason = error.to_string();
        file_error(self.file.path(), format!("row group {group}, row {row}: {reason}"))
    }

    /// The leaves of the schema that belong to the requested features.
    fn projection(&self) -> ProjectionMask {
        let schema = self.metadata.parquet_schema();
        let wanted = schema.columns().iter().enumerate().filter(|(_, column)| {
            // The names that writers give to the inner levels of a list.
            let parts = column.path().parts().iter();
            let is_list =
                |part: &&String| matches!(&part[..], "list" | "element" | "item" | "array");
            let names: Vec<&str> = parts
                .enumerate()
                .filter(|(i, part)| *i == 0 || !is_list(part))
                .map(|(_, p)| &p[..])
                .collect();
            self.options.wants(&names.join("/"))
        });
        ProjectionMask::leaves(schema, wanted.map(|(leaf, _)| leaf))
    }

    /// Opens the next row group; `false` after the last one.
    fn open_group(&mut self) -> Result<bool, DataError> {
        if self.next_group >= self.metadata.metadata().num_row_groups() {
            return Ok(false);
        }
        let group = self.metadata.metadata().row_group(self.next_group);
        let projection = self.projection();
        let wanted =
            group.columns().iter().enumerate().filter(|(i, _)| projection.leaf_included(*i));
        let columns: Option<Vec<_>> = wanted.map(|(_, column)| bytes_of(column)).collect();
        let within = |columns: &Vec<Range<u64>>| columns.iter().all(|c| c.end <= self.file.len());
        let Some(columns) = columns.filter(within) else {
            return Err(
                self.error("a column lies outside the file, which is damaged: fetch it again")
            );
        };
        self.file.expect(columns);
        let (file, metadata) = (self.file.clone(), self.metadata.clone());
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
            .with_row_groups(vec![self.next_group])
            .with_projection(projection)
            .with_batch_size(BATCH_ROWS)
            .with_offset(std::mem::take(&mut self.offset));
        self.batches = Some(builder.build().map_err(|error| self.error(error))?);
        self.next_group += 1;
        Ok(true)
    }

    /// Continues with the next batch; `false` at the end of the file.
    fn next_batch(&mut self) -> Result<bool, DataError> {
        let path = self.file.path().clone();
        decoded(&path, || self.decode_batch())
    }

    fn decode_batch(&mut self) -> Result<bool, DataError> {
        loop {
            match self.batches.as_mut().and_then(Iterator::next) {
                Some(batch) => {
                    let batch = batch.map_err(|error| self.error(error))?;
                    let rows = Rows::new(&batch, &self.options).map_err(|why| self.error(why))?;
                    if !self.checked {
                        let path = self.file.path();
                        let checked = self.options.check(path.as_str(), &rows.kinds());
                        checked.map_err(|reason| file_error(path, reason))?;
                        self.checked = true;
                    }
                    self.batch = Some((Arc::new(rows), 0));
                    return Ok(true);
                }
                None if self.open_group()? => {}
                None => return Ok(false),
            }
        }
    }
}

impl RecordReader for ParquetRows {
    fn next_record(&mut self) -> Result<Option<Body>, DataError> {
        loop {
            if let Some((batch, next)) = &mut self.batch
                && *next < batch.len
            {
                let body = Body::Row { batch: batch.clone(), index: *next };
                *next += 1;
                self.position.records += 1;
                return Ok(Some(body));
            }
            if !self.next_batch()? {
                return Ok(None);
            }
        }
    }

    fn position(&self) -> RecordPosition {
        self.position
    }

    /// Called only before the first row is read.
    fn skip(&mut self, mut count: u64) -> Result<(), DataError> {
        while self.next_group < self.metadata.metadata().num_row_groups() {
            let rows = self.rows_in(self.next_group) - self.offset as u64;
            if count < rows {
                self.offset += count as usize;
                self.position.records += count;
                break;
            }
            count -= rows;
            self.position.records += rows;
            self.offset = 0;
            self.next_group += 1;
        }
        Ok(())
    }
}

fn metadata_of(file: &FileBytes) -> Result<ArrowReaderMetadata, DataError> {
    // The types in the writer's memory say nothing more about features, and may not fit.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let unfit = |error| file_error(file.path(), format!("{error}; is it a whole Parquet file?"));
    decoded(file.path(), || ArrowReaderMetadata::load(file, options).map_err(unfit))
}

/// The byte range of a column in the file; `None` if its description is not valid.
fn bytes_of(column: &ColumnChunkMetaData) -> Option<Range<u64>> {
    // `byte_range` asserts that the numbers are not negative.
    let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
    let (start, length) =
        (u64::try_from(start).ok()?, u64::try_from(column.compressed_size()).ok()?);
    Some(start..start.checked_add(length)?)
}

/// The bytes of a file as Parquet requests them: whole columns if they are not too long, so that a
/// remote file needs few requests.
#[derive(Clone)]
struct FileBytes(Arc<Fetched>);

struct Fetched {
    file: RangeFile,
    state: Mutex<Window>,
}

#[derive(Default)]
struct Window {
    /// The byte ranges of the next columns.
    columns: Vec<Range<u64>>,
    /// The fetched parts of the file, each with its first byte.
    held: Vec<(u64, Bytes)>,
}

impl FileBytes {
    fn open(path: &Path) -> Result<Self, DataError> {
        Ok(Self(Arc::new(Fetched { file: path.open_ranges()?, state: Mutex::default() })))
    }

    fn path(&self) -> &Path {
        self.0.file.path()
    }

    /// Drops the fetched parts; these columns come next.
    fn expect(&self, columns: Vec<Range<u64>>) {
        *self.window() = Window { columns, held: Vec::new() };
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes from `start` on: at least `length` of them, if the file has them.
    fn fetch(&self, start: u64, length: u64) -> parquet::errors::Result<Bytes> {
        let end = start.saturating_add(length).min(self.len());
        if start > end {
            return Err(ParquetError::EOF(format!("it ends before byte {start}")));
        }
        let mut window = self.window();
        if let Some(bytes) = window.bytes(start, end) {
            return Ok(bytes);
        }
        let ranges = window.ranges(start, end, self.len());
        let read = self.0.file.read_all(&ranges);
        let read = read.map_err(|error| ParquetError::External(error.into()))?;
        let column = window.columns.iter().find(|column| column.contains(&start)).cloned();
        // Of a long column only one piece is held.
        window.held.retain(|(first, _)| column.as_ref().is_some_and(|c| !c.contains(first)));
        let starts = ranges.iter().map(|range| range.start);
        window.held.extend(starts.zip(read.into_iter().map(Bytes::from)));
        Ok(window.bytes(start, end).expect("it was just read"))
    }
}

impl Window {
    /// All held bytes from `start` on, if they reach to `end`.
    fn bytes(&self, start: u64, end: u64) -> Option<Bytes> {
        let holds =
            |(first, bytes): &&(u64, Bytes)| *first <= start && end <= first + bytes.len() as u64;
        let (first, bytes) = self.held.iter().find(holds)?;
        Some(bytes.slice((start - first) as usize..))
    }

    /// The ranges to read for these bytes: all columns together if they are short, otherwise the
    /// next piece of the column.
    fn ranges(&self, start: u64, end: u64, size: u64) -> Vec<Range<u64>> {
        let Some(column) = self.columns.iter().find(|column| column.contains(&start)) else {
            return iter::once(start..end).collect();
        };
        let total: u64 = self.columns.iter().map(|column| column.end - column.start).sum();
        if total <= WHOLE_COLUMNS && end <= column.end && self.held.is_empty() {
            return self.columns.clone();
        }
        let end = end.max((start + READ_AHEAD).min(column.end)).min(size);
        iter::once(start..end).collect()
    }
}

impl Length for FileBytes {
    fn len(&self) -> u64 {
        self.0.file.size()
    }
}

impl ChunkReader for FileBytes {
    type T = Reading;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Reading> {
        Ok(Reading { file: self.clone(), at: start, bytes: Bytes::new() })
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let bytes = self.fetch(start, length as u64)?;
        match bytes.len() >= length {
            true => Ok(bytes.slice(..length)),
            false => {
                Err(ParquetError::EOF(format!("it ends within {length} bytes from {start} on")))
            }
        }
    }
}

/// Reads the file from a byte on.
struct Reading {
    file: FileBytes,
    at: u64,
    bytes: Bytes,
}

impl Read for Reading {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.bytes.is_empty() && self.at < self.file.len() {
            self.bytes = self.file.fetch(self.at, SMALL_READ).map_err(io::Error::other)?;
        }
        let count = self.bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.bytes.split_to(count));
        self.at += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;
    use parquet::basic::Compression;
    use parquet::file::properties::WriterProperties;

    use super::super::testing::{file, rest};
    use super::*;

    /// A text longer than a fetch, so that no piece contains all of it.
    fn long_text(row: i64) -> String {
        format!("{row} ").repeat(500_000 + row as usize)
    }

    #[test]
    fn long_columns_are_read_in_pieces() {
        let texts: StringArray = (0..18).map(|row| Some(long_text(row))).collect();
        let numbers: Int64Array = (0..18).map(Some).collect();
        let columns: [(&str, ArrayRef); 2] = [("t", Arc::new(texts)), ("n", Arc::new(numbers))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let properties = WriterProperties::builder()
            .set_compression(Compression::UNCOMPRESSED)
            .set_dictionary_enabled(false)
            .set_data_page_size_limit(100_000)
            .build();
        let mut bytes = Vec::new();
        let mut writer =
            ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        assert!(bytes.len() as u64 > WHOLE_COLUMNS, "{}", bytes.len());
        let (_dir, path) = file(&bytes);
        let options = Arc::new(RowOptions::new(None));
        let start = RecordPosition { records: 5, ..RecordPosition::default() };
        let mut rows = ParquetRows::open_at(&path, options, start).unwrap();
        let found = rest(&mut rows, |body| match body {
            Body::Row { batch, index } => batch.example(index).unwrap().text("t").unwrap().into(),
            _ => panic!("no row"),
        });
        assert!(found == (5..18).map(long_text).collect::<Vec<String>>());
    }
}
