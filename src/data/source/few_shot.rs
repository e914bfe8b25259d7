//! Examples preceded by examples of the training split.

use super::contract::Source;
use super::spec::DataSource;
use super::split::SplitFiles;
use crate::error::DataError;
use crate::preprocess::Preprocessor;
use gimlet_gin::{Configurable, Evaluator, FromGin, Registry, Reported, Slot, Value};

/// Joins each example of a split (`eval/inputs`, ...) with `num_shots` examples of the training
/// split (lists: `train/inputs`, ...), for `fewshot_preprocessor`, which makes one text from them.
/// Source: SeqIO `experimental.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.experimental.FewshotDataSource", alias = "seqio.FewshotDataSource")]
pub struct FewshotDataSource {
    /// The source of both kinds of examples.
    pub original_source: OriginalSource,
    /// Number of training examples with each example; with 0 there is no `train`.
    pub num_shots: usize,
    /// Steps over the training examples before they are joined.
    #[gin(default = Vec::new())]
    pub train_preprocessors: Vec<Preprocessor>,
    /// Steps over the other examples before they are joined.
    #[gin(default = Vec::new())]
    pub eval_preprocessors: Vec<Preprocessor>,
    /// The split of the training examples.
    #[gin(default = "train".to_string())]
    pub train_split: String,
    /// Features of the training examples to keep.
    #[gin(default = vec!["inputs".to_string(), "targets".to_string()])]
    pub train_feature_keys: Vec<String>,
    /// Examples held for shuffling; training examples are always shuffled.
    #[gin(default = 1000)]
    pub shuffle_buffer_size: usize,
    /// Whether all examples of another split than the training one get the same training examples.
    #[gin(default = false)]
    pub eval_on_fixed_exemplars: bool,
}

/// The source within a few-shot source: any source.
#[derive(Clone, Debug, PartialEq)]
pub struct OriginalSource(
    /// The source.
    pub Box<DataSource>,
);

// A source within a source cannot list the valid values while its own type is being described.
impl FromGin for OriginalSource {
    fn expected() -> String {
        "a data source, such as @seqio.TfdsDataSource()".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        DataSource::from_gin(value, cx).map(|source| Self(Box::new(source)))
    }

    fn register(registry: &mut Registry) {
        DataSource::register_slot(registry);
    }
}

impl Source for FewshotDataSource {
    fn splits(&self, task: &str) -> Result<Vec<String>, DataError> {
        self.original_source.0.splits(task)
    }

    /// The files of the examples that are joined with training examples.
    fn split(&self, task: &str, split: &str) -> Result<SplitFiles, DataError> {
        self.original_source.0.split(task, split)
    }

    fn num_input_examples(&self, split: &str) -> Option<u64> {
        self.original_source.0.num_input_examples(split)
    }
}
