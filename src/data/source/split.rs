//! The files of one split and how to read them, for a task's source or its cache.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::bad::BadRecordPolicy;
use super::parse::RecordParser;
use super::read::{
    CsvOptions, PythonSource, RecordPosition, RowOptions, about_num_rows, expansion, num_rows,
};
use crate::error::DataError;
use gimlet_storage::Path;

/// The format of a file's records.
#[derive(Clone, Debug)]
pub(crate) enum Format {
    /// Text, one record for each line.
    Text,
    /// JSON objects: one on each line, or the items of an array, which may be the value of a key.
    Json { field: Option<String> },
    /// Fields between delimiters.
    Csv(Arc<CsvOptions>),
    /// Protos in TFRecords: `tf.Example`s, as in caches.
    TfRecord,
    /// Rows of a Parquet file.
    Parquet(Arc<RowOptions>),
    /// Rows of an Arrow IPC file or stream.
    Arrow(Arc<RowOptions>),
    /// Documents of token ids: a `.bin` file with its `.idx` file.
    Megatron,
    /// Examples that a function of the user's Python makes.
    Python { source: Arc<PythonSource>, num_examples: Option<u64> },
    /// Generated examples: example `i` is a function of `i`.
    Generated { num_examples: u64, bytes_per_example: u64 },
}

/// A file of a split.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    pub path: Path,
    pub format: Format,
    /// The records to read, from 0; all if None.
    pub records: Option<Range<u64>>,
}

impl SourceFile {
    /// A file that is read completely.
    pub(crate) fn new(path: Path, format: Format) -> Self {
        Self { path, format, records: None }
    }

    /// Size of the file in bytes; for data that are not stored, an estimate.
    pub(crate) fn size(&self) -> Result<u64, DataError> {
        match self.format {
            Format::Generated { num_examples, bytes_per_example } => {
                Ok(num_examples.saturating_mul(bytes_per_example))
            }
            // Size 0, since the records are read by one stream.
            Format::Python { .. } => Ok(0),
            _ => Ok(self.path.size()?),
        }
    }

    /// Length of the part to read, in the unit of positions; an estimate if the file is compressed
    /// or Arrow with many batches.
    pub(crate) fn length(&self) -> Result<Length, DataError> {
        let records = |count| Ok(Length::Records { first: 0, count });
        match (&self.records, &self.format) {
            (Some(part), _) => {
                Ok(Length::Records { first: part.start, count: part.end - part.start })
            }
            (None, Format::Python { num_examples, .. }) => records(num_examples.unwrap_or(0)),
            (None, Format::Generated { num_examples, .. }) => records(*num_examples),
            (None, Format::Parquet(_)) => records(num_rows(&self.path)?),
            (None, Format::Arrow(_)) => records(about_num_rows(&self.path)?),
            (None, _) => Ok(Length::Bytes(self.size()? as f64 * expansion(&self.path)?)),
        }
    }

    /// The place, for messages, of a record with this number, from 1, and byte offset.
    pub(crate) fn place(&self, number: u64, offset: u64) -> RecordPlace<'_> {
        RecordPlace { file: self, number, offset }
    }
}

/// Length of the part of a file that is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Length {
    /// `count` records, beginning with record `first`.
    Records { first: u64, count: u64 },
    /// Number of uncompressed bytes.
    Bytes(f64),
}

impl Length {
    /// The share before a position, from 0 to 1.
    pub(crate) fn share_before(self, position: RecordPosition) -> f64 {
        match self {
            Self::Records { first, count } => {
                share(position.records.saturating_sub(first) as f64, count as f64)
            }
            Self::Bytes(whole) => share(position.bytes as f64, whole),
        }
    }
}

/// Returns at least one in a billion, so that callers can divide by it.
fn share(part: f64, whole: f64) -> f64 {
    (part / whole.max(1.0)).clamp(1e-9, 1.0)
}

/// A place, displayed as `file:line at byte 20` or `file, record 3 at byte 20`; without the byte if
/// records are not read by offset.
pub(crate) struct RecordPlace<'a> {
    file: &'a SourceFile,
    number: u64,
    offset: u64,
}

impl fmt::Display for RecordPlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file: SourceFile { path, format, .. }, number, offset } = self;
        match format {
            Format::Text | Format::Json { field: None } => {
                write!(f, "{path}:{number} at byte {offset}")
            }
            Format::Json { .. } | Format::Csv(_) | Format::TfRecord => {
                write!(f, "{path}, record {number} at byte {offset}")
            }
            Format::Parquet(_) | Format::Arrow(_) => write!(f, "{path}, row {number}"),
            Format::Megatron => write!(f, "{path}, document {number}"),
            Format::Python { .. } => write!(f, "{path} record {number}"),
            Format::Generated { .. } => write!(f, "{path} example {number}"),
        }
    }
}

/// The files of one split, and how to read them.
#[derive(Clone)]
pub(crate) struct SplitFiles {
    pub files: Vec<SourceFile>,
    /// Maximum number of records read, in the order without shuffling; all if None.
    pub most: Option<u64>,
    /// Files read in turn.
    pub cycle_length: usize,
    /// Records taken from a file before the next one's turn.
    pub block_length: usize,
    pub skip_header_lines: u64,
    pub parser: RecordParser,
    pub bad_records: BadRecordPolicy,
}

/// SeqIO's defaults for reading several files: number of files read in turn, and records taken from
/// each.
pub(crate) const CYCLE_LENGTH: usize = 16;
pub(crate) const BLOCK_LENGTH: usize = 16;

impl SplitFiles {
    /// Files read as SeqIO reads them; a bad record is an error.
    pub(crate) fn new(files: Vec<SourceFile>, parser: RecordParser) -> Self {
        Self {
            files,
            most: None,
            cycle_length: CYCLE_LENGTH,
            block_length: BLOCK_LENGTH,
            skip_header_lines: 0,
            parser,
            bad_records: BadRecordPolicy::default(),
        }
    }
}
