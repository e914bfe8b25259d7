//! The source that is Python code.

use std::collections::BTreeMap;

use super::spec::Source;
use super::split::SplitFiles;
use crate::data::error::DataError;
use crate::gin::{Configurable, Value};

/// A Python function that makes examples, which is never run: a task that names one says so when
/// it is read, and which source to name instead. Source: SeqIO `dataset_providers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "seqio.FunctionDataSource",
    alias = "seqio.dataset_providers.FunctionDataSource",
    ignored(caching_permitted = "caching is asked for by `CacheDatasetPlaceholder`")
)]
pub struct FunctionDataSource {
    /// The function.
    #[gin(default = None)]
    pub dataset_fn: Option<Value>,
    /// The splits that it makes.
    #[gin(default = Vec::new())]
    pub splits: Vec<String>,
    /// Split to its number of examples, where known.
    #[gin(default = None)]
    pub num_input_examples: Option<BTreeMap<String, u64>>,
}

impl FunctionDataSource {
    fn error(task: &str) -> DataError {
        DataError::Config(format!(
            "the source of task `{task}` is a Python function (`seqio.FunctionDataSource`), and no \
             Python is run; name the data instead: `seqio.HuggingFaceDataSource` for one over \
             `load_dataset`, `seqio.TfdsDataSource`, `seqio.JsonLinesDataSource`, \
             `seqio.ParquetDataSource` or `seqio.TextLineDataSource` for files"
        ))
    }
}

impl Source for FunctionDataSource {
    fn splits(&self, task: &str) -> Result<Vec<String>, DataError> {
        Err(Self::error(task))
    }

    fn split(&self, task: &str, _: &str) -> Result<SplitFiles, DataError> {
        Err(Self::error(task))
    }

    fn num_input_examples(&self, split: &str) -> Option<u64> {
        super::spec::given_count(&self.num_input_examples, split)
    }
}
