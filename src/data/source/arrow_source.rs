//! Columnar files: Parquet, and Arrow as streams and files.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::file::Format;
use super::parse::RecordParser;
use super::patterns::{FilePattern, pattern_source};
use super::row_options::RowOptions;
use super::split::FileReading;
use crate::error::DataError;
use gimlet_gin::Configurable;

/// Rows of Parquet files, one row group at a time and only the requested columns. Structs are
/// flattened (`answers/text`), lists of structs become lists (`answers/text`), and lists of lists
/// keep their dimensions. Gimlet's own.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.ParquetDataSource")]
pub struct ParquetDataSource {
    /// Split to a glob or a list of globs, in any storage.
    pub split_to_filepattern: BTreeMap<String, FilePattern>,
    /// Features to keep; all if None.
    #[gin(default = None)]
    pub columns: Option<Vec<String>>,
    /// Options of reading its files.
    #[gin(flatten)]
    pub reading: FileReading,
}

impl ParquetDataSource {
    fn format(&self) -> Result<Format, DataError> {
        Ok(Format::Parquet(Arc::new(RowOptions::new(self.columns.as_deref()))))
    }

    fn header_lines(&self) -> u64 {
        0
    }

    fn parser(&self) -> Result<RecordParser, DataError> {
        Ok(RecordParser::of_columns(self.columns.as_deref()))
    }
}

pattern_source!(ParquetDataSource);

/// Rows of Arrow IPC files or streams, as saved by `datasets`, with the features of
/// `ParquetDataSource`. A whole saved data set is read by `HuggingFaceDataSource`. Gimlet's own.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.ArrowDataSource")]
pub struct ArrowDataSource {
    /// Split to a glob or a list of globs, in any storage.
    pub split_to_filepattern: BTreeMap<String, FilePattern>,
    /// Features to keep; all if None.
    #[gin(default = None)]
    pub columns: Option<Vec<String>>,
    /// Options of reading its files.
    #[gin(flatten)]
    pub reading: FileReading,
}

impl ArrowDataSource {
    fn format(&self) -> Result<Format, DataError> {
        Ok(Format::Arrow(Arc::new(RowOptions::new(self.columns.as_deref()))))
    }

    fn header_lines(&self) -> u64 {
        0
    }

    fn parser(&self) -> Result<RecordParser, DataError> {
        Ok(RecordParser::of_columns(self.columns.as_deref()))
    }
}

pattern_source!(ArrowDataSource);
