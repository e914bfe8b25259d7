//! The first examples of another source's splits.

use std::collections::BTreeMap;

use super::contract::Source;
use super::few_shot::OriginalSource;
use super::split::SplitFiles;
use crate::error::DataError;
use gimlet_gin::Configurable;

/// The first examples of each split, in the order without shuffling: the same in each run and on
/// any number of hosts. Source: SeqIO `helpers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "seqio.helpers.TruncatedDatasetProvider",
    ignored(shuffle_buffer_size = "a task shuffles its examples in its own buffer")
)]
pub struct TruncatedDatasetProvider {
    /// Source of the examples.
    pub child: OriginalSource,
    /// Split to the number of examples that are kept; other splits stay whole.
    pub split_sizes: BTreeMap<String, u64>,
}

impl Source for TruncatedDatasetProvider {
    fn splits(&self, task: &str) -> Result<Vec<String>, DataError> {
        self.child.0.splits(task)
    }

    fn written_splits(&self) -> Option<Vec<String>> {
        self.child.0.written_splits()
    }

    fn split(&self, task: &str, split: &str) -> Result<SplitFiles, DataError> {
        let child = &self.child.0;
        if child.few_shot().is_some() {
            return Err(DataError::Config(format!(
                "task `{task}`: examples that are joined with others cannot be truncated; truncate \
                 the few-shot source's `original_source`"
            )));
        }
        let files = child.split(task, split)?;
        let most = [files.most, self.split_sizes.get(split).copied()].into_iter().flatten().min();
        Ok(SplitFiles { most, ..files })
    }

    fn num_input_examples(&self, split: &str) -> Option<u64> {
        let count = self.child.0.num_input_examples(split)?;
        Some(self.split_sizes.get(split).map_or(count, |size| count.min(*size)))
    }
}
