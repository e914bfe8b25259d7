//! The records of one file; each format has a [`RecordReader`].
//!
//! A reader knows its exact position and can be opened at any position that it returned. It cuts
//! files into records; [`super::parse`] converts them to examples on other threads.

mod arrow_ipc;
mod bounded;
mod csv;
mod decode;
mod frames;
mod json_items;
mod leaf;
mod lines;
mod megatron;
mod panics;
mod parquet;
mod python;
mod rows;
mod seek;
mod testing;
mod tests;
mod tf_record;

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::split::{Format, SourceFile};
use crate::error::DataError;
use crate::example::{Example, Key, Value};
use decode::{Compression, PROBE};
use gimlet_storage::Path;

pub(crate) use arrow_ipc::about_num_rows;
pub(crate) use csv::{CsvOptions, fields};
pub(crate) use decode::expansion;
pub use frames::FrameStart;
pub(crate) use megatron::TokenType;
pub(crate) use parquet::num_rows;
pub(crate) use python::PythonSource;
pub(crate) use rows::{RowOptions, Rows};
pub(crate) use tf_record::frame;

/// A position in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordPosition {
    /// Records before it.
    pub records: u64,
    /// Uncompressed bytes before it, or before the batch that contains it.
    pub bytes: u64,
    /// Rows of that batch before it.
    pub within: u64,
    /// The start of the frame from which decompression reaches it.
    pub frame: FrameStart,
}

/// The content of a record, as a reader returns it.
pub(crate) enum Body {
    /// Its bytes.
    Bytes(Vec<u8>),
    /// The JSON of an array's item.
    Item(Vec<u8>),
    /// A CSV record and the names of its fields.
    Fields { bytes: Vec<u8>, columns: Arc<[Key]> },
    /// A row of a batch.
    Row { batch: Arc<Rows>, index: usize },
    /// Token ids.
    Tokens { bytes: Vec<u8>, dtype: TokenType },
    /// The examples that Python made.
    Example(Box<Example>),
    /// No content: the record's number is enough.
    Number,
}

impl Body {
    /// Approximate size in memory, in bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Bytes(bytes)
            | Self::Item(bytes)
            | Self::Fields { bytes, .. }
            | Self::Tokens { bytes, .. } => bytes.len(),
            Self::Row { batch, .. } => batch.bytes / batch.len.max(1),
            Self::Example(example) => {
                let size = |value: &Value| match value {
                    Value::Text(text) => text.len(),
                    other => 8 * other.len().unwrap_or(1),
                };
                example.iter().map(|(_, value)| size(value)).sum()
            }
            Self::Number => 0,
        }
    }
}

/// Reads a file record by record and knows its position.
pub(crate) trait RecordReader: Send {
    /// The next record; `None` at the end of the file.
    fn next_record(&mut self) -> Result<Option<Body>, DataError>;

    /// The position after the last record.
    fn position(&self) -> RecordPosition;

    /// Whether, after an error, the next record can be read.
    fn recovers(&self) -> bool {
        false
    }

    /// Whether, after an error, no records follow the record in error: the file ends within it. The
    /// rest of a compressed stream is unknown after the point at which it breaks off.
    fn breaks_off(&self) -> bool {
        false
    }

