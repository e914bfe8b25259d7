//! The data set that a `DatasetConfig` describes: batches for training, examples for evaluation.

mod build;
mod part_rows;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use super::batches::{BatchIterator, Batching, DatasetState};
use super::cache::{Caches, cache_step, has_cached_split};
use super::convert::{Batch, ConverterClass, FeatureConverter};
use super::error::{DataError, if_split};
use super::pipeline::{KnownIds, Pull, mixture_parts, mixture_tasks};
use super::provider::TaskProvider;
use super::source::BadRecords;
use super::streams::{RowDeal, Stream, Streams};
use super::task::Task;
use gimlet_gin::{Configurable, ModuleName};

use build::{Builder, LaidOut};

/// The data of a run: the task, split and seed, the lengths of features, and the batch size.
/// Source: T5X `utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.utils.DatasetConfig",
    ignored(
        runtime_preprocessors = "for airio tasks, which are not read",
        num_workers = "for airio tasks, which are not read"
    )
)]
pub struct DatasetConfig {
    /// Name of a task or mixture.
    pub mixture_or_task_name: String,
    /// Module that declares it, imported as by gin's `import`: MIXTURE_OR_TASK_MODULE of T5X's runs.
    #[gin(default = None)]
    pub module: Option<ModuleName>,
    /// Feature to its length in tokens. None takes the longest example's, for evaluation.
    pub task_feature_lengths: Option<BTreeMap<String, usize>>,
    /// The split, such as 'train'.
    pub split: String,
    /// Rows of a batch over all hosts.
    pub batch_size: usize,
    /// Whether files and examples are shuffled.
    pub shuffle: bool,
    /// Seed of shuffling and of random preprocessors; None takes one from the clock.
    pub seed: Option<u64>,
    /// Reads tasks with a cache step from their cache.
    #[gin(default = false)]
    pub use_cached: bool,
    /// Packs several examples into a row.
    #[gin(default = false)]
    pub pack: bool,
    /// Packs with less padding than SeqIO does: each example goes to the fullest of many open rows.
    #[gin(default = false)]
    pub use_custom_packing_ops: bool,
    /// Keeps the batches of an evaluation in memory.
    #[gin(default = true)]
    pub use_memory_cache: bool,
    /// Trims features to their length; otherwise longer ones are an error.
    #[gin(default = true)]
    pub trim_output_features: bool,
    /// Whether the last token of a full row is EOS, instead of any that was cut there, for features with `add_eos`. Mesh
    /// TensorFlow's rows always end so.
    #[gin(default = false)]
    pub ensure_eos: bool,
    /// Whether a batch ends with a pass over the data, which Mesh TensorFlow and T5X do not do: the last batch of a pass has fewer
    /// rows, beside rows of padding without loss weights, and the next pass begins with the next batch, shuffled anew. Such data
    /// are read in one stream, or in one for each of `file_parts`. Of a mixture, a pass is an epoch as its evaluation has it.
    #[gin(default = false)]
    pub ends_batch_with_pass: bool,
    /// Parts into which the files of the split are divided, as t5-experiments divides them among its processes: consecutive files,
    /// as many in each part, and those that are left are not read. Each part is shuffled and repeated alone, and gives each batch
    /// as many rows as any other, one part after the other, on any number of processes. None divides files by itself. No effect
    /// on data that are read once, such as those of evaluations.
    #[gin(default = None)]
    pub file_parts: Option<usize>,
    /// Threads that parse and tokenize; None leaves one core to the model.
    #[gin(default = None)]
    pub num_prefetch_threads: Option<usize>,
}

impl DatasetConfig {
    /// Returns a converter for a task of these data, whose full rows end in EOS if the data ask for it.
    ///
    /// # Errors
    /// The converter's rows do not hold each feature by itself.
    pub fn ended(
        &self,
        converter: FeatureConverter,
        task: &Task,
    ) -> Result<FeatureConverter, DataError> {
        match self.ensure_eos {
            true => converter.ending_in_eos(&task.output_features),
            false => Ok(converter),
        }
    }
}

