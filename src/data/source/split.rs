//! The files of one split and how to read them, whether they are a task's source or its cache.

use super::files::{SourceFile, files_of};
use super::parse::RecordParser;
use super::spec::DataSource;
use crate::data::error::DataError;

/// The files of one split, and how to read them.
pub(crate) struct SplitFiles {
    pub files: Vec<SourceFile>,
    /// Files read in turn.
    pub cycle_length: usize,
    /// Records taken from a file before the next one's turn.
    pub block_length: usize,
    pub skip_header_lines: u64,
    pub parser: RecordParser,
}

impl SplitFiles {
    /// A split of a task's source.
    pub(crate) fn of_source(
        source: &DataSource,
        task: &str,
        split: &str,
    ) -> Result<Self, DataError> {
        let (cycle_length, block_length) = source.interleaving();
        Ok(Self {
            files: files_of(source, task, split)?,
            cycle_length,
            block_length,
            skip_header_lines: source.skip_header_lines(),
            parser: RecordParser::of_lines(source.columns()),
        })
    }
}
