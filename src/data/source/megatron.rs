//! Token ids prepared by Megatron's tools.

use std::collections::BTreeMap;

use super::bad::OnBadRecord;
use super::file::Format;
use super::parse::RecordParser;
use super::patterns::{FilePattern, pattern_source};
use crate::error::DataError;
use gimlet_gin::Configurable;

/// Documents of token ids in `.bin` files, with their indices (`.idx`), as Megatron's
/// `preprocess_data.py` writes them; one example for each document. Gimlet's own.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.MegatronDataSource")]
pub struct MegatronDataSource {
    /// Split to a glob or a list of globs of `.bin` files, in any storage.
    pub split_to_filepattern: BTreeMap<String, FilePattern>,
    /// The feature that holds a document's ids.
    #[gin(default = "targets".to_string())]
    pub feature: String,
    /// Split to its number of examples, if known.
    #[gin(default = None)]
    pub num_input_examples: Option<BTreeMap<String, u64>>,
    /// Files read in turn.
    #[gin(default = 16)]
    pub cycle_length: usize,
    /// Documents taken from a file before the next one's turn.
    #[gin(default = 16)]
    pub block_length: usize,
    /// Handling of a document with a number that is not a token id.
    #[gin(default = OnBadRecord::Error)]
    pub on_bad_record: OnBadRecord,
    /// Maximum number of documents that are skipped; more are an error.
    #[gin(default = 1000)]
    pub max_bad_records: u64,
}

impl MegatronDataSource {
    fn format(&self) -> Result<Format, DataError> {
        Ok(Format::Megatron)
    }

    fn header_lines(&self) -> u64 {
        0
    }

    fn parser(&self) -> Result<RecordParser, DataError> {
        Ok(RecordParser::of_columns(None).with_targets(&self.feature))
    }
}

pattern_source!(MegatronDataSource);
