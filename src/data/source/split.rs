//! The files of one split and how to read them, for a task's source or its cache.

use std::collections::BTreeMap;

use super::bad::BadRecordPolicy;
use super::file::SourceFile;
use super::parse::RecordParser;
use gimlet_gin::Parameters;

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
const CYCLE_LENGTH: usize = 16;
const BLOCK_LENGTH: usize = 16;

/// Options of reading the files of a source.
#[derive(Clone, Debug, PartialEq, Parameters)]
pub struct FileReading {
    /// Split to its number of examples, if known.
    #[gin(default = None)]
    pub num_input_examples: Option<BTreeMap<String, u64>>,
    /// Files read in turn.
    #[gin(default = CYCLE_LENGTH)]
    pub cycle_length: usize,
    /// Records taken from a file before the next one's turn.
    #[gin(default = BLOCK_LENGTH)]
    pub block_length: usize,
    /// Handling of records that cannot be read.
    #[gin(flatten)]
    pub bad_records: BadRecordPolicy,
}

impl Default for FileReading {
    fn default() -> Self {
        Self {
            num_input_examples: None,
            cycle_length: CYCLE_LENGTH,
            block_length: BLOCK_LENGTH,
            bad_records: BadRecordPolicy::default(),
        }
    }
}

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
