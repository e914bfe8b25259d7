//! A file of a split, and the format of its records; reading them is above.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::row_options::RowOptions;
use crate::error::DataError;
use crate::megatron::Samples;
use gimlet_python::{PythonFunction, PythonWorkers};
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
    /// Samples of Megatron's sentences: sample `i` is a function of `i`.
    Samples(Arc<Samples>),
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
        match &self.format {
            &Format::Generated { num_examples, bytes_per_example } => {
                Ok(num_examples.saturating_mul(bytes_per_example))
            }
            Format::Samples(samples) => samples.size(),
            // Size 0, since the records are read by one stream.
            Format::Python { .. } => Ok(0),
            _ => Ok(self.path.size()?),
        }
    }

    /// The place, for messages, of a record with this number, from 1, and byte offset.
    pub(crate) fn place(&self, number: u64, offset: u64) -> RecordPlace<'_> {
        RecordPlace { file: self, number, offset }
    }
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
            Format::Samples(_) => write!(f, "{path}, sample {number}"),
        }
    }
}

/// Options for reading a file of delimited fields.
#[derive(Clone, Debug)]
pub(crate) struct CsvOptions {
    pub delimiter: u8,
    /// The character that encloses fields; `None` treats quotes as text.
    pub quote: Option<u8>,
    /// Names of the columns; `None` takes the names in the first record.
    pub column_names: Option<Vec<String>>,
    /// Records dropped before the names.
    pub skip: u64,
    /// Columns that each file must have, since they have a type.
    pub typed: Vec<String>,
}

/// A split of a source that Python reads.
#[derive(Debug)]
pub(crate) struct PythonSource {
    pub task: String,
    pub split: String,
    pub function: PythonFunction,
    pub workers: PythonWorkers,
}

impl PythonSource {
    /// The name in a path: module and function, or module and task.
    pub(crate) fn name(&self) -> String {
        let PythonFunction { module, function, task, .. } = &self.function;
        format!("{module}:{}", function.as_ref().or(task.as_ref()).map_or("", String::as_str))
    }

    /// The error of a split that cannot be read.
    pub(crate) fn error(&self, reason: String) -> DataError {
        let place = format!("split '{}'", self.split);
        DataError::Python { task: self.task.clone(), place, reason }
    }
}
