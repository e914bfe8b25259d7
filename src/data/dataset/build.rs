//! The parts of a data set: its streams, the plans for reading them, and the settings that they
//! share.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::part_rows::PartRows;
use super::{
    DatasetConfig, DatasetOptions, check_caches, check_shards, map_threads, unshared_split,
};
use crate::batches::DatasetState;
use crate::cache::{Caches, cache_step};
use crate::convert::{FeatureConverter, Packing, Row, Rows};
use crate::error::{DataError, if_split};
use crate::examples::{ExampleOptions, max_feature_lengths};
use crate::identity::DataIdentity;
use crate::passes::{PassPlan, Passes};
use crate::pipeline::{
    Cuts, Listing, Mix, MixEnds, MixPlan, MixtureParts, Pull, Stage, TaskPlan, Workers, file_names,
    mixture_parts, num_bytes, plain_file_names, task_stage,
};
use crate::provider::{TaskOrMixture, TaskProvider};
use crate::random::{StageSeed, fnv1a};
use crate::source::{FilePart, SharedReads};
use crate::streams::{ENOUGH_BYTES, num_streams, stream_counts};
use crate::task::Task;
use gimlet_telemetry::{counted, quoted_names};

/// Tasks that a notice names.
const MOST_NAMED: usize = 5;

/// The parts of a data set, from its configuration.
pub(super) struct Builder {
    config: DatasetConfig,
    options: DatasetOptions,
    parts: MixtureParts,
    ends: MixEnds,
    caches: Caches,
    listing: Listing,
    /// Readers of files for several streams.
    pub(super) reads: SharedReads,
    cuts: Cuts,
    seed: u64,
}

/// The decisions about a data set that precede the reading of examples.
pub(super) struct LaidOut {
    /// The length of each feature.
    pub lengths: BTreeMap<String, usize>,
    pub converter: FeatureConverter,
    pub num_streams: usize,
    pub notices: Vec<String>,
    /// The position to begin at.
    pub state: DatasetState,
}

impl Builder {
    /// Decides everything that does not depend on the examples, if the lengths are given.
    pub(super) fn laid_out(&self) -> Result<LaidOut, DataError> {
        let lengths = self.lengths()?;
        let converter = self.converter(&lengths)?;
        let files = self.files()?;
        let num_streams = self.num_streams(&converter, &files)?;
        let mut notices = self.notices()?;
        let data = self.identity(&converter, num_streams, &files)?;
        let state = self.state(data, &mut notices)?;
        Ok(LaidOut { lengths, converter, num_streams, notices, state })
    }

    pub(super) fn new(
        config: &DatasetConfig,
        tasks: &dyn TaskProvider,
        options: &DatasetOptions,
    ) -> Result<Self, DataError> {
        check_shards(config, options)?;
        check_caches(config, tasks)?;
        check_parts(config, options)?;
        let parts = mixture_parts(&config.mixture_or_task_name, tasks)?;
        // Data that are read once have no training steps.
        let parts = if options.num_epochs.is_some() { parts.at_first() } else { parts };
        check_passes(config, &parts)?;
        let resumed = options.resume.as_ref().map(|state| state.seed);
        let seed = config.seed.or(resumed).or(options.seed).unwrap_or_else(seconds_of_clock);
        let (caches, listing) = (tasks.caches(), Listing::default());
        let sample_fn = match tasks.get(&config.mixture_or_task_name)? {
            TaskOrMixture::Mixture(mixture) => mixture.sample_fn.clone(),
            TaskOrMixture::Task(_) => None,
        };
        let ends = match sample_fn.is_none_or(|sample_fn| sample_fn.stop_on_empty_dataset) {
            true => MixEnds::WithTheFirst,
            false => MixEnds::WithTheLast,
        };
        let (reads, cuts) = (SharedReads::default(), Cuts::default());
        let (config, options) = (config.clone(), options.clone());
        Ok(Self { config, options, parts, ends, caches, listing, reads, cuts, seed })
    }

    /// The plan for reading tasks for one of several streams.
    pub(super) fn plan(
        &self,
        lengths: Option<BTreeMap<String, usize>>,
        stream: usize,
        num_streams: usize,
    ) -> TaskPlan {
        let Self { config, options, .. } = self;
        TaskPlan {
            split: config.split.clone(),
            lengths,
            trim: config.trim_output_features,
            known_ids: options.known_ids.clone(),
            cache: config.use_cached.then(|| self.caches.clone()),
            shuffle: config.shuffle,
            seed: self.seed,
            num_epochs: options.num_epochs,
            shard_index: stream,
            num_shards: num_streams,
            part: None,
            workers: None,
            bad_records: options.bad_records.clone(),
            cuts: options.num_epochs.is_none().then(|| self.cuts.clone()),
            listing: self.listing.clone(),
            reads: self.reads.clone(),
        }
    }

