//! Writes a task's cache.
//!
//! Examples are dealt out to the shards, in another order each round; this shuffles them over the
//! whole split as SeqIO's caching does, and keeps shards equally long. They are held until there
//! are [`CacheOptions::flush_bytes`] of them and then appended to the shards; only then
//! [`Progress`] records them. So memory is bounded, and a killed run loses only the examples after
//! the last append.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use super::divided::Divided;
use super::folder::CacheFolder;
use super::info::{FeatureTable, Info};
use super::part::CacheProcess;
use super::plan::SplitPlan;
use super::progress::{Progress, SplitProgress};
use super::recipe::Recipe;
use super::shards::Shards;
use super::share::Gauge;
use super::staged::{publish, staging};
use super::stats::{Counter, Stats};
use super::step::cache_step;
use crate::error::DataError;
use crate::example::Example;
use crate::pipeline::{Listing, Pull, TaskPlan, Workers, precache_stage};
use crate::random::StageSeed;
use crate::source::{BadRecords, SharedReads, encode};
use crate::task::Task;
use gimlet_storage::Locked;

/// After this time, examples are written whatever their size.
pub(super) const FLUSH_INTERVAL: Duration = Duration::from_secs(30);
/// Examples between two calls of the observer.
pub(super) const EXAMPLES_PER_REPORT: u64 = 256;

/// Options of a cache; names and defaults are those of SeqIO's `seqio_cache_tasks`.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// Minimum number of shards of a split; the number of the source's files, if that is greater.
    pub min_shards: usize,
    /// Maximum number of shards of a split; 0 sets no limit.
    pub max_shards: usize,
    /// Seed of random preprocessors and of the order.
    pub base_seed: u64,
    /// Counts characters for `stats.{split}.json`, which requires decoding the token ids.
    pub enable_char_counts: bool,
    /// Threads that parse and tokenize.
    pub num_threads: NonZeroUsize,
    /// Bytes of examples held in memory.
    pub flush_bytes: usize,
    /// Discards the part of a store's cache that an earlier run has made on disk.
    pub overwrite: bool,
    /// Counts the records that sources skip.
    pub bad_records: BadRecords,
    /// This process, if several write the cache together.
    pub process: Option<CacheProcess>,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            min_shards: 64,
            max_shards: 0,
            base_seed: 0,
            enable_char_counts: false,
            overwrite: false,
            num_threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            flush_bytes: 32 << 20,
            bad_records: BadRecords::default(),
            process: None,
        }
    }
}

/// The progress of a split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Written {
    /// Examples written.
    pub examples: u64,
    /// The share of the source that has been read, from 0 to 1, if its files tell it: steps may
    /// make more or fewer examples than the source has.
    pub share: Option<f64>,
}

/// The plans for all splits of a task.
///
/// # Errors
/// A task without cache step, and files that cannot be reached.
pub fn split_plans(task: &Task, options: &CacheOptions) -> Result<Vec<SplitPlan>, DataError> {
    let name = task.task_name();
    if cache_step(task)?.is_none() {
        return Err(DataError::NotCacheable { task: name.to_string() });
    }
    let plan = |split: String| {
        let files = task.source.split(name, &split)?.files;
        let sized = files.iter().map(|file| Ok((file.path.to_string(), file.size()?)));
        let files: Vec<(String, u64)> = sized.collect::<Result<_, DataError>>()?;
        let wanted = files.len().max(options.min_shards);
        let num_shards = match options.max_shards {
            0 => wanted,
            limit => wanted.min(limit),
        };
        Ok(SplitPlan { split, files, num_shards })
    };
    task.source.splits(name)?.into_iter().map(plan).collect()
}