/// Options that a run adds to a [`DatasetConfig`].
#[derive(Clone, Debug)]
pub struct DatasetOptions {
    /// This host's shard, below `num_shards`.
    pub shard_index: usize,
    /// Number of shards.
    pub num_shards: usize,
    /// Passes over the data; `None` repeats forever.
    pub num_epochs: Option<u64>,
    /// Seed if the config has none; the same on all hosts.
    pub seed: Option<u64>,
    /// The model's kind of feature converter.
    pub converter: ConverterClass,
    /// The decoder's first input.
    pub bos_id: i32,
    /// Token ids that the model knows, others being an error; `None` admits all.
    pub known_ids: Option<KnownIds>,
    /// Whether a last, smaller batch is dropped.
    pub drop_remainder: bool,
    /// Batches made ahead.
    pub prefetch: NonZeroUsize,
    /// Counter of the records that sources skip; keep a clone to read it.
    pub bad_records: BadRecords,
    /// A position of an earlier run.
    pub resume: Option<DatasetState>,
    /// Training steps before that of the next batch, for rates that change with the step.
    pub step: u64,
}

/// The rates of a mixture's tasks from a training step on.
#[derive(Clone, Debug, PartialEq)]
pub struct MixtureStage {
    /// Training steps before the first one.
    pub step: u64,
    /// Names of all tasks, and their rates relative to each other.
    pub rates: Vec<(String, f64)>,
}

/// Default number of batches made ahead.
pub const PREFETCH: NonZeroUsize = NonZeroUsize::new(4).expect("4 is not 0");

impl Default for DatasetOptions {
    fn default() -> Self {
        Self {
            shard_index: 0,
            num_shards: 1,
            num_epochs: None,
            seed: None,
            converter: ConverterClass::default(),
            bos_id: 0,
            known_ids: None,
            drop_remainder: true,
            prefetch: PREFETCH,
            bad_records: BadRecords::default(),
            resume: None,
            step: 0,
        }
    }
}

/// The batches of a data set, as the model's converter makes them.
///
/// All mistakes that can be found without reading examples are reported here; the others come from
/// [`BatchIterator::next_batch`].
pub fn get_dataset(
    config: &DatasetConfig,
    tasks: &dyn TaskProvider,
    options: DatasetOptions,
) -> Result<BatchIterator, DataError> {
    let builder = Arc::new(Builder::new(config, tasks, &options)?);
    let laid = builder.laid_out()?;
    let LaidOut { num_streams, state, .. } = &laid;
    options.bad_records.take_up(&state.bad_records);
    let rows_of_host = config.batch_size / options.num_shards;
    let deal = RowDeal {
        batch_size: config.batch_size,
        num_streams: *num_streams,
        next_stream: state.next_stream,
    };
    let first_row = options.shard_index * rows_of_host;
    let mine = first_row..first_row + rows_of_host;
    let mut streams = Vec::new();
    for index in deal.streams_of(&mine) {
        let mut rows = builder.stream(index, &laid)?;
        if state.batches > 0 {
            let lost = || DataError::State { reason: format!("stream {index} is not in it") };
            rows.restore(state.positions.get(&index).ok_or_else(lost)?)?;
        }
        let (step, rows_of_host) = (options.step, mine.clone());
        streams.push(Stream { index, rows, deal, rows_of_host, step });
    }
    builder.reads.begin();
    let (drop_remainder, prefetch) = (options.drop_remainder, options.prefetch);
    let streams = Streams::start(streams, map_threads(config), prefetch)?;
    let bad_records = options.bad_records.clone();
    let batching = Batching { rows_of_host, deal, drop_remainder, prefetch, bad_records };
    BatchIterator::start(streams, laid.converter, batching, laid.state, laid.notices)
}

