//! Lines of text and of JSON.

use std::collections::BTreeMap;

use super::file::Format;
use super::parse::RecordParser;
use super::patterns::{FilePattern, pattern_source};
use super::split::FileReading;
use crate::error::DataError;
use gimlet_gin::Configurable;

/// Lines of text files, plain, gzip or zstd, as `{'text': line}`. Source: SeqIO
/// `dataset_providers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "seqio.TextLineDataSource",
    alias = "seqio.dataset_providers.TextLineDataSource",
    ignored(
        caching_permitted = "caching is asked for by `CacheDatasetPlaceholder`",
        file_shuffle_buffer_size = "all files are shuffled at once"
    )
)]
pub struct TextLineDataSource {
    /// Split to a glob or a list of globs, in any storage.
    pub split_to_filepattern: BTreeMap<String, FilePattern>,
    /// Lines dropped at the beginning of each file.
    #[gin(default = 0)]
    pub skip_header_lines: u64,
    /// Options of reading its files.
    #[gin(flatten)]
    pub reading: FileReading,
}

impl TextLineDataSource {
    fn format(&self) -> Result<Format, DataError> {
        Ok(Format::Text)
    }

    fn header_lines(&self) -> u64 {
        self.skip_header_lines
    }

    fn parser(&self) -> Result<RecordParser, DataError> {
        Ok(RecordParser::of_columns(None))
    }
}

pattern_source!(TextLineDataSource);

/// JSON objects, one on each line, plain, gzip or zstd; also files that are one JSON array, or an
/// object with an array under the key `field`. Strings, numbers and lists of them become features;
/// nested objects are flattened (`answers/text`), and lists of objects become lists (`answers/text`
/// of `[{"text": ...}]`). Gimlet's own.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.JsonLinesDataSource")]
pub struct JsonLinesDataSource {
    /// Split to a glob or a list of globs, in any storage.
    pub split_to_filepattern: BTreeMap<String, FilePattern>,
    /// Features to keep; all if None.
    #[gin(default = None)]
    pub columns: Option<Vec<String>>,
    /// The key whose value is the array of examples, in files that are one object.
    #[gin(default = None)]
    pub field: Option<String>,
    /// Options of reading its files.
    #[gin(flatten)]
    pub reading: FileReading,
}

impl JsonLinesDataSource {
    fn format(&self) -> Result<Format, DataError> {
        Ok(Format::Json { field: self.field.clone() })
    }

    fn header_lines(&self) -> u64 {
        0
    }

    fn parser(&self) -> Result<RecordParser, DataError> {
        Ok(RecordParser::of_columns(self.columns.as_deref()))
    }
}

pattern_source!(JsonLinesDataSource);
