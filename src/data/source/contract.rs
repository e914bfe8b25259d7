//! The contract of a source of raw examples.

use std::collections::BTreeMap;

use super::split::SplitFiles;
use crate::error::DataError;

/// A source that gin can name.
pub(crate) trait Source {
    /// Its splits, by their names in the task.
    fn splits(&self, task: &str) -> Result<Vec<String>, DataError>;

    /// The names of the splits, if gin files contain them, so that no file is opened.
    fn written_splits(&self) -> Option<Vec<String>> {
        None
    }

    /// The files of a split in their order without shuffling, and how to read them;
    /// [`DataError::UnknownSplit`] if it has no such split.
    fn split(&self, task: &str, split: &str) -> Result<SplitFiles, DataError>;

    /// Number of raw examples of a split, if known without reading them.
    fn num_input_examples(&self, split: &str) -> Option<u64>;
}

/// The error for a split that is not among the known ones.
pub(crate) fn unknown_split(
    task: &str,
    split: &str,
    known: impl Iterator<Item = String>,
) -> DataError {
    let known: Vec<String> = known.map(|name| format!("'{name}'")).collect();
    let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
    DataError::UnknownSplit { task: task.to_string(), split: split.to_string(), known }
}

/// The number in a `num_input_examples` parameter for a split.
pub(crate) fn given_count(counts: &Option<BTreeMap<String, u64>>, split: &str) -> Option<u64> {
    counts.as_ref()?.get(split).copied()
}