/// Reports the mistakes that [`get_dataset`] finds before it reads an example. Lengths that are not
/// given are those of the longest example, without which only the files are looked for.
///
/// # Errors
/// Those of [`get_dataset`].
pub fn check_dataset(
    config: &DatasetConfig,
    tasks: &dyn TaskProvider,
    options: &DatasetOptions,
) -> Result<(), DataError> {
    let builder = Builder::new(config, tasks, options)?;
    if config.task_feature_lengths.is_none() {
        return builder.files().map(drop);
    }
    let laid = builder.laid_out()?;
    builder.examples(&builder.stream_plan(&laid, 0)).map(drop)
}

/// Reports the mistakes that [`training_eval_batches`] finds before it reads an example.
///
/// # Errors
/// Those of [`training_eval_batches`].
pub fn check_training_eval(
    config: &DatasetConfig,
    tasks: &dyn TaskProvider,
    options: &DatasetOptions,
) -> Result<(), DataError> {
    let options = of_one_epoch(options);
    with_split(config, tasks)?
        .iter()
        .try_for_each(|(_, config)| check_dataset(config, tasks, &options))
}

/// The tasks of a data set that have the split, by name, as data sets of their own.
fn with_split(
    config: &DatasetConfig,
    tasks: &dyn TaskProvider,
) -> Result<Vec<(String, DatasetConfig)>, DataError> {
    let mut found = Vec::new();
    for (name, task) in mixture_tasks(&config.mixture_or_task_name, tasks)? {
        let caches = config.use_cached.then(|| tasks.caches());
        if has_split(&task, &config.split, caches.as_ref())? {
            let own = DatasetConfig { mixture_or_task_name: name.clone(), ..config.clone() };
            found.push((name, own));
        }
    }
    Ok(found)
}

/// Options for all rows of one epoch: rows are dealt out to the shards, so uneven files cause no
/// differences.
fn of_one_epoch(options: &DatasetOptions) -> DatasetOptions {
    DatasetOptions { num_shards: 1, shard_index: 0, num_epochs: Some(1), ..options.clone() }
}

/// The batches of T5X's training evaluation, by task: the rows of one epoch, repeated, of which
/// each shard takes its part, until there are `eval_steps` batches; with `None` the rows of one epoch. Rows of padding end an
/// epoch whose last batch ends with it.
///
/// Tasks without the split are omitted.
pub fn training_eval_batches(
    config: &DatasetConfig,
    tasks: &dyn TaskProvider,
    options: &DatasetOptions,
    eval_steps: Option<usize>,
) -> Result<BTreeMap<String, Vec<Batch>>, DataError> {
    check_shards(config, options)?;
    check_caches(config, tasks)?;
    let mut found = BTreeMap::new();
    let whole = of_one_epoch(options);
    for (name, config) in with_split(config, tasks)? {
        let (mut rows, converter) = Builder::new(&config, tasks, &whole)?.rows()?;
        let needed = eval_steps.map(|steps| steps * config.batch_size);
        let mut epoch = Vec::new();
        while needed.is_none_or(|needed| epoch.len() < needed)
            && let Some(row) = rows.pull()?
        {
            epoch.push(row);
        }
        if epoch.is_empty() {
            let (task, split, detail) = (name, config.split.clone(), String::new());
            return Err(DataError::Empty { task, split, detail });
        }
        if config.ends_batch_with_pass {
            epoch.resize(epoch.len().next_multiple_of(config.batch_size), converter.padding());
        }
        let mine = (0..needed.unwrap_or(epoch.len()))
            .skip(options.shard_index)
            .step_by(options.num_shards);
        let mine: Vec<usize> = mine.collect();
        let batches = mine.chunks(config.batch_size / options.num_shards).map(|indices| {
            let mut batch = converter.empty_batch(indices.len());
            indices.iter().for_each(|i| converter.push_row(&mut batch, &epoch[i % epoch.len()]));
            batch
        });
        found.insert(name, batches.collect());
    }
    Ok(found)
}

