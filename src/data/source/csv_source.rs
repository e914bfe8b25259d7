//! Comma- or tab-separated values.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::column_type::ColumnType;
use super::file::CsvOptions;
use super::file::Format;
use super::parse::RecordParser;
use super::patterns::{FilePattern, pattern_source};
use super::split::FileReading;
use crate::error::DataError;
use gimlet_gin::Configurable;

/// Records of delimited fields, plain, gzip or zstd, one feature for each column; quoted as in RFC
/// 4180, so a field in quotes may contain delimiters, line ends and doubled quotes. Gimlet's own.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.CsvDataSource")]
pub struct CsvDataSource {
    /// Split to a glob or a list of globs, in any storage.
    pub split_to_filepattern: BTreeMap<String, FilePattern>,
    /// The character between fields, such as ',' or '\t'.
    #[gin(default = ",".to_string())]
    pub delimiter: String,
    /// The character that encloses fields with delimiters; None treats quotes as text.
    #[gin(default = Some("\"".to_string()))]
    pub quote_char: Option<String>,
    /// Names of the columns; None takes the names in each file's first record.
    #[gin(default = None)]
    pub column_names: Option<Vec<String>>,
    /// Records dropped at the beginning of each file, before the names.
    #[gin(default = 0)]
    pub skip_header_lines: u64,
    /// Columns to keep; all if None.
    #[gin(default = None)]
    pub columns: Option<Vec<String>>,
    /// Column to its type: 'int', 'float' or 'string'; the others are 'string'.
    #[gin(default = BTreeMap::new())]
    pub dtypes: BTreeMap<String, ColumnType>,
    /// Options of reading its files.
    #[gin(flatten)]
    pub reading: FileReading,
}

impl CsvDataSource {
    fn format(&self) -> Result<Format, DataError> {
        let delimiter = one_byte("delimiter", &self.delimiter)?;
        let quote = self.quote_char.as_deref().map(|quote| one_byte("quote_char", quote));
        Ok(Format::Csv(Arc::new(CsvOptions {
            delimiter,
            quote: quote.transpose()?,
            column_names: self.column_names.clone(),
            skip: self.skip_header_lines,
            typed: self.dtypes.keys().cloned().collect(),
        })))
    }

    fn header_lines(&self) -> u64 {
        0
    }

    fn parser(&self) -> Result<RecordParser, DataError> {
        let mut parser = RecordParser::of_columns(self.columns.as_deref());
        parser.dtypes = self.dtypes.clone();
        Ok(parser)
    }
}

fn one_byte(param: &str, text: &str) -> Result<u8, DataError> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r') => Ok(*byte),
        _ => Err(DataError::Config(format!(
            "`CsvDataSource.{param}` is {text:?}, expected one ASCII character that ends no line"
        ))),
    }
}

pattern_source!(CsvDataSource);