/// Writes the cache of a task, and continues from the progress of a killed run with the same
/// recipe. `observe` receives the split and its progress. The cache of a store is made on disk
/// first.
///
/// # Errors
/// Any error in the task's data, and a folder that cannot be written or is being written.
pub fn write_cache(
    task: &Task,
    cache: &CacheFolder,
    options: &CacheOptions,
    observe: &mut dyn FnMut(&str, Written),
) -> Result<(), DataError> {
    if cache.path().is_on_disk() {
        return write_on_disk(task, cache, options, observe);
    }
    // A folder that cannot be written is reported before anything is computed.
    cache.path().create_dir_all()?;
    let plans = split_plans(task, options)?;
    let recipe = recipe(task, &plans, options)?;
    let staged = staging(cache, &recipe)?;
    if let Some(process) = options.process {
        if !process.is_on_one_host {
            return Err(DataError::CacheOfHosts { folder: cache.path().to_string() });
        }
        let _lock = lock_share(&staged, process)?;
        let writer = Divided { task, cache: &staged, target: cache, options, process };
        writer.write(&plans, &recipe, observe)?;
        return if process.rank == 0 { publish(&staged, cache, &plans) } else { Ok(()) };
    }
    // No other process writes or sends the cache meanwhile.
    let _lock = lock(&staged)?;
    if options.overwrite {
        staged.clear()?;
    }
    if !staged.is_complete()? {
        let progress = Progress::resume(&staged, recipe)?;
        CacheWriter { task, cache: &staged, options, progress }.write(&plans, observe)?;
    }
    publish(&staged, cache, &plans)
}

fn write_on_disk(
    task: &Task,
    cache: &CacheFolder,
    options: &CacheOptions,
    observe: &mut dyn FnMut(&str, Written),
) -> Result<(), DataError> {
    let plans = split_plans(task, options)?;
    cache.path().create_dir_all()?;
    let recipe = recipe(task, &plans, options)?;
    if let Some(process) = options.process {
        let _lock = lock_share(cache, process)?;
        let writer = Divided { task, cache, target: cache, options, process };
        return writer.write(&plans, &recipe, observe);
    }
    let _lock = lock(cache)?;
    let progress = Progress::resume(cache, recipe)?;
    CacheWriter { task, cache, options, progress }.write(&plans, observe)
}

/// Locks the share of one of several processes: against another launch with as many, and as the first against
/// a process alone.
fn lock_share(
    cache: &CacheFolder,
    process: CacheProcess,
) -> Result<(Option<Locked>, Locked), DataError> {
    let alone = if process.rank == 0 { Some(lock(cache)?) } else { None };
    match process.lock_of(cache).try_lock_with("")? {
        Locked::Busy => Err(DataError::CacheBusy { folder: cache.path().to_string() }),
        held => Ok((alone, held)),
    }
}

/// Locks the folder against other processes until dropped, if its file system supports locks.
fn lock(cache: &CacheFolder) -> Result<Locked, DataError> {
    match cache.path().try_lock()? {
        Locked::Busy => Err(DataError::CacheBusy { folder: cache.path().to_string() }),
        held => Ok(held),
    }
}

/// Everything that decides what the cache holds.
fn recipe(task: &Task, plans: &[SplitPlan], options: &CacheOptions) -> Result<String, DataError> {
    let cached = cache_step(task)?.map_or(0, |step| step.index);
    let steps = (&task.source, &task.preprocessors[..cached], &task.output_features);
    let CacheOptions { base_seed, enable_char_counts, .. } = options;
    let version = env!("CARGO_PKG_VERSION");
    Ok(format!("{version} {steps:?} {plans:?} seed {base_seed} chars {enable_char_counts}"))
}

struct CacheWriter<'a> {
    task: &'a Task,
    cache: &'a CacheFolder,
    options: &'a CacheOptions,
    progress: Progress,
}