    /// Skips records without parsing them.
    fn skip(&mut self, count: u64) -> Result<(), DataError> {
        // Blank lines count, and may be skipped together with a record.
        let goal = self.position().records + count;
        while self.position().records < goal {
            match self.next_record() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) if self.recovers() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Opens a file at a position that [`RecordReader::position`] returned, or at its beginning.
pub(crate) fn open_records(
    file: &SourceFile,
    position: RecordPosition,
) -> Result<Box<dyn RecordReader>, DataError> {
    let path = &file.path;
    gimlet_telemetry::detail_once(&format!("opening {path}"));
    let mut reader: Box<dyn RecordReader> = match &file.format {
        Format::Text => Box::new(lines::Lines::open_at(path, position)?),
        Format::Json { field } => json_items::open_json(path, field.as_deref(), position)?,
        Format::Csv(options) => Box::new(csv::CsvRecords::open_at(path, options, position)?),
        Format::TfRecord => Box::new(tf_record::TfRecords::open_at(path, position)?),
        Format::Parquet(options) => {
            Box::new(parquet::ParquetRows::open_at(path, options.clone(), position)?)
        }
        Format::Arrow(options) => arrow_ipc::open_arrow(path, options.clone(), position)?,
        Format::Megatron => Box::new(megatron::Documents::open_at(path, position)?),
        Format::Python { source, .. } => {
            Box::new(python::PythonRecords::open_at(source.clone(), position))
        }
        Format::Generated { num_examples, .. } => {
            Box::new(Numbers { position, num_examples: *num_examples })
        }
    };
    let Some(range) = file.records.clone() else { return Ok(reader) };
    let reached = reader.position().records;
    reader.skip(range.start.saturating_sub(reached))?;
    Ok(Box::new(RecordRange { path: path.clone(), reader, range }))
}

/// A range of a file's records.
struct RecordRange {
    path: Path,
    reader: Box<dyn RecordReader>,
    range: Range<u64>,
}

impl RecordReader for RecordRange {
    fn next_record(&mut self) -> Result<Option<Body>, DataError> {
        if self.reader.position().records >= self.range.end {
            return Ok(None);
        }
        let record = self.reader.next_record()?;
        match record.is_some() {
            true => Ok(record),
            false => Err(self.ends_early()),
        }
    }

    fn position(&self) -> RecordPosition {
        self.reader.position()
    }

    fn recovers(&self) -> bool {
        self.reader.recovers()
    }

    /// If records are missing after the one in error, more than that one is lost.
    fn breaks_off(&self) -> bool {
        self.reader.breaks_off() && self.reader.position().records + 1 >= self.range.end
    }
}

impl RecordRange {
    /// The error of a file with fewer records than the description of its data set counts.
    fn ends_early(&self) -> DataError {
        let (found, expected) = (self.reader.position().records, self.range.end);
        let reason = format!(
            "it ends after {found} of at least {expected} records, the number that its data set gives; \
             fetch or prepare the file again"
        );
        file_error(&self.path, reason)
    }
}

/// Record numbers without a file.
struct Numbers {
    position: RecordPosition,
    num_examples: u64,
}

impl RecordReader for Numbers {
    fn next_record(&mut self) -> Result<Option<Body>, DataError> {
        let ended = self.position.records >= self.num_examples;
        self.position.records += u64::from(!ended);
        Ok((!ended).then_some(Body::Number))
    }

    fn position(&self) -> RecordPosition {
        self.position
    }

    fn skip(&mut self, count: u64) -> Result<(), DataError> {
        self.position.records += count;
        Ok(())
    }
}

/// The size, for messages, of a file's part after a byte of its records. For compressed files, the
/// byte in the file is unknown.
pub(crate) fn lost_behind(file: &SourceFile, offset: u64) -> String {
    let compression_of = match file.format {
        Format::TfRecord => tf_record::compression_of,
        _ => Compression::of_text,
    };
    let plain_size = || {
        let size = file.path.size().ok()?;
        let first = file.path.read_range(0..size.min(PROBE as u64)).ok()?;
        (compression_of(&first) == Compression::Plain).then_some(size)
    };
    match plain_size() {
        Some(size) => format!("{} of its {size} bytes", size.saturating_sub(offset)),
        None => format!("all behind byte {offset} of its decompressed bytes"),
    }
}

/// The error of a file that cannot be read beyond a position.
fn read_error(path: &Path, position: RecordPosition, source: io::Error) -> DataError {
    let RecordPosition { records, bytes, .. } = position;
    DataError::Read { file: path.to_string(), line: records, offset: bytes, source }
}

/// The error of a file whose content is not as expected.
fn file_error(path: &Path, reason: impl ToString) -> DataError {
    DataError::File { file: path.to_string(), reason: reason.to_string() }
}

/// The error of a position after the end of a file.
fn shorter(path: &Path) -> DataError {
    DataError::State { reason: format!("`{path}` is shorter than it was") }
}
