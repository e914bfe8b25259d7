//! The examples of one task, once each, for evaluation.

use std::collections::BTreeMap;

use super::cache::Caches;
use super::error::DataError;
use super::example::Example;
use super::pipeline::{
    KnownIds, Listing, Pull, Stage, StageState, TaskPlan, first_stages, task_stage,
};
use super::source::{BadRecords, SharedReads};
use super::task::Task;

/// Options for reading the examples of one task for evaluation.
#[derive(Clone, Debug)]
pub struct ExampleOptions {
    /// The split.
    pub split: String,
    /// Lengths to trim to; `None` trims nothing.
    pub lengths: Option<BTreeMap<String, usize>>,
    /// Token ids that the model knows, others being an error; `None` admits all.
    pub known_ids: Option<KnownIds>,
    /// Folders of caches, from which tasks with a cache step are read; `None` reads the source.
    pub cache: Option<Caches>,
    /// Whether files and examples are shuffled.
    pub shuffle: bool,
    /// Seed of shuffling and of random preprocessors.
    pub seed: u64,
    /// This host's shard, below `num_shards`.
    pub shard_index: usize,
    /// Number of shards.
    pub num_shards: usize,
    /// Counter of the records that the source skips; keep a clone to read it.
    pub bad_records: BadRecords,
}

impl Default for ExampleOptions {
    fn default() -> Self {
        Self {
            split: "validation".to_string(),
            lengths: None,
            known_ids: None,
            cache: None,
            shuffle: false,
            seed: 42,
            shard_index: 0,
            num_shards: 1,
            bad_records: BadRecords::default(),
        }
    }
}

/// The examples of one epoch of a task.
pub struct ExampleIterator(Stage);

impl ExampleIterator {
    /// Returns the position between the examples before it and those after it.
    pub fn position(&self) -> StageState {
        self.0.save()
    }

    /// Continues at a position of an earlier iterator over the same examples.
    ///
    /// # Errors
    /// The position is that of other examples.
    pub fn go_to(&mut self, position: &StageState) -> Result<(), DataError> {
        self.0.restore(position)
    }
}

impl Iterator for ExampleIterator {
    type Item = Result<Example, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.pull().transpose()
    }
}

/// The examples of a task, once each, with all features that its preprocessors keep.
pub fn task_examples(task: &Task, options: &ExampleOptions) -> Result<ExampleIterator, DataError> {
    task_stage(task, &plan(options)).map(ExampleIterator)
}

/// The examples of a task after its first `count` preprocessors; for a count of 0 the source's
/// records. With a cache, examples after the cache step come from the cache.
pub fn examples_after(
    task: &Task,
    options: &ExampleOptions,
    count: usize,
) -> Result<ExampleIterator, DataError> {
    first_stages(task, &plan(options), count).map(ExampleIterator)
}

/// The splits of a task's source.
pub fn task_splits(task: &Task) -> Result<Vec<String>, DataError> {
    task.source.splits(task.task_name())
}

/// The number of files of a split of a task's source.
///
/// # Errors
/// Returns an error if the split does not exist.
pub fn split_files_found(task: &Task, split: &str) -> Result<usize, DataError> {
    task.source.split(task.task_name(), split).map(|split| split.files.len())
}

fn plan(options: &ExampleOptions) -> TaskPlan {
    TaskPlan {
        split: options.split.clone(),
        lengths: options.lengths.clone(),
        trim: true,
        known_ids: options.known_ids.clone(),
        cache: options.cache.clone(),
        shuffle: options.shuffle,
        seed: options.seed,
        num_epochs: Some(1),
        shard_index: options.shard_index,
        num_shards: options.num_shards,
        part: None,
        workers: None,
        bad_records: options.bad_records.clone(),
        cuts: None,
        listing: Listing::default(),
        reads: SharedReads::default(),
    }
}

/// The length of the longest example of a task, by output feature, as `seqio.Evaluator` computes it
/// when no lengths are given.
pub fn max_feature_lengths(
    task: &Task,
    options: &ExampleOptions,
) -> Result<BTreeMap<String, usize>, DataError> {
    let mut longest: BTreeMap<String, usize> =
        task.output_features.keys().map(|key| (key.clone(), 0)).collect();
    for example in task_examples(task, &ExampleOptions { lengths: None, ..options.clone() })? {
        for (key, value) in example?.iter() {
            if let (Some(known), Some(length)) = (longest.get_mut(&**key), value.len()) {
                *known = length.max(*known);
            }
        }
    }
    Ok(longest)
}
