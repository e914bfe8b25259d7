//! Rows of a Parquet file: one row group at a time, only the columns asked for.

use std::io::Cursor;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use super::rows::{BATCH_ROWS, RowOptions, Rows};
use super::{Body, RecordPosition, RecordReader, file_error, shorter};
use crate::data::error::DataError;
use crate::storage::Path;

/// A column of a row group up to this size is fetched at once.
const WHOLE_COLUMN: u64 = 64 << 20;
/// What is fetched of longer ones, beyond what was asked for.
const READ_AHEAD: u64 = 1 << 20;

/// The number of rows of a Parquet file, as its end tells.
pub(crate) fn num_rows(path: &Path) -> Result<u64, DataError> {
    let metadata = metadata_of(&FileBytes::new(path)?)?;
    Ok(metadata.metadata().file_metadata().num_rows().max(0) as u64)
}

/// Reads a file row by row.
pub(super) struct ParquetRows {
    file: FileBytes,
    options: Arc<RowOptions>,
    metadata: ArrowReaderMetadata,
    /// The row group that comes next.
    next_group: usize,
    /// Rows of it to pass.
    offset: usize,
    batches: Option<ParquetRecordBatchReader>,
    batch: Option<(Arc<Rows>, usize)>,
    position: RecordPosition,
    checked: bool,
}

impl ParquetRows {
    /// Opens the file at a position that it once gave, or at its beginning.
    pub(super) fn open_at(
        path: &Path,
        options: Arc<RowOptions>,
        position: RecordPosition,
    ) -> Result<Self, DataError> {
        let file = FileBytes::new(path)?;
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
        file_error(&self.file.0.path, format!("row group {group}, row {row}: {reason}"))
    }

    /// The leaves of the schema that make up the features asked for.
    fn projection(&self) -> ProjectionMask {
        let schema = self.metadata.parquet_schema();
        let wanted = schema.columns().iter().enumerate().filter(|(_, column)| {
            // The names that writers give to what a list is made of.
            let parts = column.path().parts().iter();
            let is_list = |part: &&String| matches!(&part[..], "list" | "element" | "item" | "array");
            let names: Vec<&str> =
                parts.enumerate().filter(|(i, part)| *i == 0 || !is_list(part)).map(|(_, p)| &p[..]).collect();
            self.options.wants(&names.join("/"))
        });
        ProjectionMask::leaves(schema, wanted.map(|(leaf, _)| leaf))
    }

    /// Opens the next row group; `false` behind the last one.
    fn open_group(&mut self) -> Result<bool, DataError> {
        if self.next_group >= self.metadata.metadata().num_row_groups() {
            return Ok(false);
        }
        let group = self.metadata.metadata().row_group(self.next_group);
        let columns = group.columns().iter().map(|column| {
            let (start, length) = column.byte_range();
            start..start + length
        });
        self.file.expect(columns.collect());
        let (file, metadata) = (self.file.clone(), self.metadata.clone());
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
            .with_row_groups(vec![self.next_group])
            .with_projection(self.projection())
            .with_batch_size(BATCH_ROWS)
            .with_offset(std::mem::take(&mut self.offset));
        self.batches = Some(builder.build().map_err(|error| self.error(error))?);
        self.next_group += 1;
        Ok(true)
    }

    /// Decodes the next batch; `false` at the end of the file.
    fn next_batch(&mut self) -> Result<bool, DataError> {
        loop {
            match self.batches.as_mut().and_then(Iterator::next) {
                Some(batch) => {
                    let batch = batch.map_err(|error| self.error(error))?;
                    let rows = Rows::new(&batch, &self.options).map_err(|why| self.error(why))?;
                    if !self.checked {
                        let path = &self.file.0.path;
                        let checked = self.options.check(path.as_str(), &rows);
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

    /// Only to be called before the first row is read.
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
    // The types that the writer had in memory say no more about features, and may not fit.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    ArrowReaderMetadata::load(file, options).map_err(|error| {
        file_error(&file.0.path, format!("{error}; is it a whole Parquet file?"))
    })
}

/// The bytes of a file as Parquet asks for them: whole columns where they are not too long, so
/// that a remote file takes few requests.
#[derive(Clone)]
struct FileBytes(Arc<Fetched>);

struct Fetched {
    path: Path,
    size: u64,
    /// Where the columns of the row group lie.
    columns: Mutex<Vec<Range<u64>>>,
    held: Mutex<Vec<(u64, Bytes)>>,
}

impl FileBytes {
    fn new(path: &Path) -> Result<Self, DataError> {
        let (columns, held) = (Mutex::default(), Mutex::default());
        Ok(Self(Arc::new(Fetched { path: path.clone(), size: path.size()?, columns, held })))
    }

    /// Forgets what was fetched; these columns come next.
    fn expect(&self, columns: Vec<Range<u64>>) {
        *self.0.columns.lock().unwrap_or_else(PoisonError::into_inner) = columns;
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Bytes from `start` on: at least `length` of them, where the file has them.
    fn fetch(&self, start: u64, length: u64) -> Result<Bytes, ParquetError> {
        let Fetched { path, size, columns, held } = &*self.0;
        let end = start.saturating_add(length);
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = |(first, bytes): &&(u64, Bytes)| {
            *first <= start && end <= first + bytes.len() as u64
        };
        if let Some((first, bytes)) = held.iter().find(holds) {
            return Ok(bytes.slice((start - first) as usize..));
        }
        let columns = columns.lock().unwrap_or_else(PoisonError::into_inner);
        let column = columns.iter().find(|column| column.start <= start && start < column.end);
        let range = match column {
            Some(column) if column.end - column.start <= WHOLE_COLUMN => {
                column.start..column.end.max(end)
            }
            Some(column) => start..end.max((start + READ_AHEAD).min(column.end)),
            None => start..end,
        };
        let range = range.start..range.end.min((*size).max(end));
        let bytes = path.read_range(range.clone()).map_err(|e| ParquetError::External(e.into()))?;
        let bytes = Bytes::from(bytes);
        held.retain(|(first, _)| !column.is_some_and(|column| column.contains(first)));
        held.push((range.start, bytes.clone()));
        Ok(bytes.slice((start - range.start) as usize..))
    }
}

impl Length for FileBytes {
    fn len(&self) -> u64 {
        self.0.size
    }
}

impl ChunkReader for FileBytes {
    type T = Cursor<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        let length = self.0.size.saturating_sub(start).min(READ_AHEAD);
        let columns = self.0.columns.lock().unwrap_or_else(PoisonError::into_inner);
        let column = columns.iter().find(|column| column.start <= start && start < column.end);
        let length = column.map_or(length, |column| length.min(column.end - start));
        drop(columns);
        self.fetch(start, length).map(Cursor::new)
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        Ok(self.fetch(start, length as u64)?.slice(..length))
    }
}