    /// The plan for reading tasks for a stream: its share of the files, or its part of them. A part is shuffled and repeated
    /// alone, with random numbers of its own.
    pub(super) fn stream_plan(&self, laid: &LaidOut, stream: usize) -> TaskPlan {
        let lengths = Some(laid.lengths.clone());
        let Some(count) = self.file_parts() else {
            return self.plan(lengths, stream, laid.num_streams);
        };
        let seed = fnv1a(format!("part {stream} of files, {}", self.seed).as_bytes());
        let part = Some(FilePart { index: stream, count });
        TaskPlan { part, seed, ..self.plan(lengths, 0, 1) }
    }

    /// The parts into which files are divided, each with a stream; none for data that are read once.
    fn file_parts(&self) -> Option<usize> {
        self.config.file_parts.filter(|_| self.options.num_epochs.is_none())
    }

    /// Threads for a single stream; several streams start their own threads.
    pub(super) fn workers(&self, num_streams: usize) -> Option<Workers> {
        let num_threads = map_threads(&self.config).filter(|_| num_streams == 1)?;
        Some(Workers::start(num_threads, self.parts.tasks.len()))
    }

    /// The feature lengths: the given ones, or those of the longest example of all shards.
    pub(super) fn lengths(&self) -> Result<BTreeMap<String, usize>, DataError> {
        if let Some(lengths) = &self.config.task_feature_lengths {
            return Ok(lengths.clone());
        }
        let mut longest = BTreeMap::new();
        for (task, _) in self.parts.tasks.values() {
            let options = ExampleOptions {
                split: self.config.split.clone(),
                cache: self.config.use_cached.then(|| self.caches.clone()),
                ..ExampleOptions::default()
            };
            for (key, length) in max_feature_lengths(task, &options)? {
                let known = longest.entry(key).or_insert(0);
                *known = length.max(*known);
            }
        }
        Ok(longest)
    }

    /// The rows of a stream from their beginning.
    pub(super) fn stream(
        self: &Arc<Self>,
        index: usize,
        laid: &LaidOut,
    ) -> Result<Box<dyn Pull<Item = Row>>, DataError> {
        let plan = self.stream_plan(laid, index);
        let Some(FilePart { count, .. }) = plan.part else { return self.rows_of(plan, laid) };
        let mut names = Vec::new();
        for (task, _) in self.drawn() {
            names.extend(if_split(plain_file_names(task, &plan))?.into_iter().flatten());
        }
        let part = format!(
            "they are part {} of `utils.DatasetConfig.file_parts = {count}`, {}",
            index + 1,
            quoted_names(&names, MOST_NAMED)
        );
        Ok(Box::new(PartRows { rows: self.rows_of(plan, laid)?, part }))
    }

    /// The rows of a planned stream.
    fn rows_of(
        self: &Arc<Self>,
        plan: TaskPlan,
        laid: &LaidOut,
    ) -> Result<Box<dyn Pull<Item = Row>>, DataError> {
        let (num_streams, converter) = (laid.num_streams, laid.converter.clone());
        let plan = TaskPlan { workers: self.workers(num_streams), ..plan };
        let DatasetConfig { mixture_or_task_name, split, batch_size, .. } = &self.config;
        if !self.config.ends_batch_with_pass || self.options.num_epochs.is_some() {
            return Ok(Box::new(Rows::new(self.examples(&plan)?, converter)));
        }
        let (builder, padding) = (Arc::clone(self), converter.padding());
        let of_pass = move |pass: u64| {
            let seed = fnv1a(format!("pass {pass} of {}", plan.seed).as_bytes());
            let plan = TaskPlan { seed, num_epochs: Some(1), ..plan.clone() };
            Ok(Rows::new(builder.examples(&plan)?, converter.clone()))
        };
        Ok(Box::new(Passes::new(PassPlan {
            of_pass: Box::new(of_pass),
            padding,
            rows_of_batch: batch_size / num_streams,
            name: (mixture_or_task_name.clone(), split.clone()),
        })?))
    }

    pub(super) fn rows(&self) -> Result<(Rows, FeatureConverter), DataError> {
        let lengths = self.lengths()?;
        let converter = self.converter(&lengths)?;
        let plan = TaskPlan { workers: self.workers(1), ..self.plan(Some(lengths), 0, 1) };
        Ok((Rows::new(self.examples(&plan)?, converter.clone()), converter))
    }