/// Checks that at least one task of a data set has the split. If a source has no list of splits,
/// its files are listed; no file is read.
///
/// # Errors
/// [`DataError::UnknownSplit`] if no task has it; other errors if a source cannot be accessed.
pub fn check_split(config: &DatasetConfig, tasks: &dyn TaskProvider) -> Result<(), DataError> {
    check_caches(config, tasks)?;
    let (name, split) = (&config.mixture_or_task_name, &config.split);
    let all = mixture_tasks(name, tasks)?;
    let mut missing = None;
    for task in all.values() {
        let caches = tasks.caches();
        if config.use_cached && cache_step(task)?.is_some() {
            if has_cached_split(&caches.get(task.task_name())?, split)? {
                return Ok(());
            }
            continue;
        }
        let named = task.source.splits(task.task_name());
        if named.is_ok_and(|splits| splits.contains(split)) {
            return Ok(());
        }
        match task.source.split(task.task_name(), split) {
            Err(unknown @ DataError::UnknownSplit { .. }) => missing = Some(unknown),
            found => return found.map(drop),
        }
    }
    Err(missing.filter(|_| all.len() == 1).unwrap_or_else(|| unshared_split(config)))
}

/// Checks that caches are there, if they are to be read.
fn check_caches(config: &DatasetConfig, tasks: &dyn TaskProvider) -> Result<(), DataError> {
    if !config.use_cached {
        return Ok(());
    }
    let all = mixture_tasks(&config.mixture_or_task_name, tasks)?;
    tasks.caches().require(&config.mixture_or_task_name, all.values().map(|task| &**task))
}

/// No task of a mixture has the split.
fn unshared_split(config: &DatasetConfig) -> DataError {
    DataError::UnknownSplit {
        task: config.mixture_or_task_name.clone(),
        split: config.split.clone(),
        known: "none that all its tasks share".to_string(),
    }
}

/// The tasks that a name refers to, by name: the task itself, or the tasks of a mixture.
pub fn subtasks(name: &str, tasks: &dyn TaskProvider) -> Result<Vec<Arc<Task>>, DataError> {
    Ok(mixture_tasks(name, tasks)?.into_values().collect())
}

/// The rates of the tasks that a name refers to, in the order of the training steps from which they count; the first is 0.
pub fn mixture_stages(
    name: &str,
    tasks: &dyn TaskProvider,
) -> Result<Vec<MixtureStage>, DataError> {
    let parts = mixture_parts(name, tasks)?;
    let rates = |at: usize| {
        let tasks = parts.tasks.iter();
        tasks.map(|(name, (_, rates))| (name.clone(), rates[at])).collect()
    };
    let stages = parts.steps.iter().enumerate();
    Ok(stages.map(|(at, step)| MixtureStage { step: *step, rates: rates(at) }).collect())
}

fn check_shards(config: &DatasetConfig, options: &DatasetOptions) -> Result<(), DataError> {
    let (batch_size, num_shards) = (config.batch_size, options.num_shards);
    if options.shard_index >= num_shards {
        let shard = options.shard_index;
        return Err(DataError::Config(format!("there is no shard {shard} of {num_shards}")));
    }
    if batch_size == 0 || !batch_size.is_multiple_of(num_shards) {
        return Err(DataError::Config(format!(
            "batch size ({batch_size}) must be divisible by the number of data shards \
             ({num_shards}); set BATCH_SIZE to a multiple of {num_shards}"
        )));
    }
    Ok(())
}

fn has_split(task: &Task, split: &str, caches: Option<&Caches>) -> Result<bool, DataError> {
    if let (Some(_), Some(caches)) = (cache_step(task)?, caches) {
        return has_cached_split(&caches.get(task.task_name())?, split);
    }
    Ok(if_split(task.source.split(task.task_name(), split))?.is_some())
}

/// Threads for the maps; `None` maps on the producer's own thread.
fn map_threads(config: &DatasetConfig) -> Option<NonZeroUsize> {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    NonZeroUsize::new(config.num_prefetch_threads.unwrap_or((cores - 1).min(16)))
}