impl CacheWriter<'_> {
    /// Writes the missing part of all splits.
    fn write(
        mut self,
        plans: &[SplitPlan],
        observe: &mut dyn FnMut(&str, Written),
    ) -> Result<(), DataError> {
        self.options.bad_records.take_up(&self.progress.bad_records);
        for plan in plans {
            if !self.progress.finished.contains(&plan.split) {
                self.write_split(plan, observe)?;
            }
        }
        Recipe::new(self.task, self.options)?.write(self.cache)?;
        self.cache.complete()?;
        Ok(self.cache.progress().remove_file()?)
    }

    fn write_split(
        &mut self,
        plan: &SplitPlan,
        observe: &mut dyn FnMut(&str, Written),
    ) -> Result<(), DataError> {
        let mut stage = precache_stage(self.task, &task_plan(self.options, &plan.split))?;
        let fresh = || SplitProgress::new(&plan.split, plan.num_shards);
        let reached = self.progress.of(&plan.split).cloned().unwrap_or_else(fresh);
        let seed = shard_seed(self.task, self.options, &plan.split);
        let mut shards = Shards::new(self.cache, reached, seed);
        shards.trim(|_| true)?;
        if let Some(position) = &shards.reached.position {
            stage.restore(position)?;
        }
        let counter = Counter::new(self.task, self.options.enable_char_counts)?;
        let mut gauge = Gauge::new(self.task, plan)?;
        let mut flushed = Instant::now();
        while let Some(mut example) = stage.pull()? {
            fit(self.task, &mut example);
            self.add(&example, &counter, &mut shards)?;
            let written = shards.reached.stats.examples();
            if written.is_multiple_of(EXAMPLES_PER_REPORT) {
                let share = gauge.share(&stage)?;
                observe(&plan.split, Written { examples: written, share });
            }
            let is_full = shards.num_held >= self.options.flush_bytes;
            if is_full || flushed.elapsed() >= FLUSH_INTERVAL {
                shards.flush()?;
                shards.reached.position = Some(stage.save());
                self.progress.current = Some(shards.reached.clone());
                self.save_progress()?;
                flushed = Instant::now();
            }
        }
        shards.flush()?;
        let examples = shards.reached.stats.examples();
        observe(&plan.split, Written { examples, share: Some(1.0) });
        self.finish_split(plan, &shards.reached)
    }

    fn add(
        &self,
        example: &Example,
        counter: &Counter,
        shards: &mut Shards<'_>,
    ) -> Result<(), DataError> {
        let SplitProgress { split, stats, features, .. } = &mut shards.reached;
        let number = stats.examples();
        let noted = features.note(example, &self.task.output_features);
        noted.map_err(|reason| DataError::MixedExamples {
            task: self.task.task_name().to_string(),
            split: split.clone(),
            number: number + 1,
            reason,
        })?;
        counter.count(example, stats);
        let shard = shards.shard_of(number);
        shards.push(shard, &encode(example));
        Ok(())
    }

    fn finish_split(&mut self, plan: &SplitPlan, reached: &SplitProgress) -> Result<(), DataError> {
        described(self.task, self.cache, plan, &reached.features, &reached.stats)?;
        self.progress.finished.push(plan.split.clone());
        self.progress.current = None;
        self.save_progress()
    }

    fn save_progress(&mut self) -> Result<(), DataError> {
        self.progress.bad_records = self.options.bad_records.places();
        self.progress.save(self.cache)
    }
}

/// The seed of the order in which examples go to the shards of a split.
pub(super) fn shard_seed(task: &Task, options: &CacheOptions, split: &str) -> StageSeed {
    StageSeed::new(options.base_seed, &format!("{}/cache/{split}", task.task_name()))
}

/// Converts the values of an example to the types of the task's features.
pub(super) fn fit(task: &Task, example: &mut Example) {
    for (key, feature) in &task.output_features {
        example.fit(key, feature.dtype.leaf(), feature.rank);
    }
}

/// Writes the description of a split whose shards are written.
pub(super) fn described(
    task: &Task,
    cache: &CacheFolder,
    plan: &SplitPlan,
    features: &FeatureTable,
    stats: &Stats,
) -> Result<(), DataError> {
    let SplitPlan { split, num_shards, .. } = plan;
    if stats.examples() == 0 {
        return Err(DataError::Empty {
            task: task.task_name().to_string(),
            split: split.clone(),
            detail: ": its preprocessors drop every one".to_string(),
        });
    }
    let info = Info::new(features.described(), *num_shards);
    cache.info(split).write_atomic(&pretty(&info))?;
    Ok(cache.stats(split).write_atomic(&pretty(stats))?)
}

/// The plan for the examples of a split's cache.
pub(super) fn task_plan(options: &CacheOptions, split: &str) -> TaskPlan {
    TaskPlan {
        split: split.to_string(),
        lengths: None,
        trim: false,
        known_ids: None,
        cache: None,
        shuffle: false,
        seed: options.base_seed,
        num_epochs: Some(1),
        shard_index: 0,
        num_shards: 1,
        part: None,
        workers: Some(Workers::start(options.num_threads, 1)),
        bad_records: options.bad_records.clone(),
        cuts: None,
        listing: Listing::default(),
        reads: SharedReads::default(),
    }
}

fn pretty(value: &impl serde::Serialize) -> Vec<u8> {
    let mut json = serde_json::to_vec_pretty(value).expect("maps with text keys are JSON");
    json.push(b'\n');
    json
}