    /// Number of streams of the data set. A continued run keeps its number, even if its data have
    /// grown; data that end have one stream, so that their last batch is one batch. `files` is the
    /// result of [`Self::files`].
    pub(super) fn num_streams(
        &self,
        converter: &FeatureConverter,
        files: &str,
    ) -> Result<usize, DataError> {
        if let Some(count) = self.file_parts() {
            return Ok(count);
        }
        if self.options.num_epochs.is_some() || self.config.ends_batch_with_pass {
            return Ok(1);
        }
        if let Some(saved) = &self.options.resume {
            let count = saved.data.num_streams;
            let data = self.identity(converter, count, files)?;
            if data.is_same_but_for_batch_size(&saved.data) && stream_counts().contains(&count) {
                return Ok(count);
            }
        }
        let plan = self.plan(None, 0, 1);
        let mut bytes = 0;
        for (task, _) in self.drawn() {
            // A task without the split is omitted when the pipelines are built; if no task has the
            // split, that is an error.
            let of_task = num_bytes(task, &plan, ENOUGH_BYTES.saturating_sub(bytes));
            bytes += if_split(of_task)?.unwrap_or(0);
        }
        Ok(num_streams(self.config.batch_size, bytes))
    }

    /// Notices of tasks without the split or without a cache step, and of files that no part has.
    pub(super) fn notices(&self) -> Result<Vec<String>, DataError> {
        let (mut lacking, mut uncached, mut uneven) = (Vec::new(), Vec::new(), Vec::new());
        let plan = self.plan(None, 0, 1);
        for (task, _) in self.drawn() {
            let is_uncached = self.config.use_cached && cache_step(task)?.is_none();
            let Some(files) = if_split(plain_file_names(task, &plan))? else {
                lacking.push(task.task_name());
                continue;
            };
            if is_uncached {
                uncached.push(task.task_name());
            }
            uneven.extend(self.file_parts().and_then(|count| unread(task, &files, count)));
        }
        let split = &self.config.split;
        let lacks = (format!("no split '{split}'"), "left out");
        let step = "no cache step (`CacheDatasetPlaceholder`)".to_string();
        let told = [(lacking, lacks), (uncached, (step, "preprocessed on the fly"))];
        let told =
            told.into_iter().filter_map(|(names, (what, fate))| notice_of(&names, &what, fate));
        Ok(told.chain(uneven).collect())
    }

    /// The position to begin at: the given one, if it belongs to these data. A position counts
    /// examples, so another batch size continues from it. A position in another data set, for
    /// example of a pretraining run that now fine-tunes, is dropped with a notice.
    pub(super) fn state(
        &self,
        data: DataIdentity,
        notices: &mut Vec<String>,
    ) -> Result<DatasetState, DataError> {
        if let Some(state) = &self.options.resume {
            if state.data.is_same_but_for_batch_size(&data) {
                notices.extend(self.changed_batch(state));
                return Ok(DatasetState { data, ..state.clone() });
            }
            if state.data.is_same_split(&data) {
                let reason = format!("it was saved for `{}`, this is `{data}`", state.data);
                return Err(DataError::State { reason });
            }
            notices.push(format!(
                "the saved data position is of `{} {}`: `{} {}` starts over",
                state.data.name, state.data.split, data.name, data.split
            ));
        }
        let (positions, bad_records) = Default::default();
        let (seed, next_stream) = (self.seed, 0);
        Ok(DatasetState { data, seed, batches: 0, next_stream, positions, bad_records })
    }

    /// A notice of a batch size that differs from that of the saved position.
    fn changed_batch(&self, state: &DatasetState) -> Option<String> {
        let (saved, now) = (state.data.batch_size, self.config.batch_size);
        (saved != now).then(|| {
            format!(
                "BATCH_SIZE was {saved} and is {now}: the data continue at the example that would have \
                 been next, and steps keep their numbers"
            )
        })
    }

    /// The tasks that are read, with their rates. A task whose rates are all 0 is evaluated with its
    /// mixture and never drawn.
    fn drawn(&self) -> impl Iterator<Item = &(Arc<Task>, Vec<f64>)> {
        self.parts.tasks.values().filter(|(_, rates)| rates.iter().any(|rate| *rate > 0.0))
    }

    /// A description of the data's files by their names: a position in other files has no meaning.
    pub(super) fn files(&self) -> Result<String, DataError> {
        let (plan, mut names) = (self.plan(None, 0, 1), Vec::new());
        for (task, _) in self.drawn() {
            names.extend(if_split(file_names(task, &plan))?.into_iter().flatten());
        }
        Ok(format!("files {} ({:08x})", names.len(), fnv1a(names.join("\n").as_bytes()) as u32))
    }

    pub(super) fn converter(
        &self,
        lengths: &BTreeMap<String, usize>,
    ) -> Result<FeatureConverter, DataError> {
        let packing = match (self.config.pack, self.config.use_custom_packing_ops) {
            (false, _) => Packing::None,
            (true, false) => Packing::Greedy,
            (true, true) => Packing::Dense,
        };
        let options = &self.options;
        let converter =
            FeatureConverter::new(&options.converter, lengths, packing, options.bos_id)?;
        let (task, _) = self.parts.tasks.values().next().expect("there is a task");
        self.config.ended(converter, task)
    }

