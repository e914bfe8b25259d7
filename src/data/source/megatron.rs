//! Token ids prepared by Megatron's tools.

use std::collections::BTreeMap;

use super::file::Format;
use super::parse::RecordParser;
use super::patterns::{FilePattern, pattern_source};
use super::split::FileReading;
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
    /// Options of reading its files.
    #[gin(flatten)]
    pub reading: FileReading,
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