    pub(super) fn examples(&self, plan: &TaskPlan) -> Result<Stage, DataError> {
        let (first, _) = self.parts.tasks.values().next().expect("there is a task");
        if self.parts.tasks.len() == 1 {
            return task_stage(first, plan);
        }
        let mut stages = Vec::new();
        for (task, rates) in self.drawn() {
            stages.extend(if_split(task_stage(task, plan))?.map(|stage| (stage, rates.clone())));
        }
        if stages.is_empty() {
            return Err(unshared_split(&self.config));
        }
        let DatasetConfig { mixture_or_task_name: name, split, .. } = &self.config;
        let plan = MixPlan {
            seed: StageSeed::new(plan.seed, &format!("{name}/mix/{}", plan.shard_index)),
            steps: self.parts.steps.clone(),
            features: first.output_features.keys().cloned().collect(),
            ends: self.ends,
        };
        let mix = Mix::new(stages, plan).map_err(|step| {
            DataError::Config(format!(
                "mixture `{name}`: no task with a rate above 0 from step {step} has the split '{split}', expected one"
            ))
        })?;
        Ok(Box::new(mix))
    }

    /// The identity that a saved position must match before a run continues from it; `files` is
    /// the result of [`Self::files`].
    fn identity(
        &self,
        converter: &FeatureConverter,
        num_streams: usize,
        files: &str,
    ) -> Result<DataIdentity, DataError> {
        let mut steps = self.parts.tasks.values().map(|(task, _)| cache_step(task));
        let is_cached =
            steps.try_fold(false, |any, step| step.map(|step| any || step.is_some()))?;
        let config = &self.config;
        let mut order = match config.shuffle {
            true => format!("shuffled with {}", self.seed),
            false => format!("in order, seed {}", self.seed),
        };
        if config.ends_batch_with_pass {
            order.push_str(", batches end with a pass");
        }
        if self.file_parts().is_some() {
            order.push_str(", each stream a part of the files");
        }
        Ok(DataIdentity {
            name: config.mixture_or_task_name.clone(),
            split: config.split.clone(),
            is_cached: config.use_cached && is_cached,
            rows: converter.description(),
            batch_size: config.batch_size,
            num_streams,
            files: files.to_string(),
            order,
        })
    }
}

/// Checks that batches do not end with passes over a mixture whose rates change: a task at rate 0 would never end.
fn check_passes(config: &DatasetConfig, parts: &MixtureParts) -> Result<(), DataError> {
    match parts.steps[..] {
        [_, step, ..] if config.ends_batch_with_pass => Err(DataError::Config(format!(
            "mixture `{}` has other rates from step {step}, and `utils.DatasetConfig.ends_batch_with_pass = True` ends \
             batches with passes over it, expected one of the two: bind `ends_batch_with_pass = False`, or give its tasks \
             numbers as rates",
            config.mixture_or_task_name
        ))),
        _ => Ok(()),
    }
}

/// Checks that each part of the files gives as many rows to a batch.
fn check_parts(config: &DatasetConfig, options: &DatasetOptions) -> Result<(), DataError> {
    let batch_size = config.batch_size;
    let is_uneven = |count: &usize| *count == 0 || !batch_size.is_multiple_of(*count);
    match config.file_parts.filter(|_| options.num_epochs.is_none()).filter(is_uneven) {
        None => Ok(()),
        Some(count) => Err(DataError::Config(format!(
            "`utils.DatasetConfig.file_parts` is {count}, expected a divisor of the batch size ({batch_size}), since each \
             part gives a batch as many rows"
        ))),
    }
}

/// Reports the files that are left when a task's files are divided into parts.
fn unread(task: &Task, files: &[String], count: usize) -> Option<String> {
    let rest = &files[files.len() - files.len() % count..];
    let length = files.len() / count;
    (!rest.is_empty() && length > 0).then(|| {
        format!(
            "task `{}` has {}, of which `utils.DatasetConfig.file_parts = {count}` gives each part {length}: not read {} {}",
            task.task_name(),
            counted(files.len(), "file"),
            if rest.len() == 1 { "is" } else { "are" },
            quoted_names(rest, MOST_NAMED)
        )
    })
}

/// Reports tasks without a split or cache step, and how they are treated.
fn notice_of(names: &[&str], what: &str, fate: &str) -> Option<String> {
    match names {
        [] => None,
        [name] => Some(format!("task `{name}` has {what}: it is {fate}")),
        _ => {
            let names = quoted_names(names, MOST_NAMED);
            Some(format!("tasks {names} have {what}: they are {fate}"))
        }
    }
}

/// T5X's default seed: the clock's seconds.
fn seconds_of_clock() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |duration| duration.as_secs())
}
