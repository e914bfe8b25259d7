//! Builds the stages of one task.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::chunks::{FlatMap, Join, StepContext};
use super::convert::Convert;
use super::cuts::Cuts;
use super::few_shot::FewShot;
use super::listing::Listing;
use super::map::{Count, ExampleMaps, Map, MapItems, NamedStep, RecordMaps};
use super::parallel::{batched, mapped};
use super::pool::Workers;
use super::pull::Stage;
use super::rebatch::Rebatch;
use super::share::{RecordShare, ShareOf};
use super::shuffle::Shuffle;
use super::take::Take;
use super::validate::{KnownIds, Validate};
use crate::cache::{CacheFolder, CacheStep, Caches, cache_step, cached_split};
use crate::error::DataError;
use crate::preprocess::{BuiltFeature, Context, Features, Preprocessor, Step};
use crate::random::StageSeed;
use crate::source::{
    BadRecordGuard, BadRecords, Deal, FewshotDataSource, FilePart, ReadPlan, Reader, Record,
    SharedReads, SplitFiles,
};
use crate::task::Task;

/// The plan for reading a task.
#[derive(Clone, Debug)]
pub(crate) struct TaskPlan {
    pub split: String,
    pub lengths: Option<BTreeMap<String, usize>>,
    pub trim: bool,
    /// Token ids that the model knows; `None` admits all.
    pub known_ids: Option<KnownIds>,
    /// The folders that are searched for caches; `None` reads the source.
    pub cache: Option<Caches>,
    pub shuffle: bool,
    pub seed: u64,
    /// `None` repeats forever.
    pub num_epochs: Option<u64>,
    pub shard_index: usize,
    pub num_shards: usize,
    /// The part of the files that the shards share; `None` is all.
    pub part: Option<FilePart>,
    /// Threads that parse and tokenize; `None` uses the thread that pulls.
    pub workers: Option<Workers>,
    /// Counts the records that the source skips.
    pub bad_records: BadRecords,
    /// Counts the examples that are cut, where a training begins.
    pub cuts: Option<Cuts>,
    /// The tasks' files, shared by the plans of all streams.
    pub listing: Listing,
    /// The shared readers of streams that share their records; shared by the plans of all streams.
    pub reads: SharedReads,
}

impl TaskPlan {
    /// The planned part of a split's files.
    fn part_of(&self, task: &str, whole: SplitFiles) -> Result<SplitFiles, DataError> {
        match self.part {
            Some(part) => part.of(task, &self.split, whole),
            None => Ok(whole),
        }
    }
}

/// The output features of a task, with loaded vocabularies.
fn build_features(task: &Task) -> Result<Features, DataError> {
    let built = task
        .output_features
        .iter()
        .map(|(name, feature)| Ok((name.clone(), BuiltFeature::new(name, feature)?)));
    built.collect()
}

/// The examples of a task.
pub(crate) fn task_stage(task: &Task, plan: &TaskPlan) -> Result<Stage, DataError> {
    let step = cache_step(task)?;
    let cache = cache_of(task, step, plan)?;
    let features = build_features(task)?;
    let produced = Arc::new(AtomicU64::new(0));
    let builder = Builder { task, plan, produced: produced.clone(), share: None };
    let mut stage = match &cache {
        Some(cache) => {
            let first = step.map_or(0, |step| step.index + 1);
            let part = Reading::of_plan(split_files(task, Some(cache), plan)?, plan);
            builder.preprocessed(part, &task.preprocessors, first, &features)?
        }
        None => builder.source_stage(&task.preprocessors, &features)?,
    };
    let lengths = plan.lengths.clone().unwrap_or_default();
    let validate = Validate {
        task: task.task_name().to_string(),
        split: plan.split.clone(),
        features,
        cuts: plan.cuts.as_ref().map(|cuts| cuts.of_task(task.task_name(), &lengths)),
        lengths,
        trims: plan.trim,
        known_ids: plan.known_ids.clone(),
    };
    stage = Box::new(Map::new(stage, Arc::new(validate)));
    stage = Box::new(Count { input: stage, produced });
    if plan.shuffle {
        let Some(size) = task.shuffle_buffer_size else {
            return Err(DataError::Config(format!(
                "task `{}` forbids shuffling (`shuffle_buffer_size = None`), and \
                 `DatasetConfig.shuffle` asks for it",
                task.task_name()
            )));
        };
        // The shards divide one buffer among themselves.
        let size = size.div_ceil(plan.num_shards);
        stage = Box::new(Shuffle::new(stage, builder.seed("shuffle"), size));
    }
    Ok(stage)
}

/// The files from which a task is read.
pub(super) fn split_files(
    task: &Task,
    cache: Option<&CacheFolder>,
    plan: &TaskPlan,
) -> Result<SplitFiles, DataError> {
    let name = task.task_name();
    let whole = plan.listing.files_of(name, || match cache {
        Some(cache) => cached_split(cache, name, &plan.split),
        None => task.source.split(name, &plan.split),
    })?;
    plan.part_of(name, whole)
}

/// The examples for a task's cache, made from its source.
pub(crate) fn precache_stage(task: &Task, plan: &TaskPlan) -> Result<Stage, DataError> {
    first_stages(task, plan, cache_step(task)?.map_or(0, |step| step.index))
}

/// The examples of a task's cache that one of several processes makes, each with the number of its block, or `None` if a
/// step takes several examples together.
pub(crate) fn precache_part(
    task: &Task,
    plan: &TaskPlan,
    share: RecordShare,
) -> Result<Option<Stage>, DataError> {
    let count = cache_step(task)?.map_or(0, |step| step.index);
    let builder = Builder { task, plan, produced: Arc::default(), share: Some(share) };
    let (steps, features) = (&task.preprocessors[..count], build_features(task)?);
    let groups = builder.groups("", steps, 0, &features, &BadRecordGuard::default())?;
    match groups.len() == 1 && task.source.few_shot().is_none() {
        true => builder.source_stage(steps, &features).map(Some),
        false => Ok(None),
    }
}

/// The result of the first `count` preprocessors of a task, on the records of its source; on those
/// of its cache, if a cache is to be read and the cache step is among these preprocessors.
pub(crate) fn first_stages(task: &Task, plan: &TaskPlan, count: usize) -> Result<Stage, DataError> {
    let builder = Builder { task, plan, produced: Arc::default(), share: None };
    let (steps, features) = (&task.preprocessors[..count], build_features(task)?);
    match (cache_step(task)?.filter(|step| step.index < count), &plan.cache) {
        (Some(step), Some(caches)) => {
            let cache = caches.get(task.task_name())?;
            let part = Reading::of_plan(split_files(task, Some(&cache), plan)?, plan);
            builder.preprocessed(part, steps, step.index + 1, &features)
        }
        _ => builder.source_stage(steps, &features),
    }
}

/// The cache from which a task is to be read. SeqIO's rules: a task without a cache step is
/// preprocessed on the fly, even if a cache was requested; a task whose cache is required is not.
pub(super) fn cache_of(
    task: &Task,
    step: Option<CacheStep>,
    plan: &TaskPlan,
) -> Result<Option<CacheFolder>, DataError> {
    let name = task.task_name();
    match (step, &plan.cache) {
        (Some(_), Some(caches)) => {
            let cache = caches.get(name)?;
            cache.warn_of_other_values(task)?;
            Ok(Some(cache))
        }
        (Some(CacheStep { required: true, .. }), None) => Err(DataError::Config(format!(
            "task `{name}` requires caching (`CacheDatasetPlaceholder.required = True`), and \
             `DatasetConfig.use_cached` is False"
        ))),
        _ => Ok(None),
    }
}

/// Files to be read, and the number of passes.
struct Reading {
    /// Distinguishes the random draws of this part from those of other parts of the same task.
    label: &'static str,
    split: String,
    files: SplitFiles,
    shuffle: bool,
    /// `None` repeats forever.
    num_epochs: Option<u64>,
}

impl Reading {
    /// The part of the planned split.
    fn of_plan(files: SplitFiles, plan: &TaskPlan) -> Self {
        let TaskPlan { split, shuffle, num_epochs, .. } = plan.clone();
        Self { label: "", split, files, shuffle, num_epochs }
    }
}

/// A step over several examples, and the maps after it.
struct Group {
    /// `None` for the maps at the beginning.
    head: Option<(StepContext, Step)>,
    maps: Vec<NamedStep>,
}

struct Builder<'a> {
    task: &'a Task,
    plan: &'a TaskPlan,
    produced: Arc<AtomicU64>,
    /// The records to map, if others map the rest.
    share: Option<RecordShare>,
}

impl Builder<'_> {
    fn name(&self) -> String {
        self.task.task_name().to_string()
    }

    /// The seed of one of the task's stages. Shards draw independently.
    fn seed(&self, stage: &str) -> StageSeed {
        let shard = self.plan.shard_index;
        StageSeed::new(self.plan.seed, &format!("{}/{stage}/{shard}", self.name()))
    }

    /// The task's source, followed by these first preprocessors of the task.
    fn source_stage(
        &self,
        preprocessors: &[Preprocessor],
        features: &Features,
    ) -> Result<Stage, DataError> {
        let Some(few_shot) = self.task.source.few_shot() else {
            let files = split_files(self.task, None, self.plan)?;
            return self.preprocessed(
                Reading::of_plan(files, self.plan),
                preprocessors,
                0,
                features,
            );
        };
        let joined: Stage = Box::new(self.few_shot(few_shot, features)?);
        // Examples contain records of two splits, so a bad example does not tell which record is
        // bad.
        let guard = BadRecordGuard::default();
        let groups = self.groups("", preprocessors, 0, features, &guard)?.into_iter();
        Ok(groups.fold(joined, |stage, group| self.append(stage, group, &guard)))
    }

    /// The examples of a split, each joined with some of the training split.
    fn few_shot(
        &self,
        source: &FewshotDataSource,
        features: &Features,
    ) -> Result<FewShot, DataError> {
        let (task, plan) = (self.task.task_name(), self.plan);
        let original = &source.original_source.0;
        let eval = Reading {
            label: "eval/",
            ..Reading::of_plan(plan.part_of(task, original.split(task, &plan.split)?)?, plan)
        };
        let is_shuffled = eval.shuffle;
        let buffer_size = source.shuffle_buffer_size.div_ceil(plan.num_shards);
        let mut eval = self.preprocessed(eval, &source.eval_preprocessors, 0, features)?;
        if is_shuffled {
            let seed = self.seed("eval/shuffle");
            eval = Box::new(Shuffle::new(eval, seed, buffer_size));
        }
        let train = if source.num_shots == 0 {
            None
        } else {
            let files = original.split(task, &source.train_split)?;
            // Always shuffled, so that an example rarely becomes its own training example.
            let part = Reading {
                label: "train/",
                split: source.train_split.clone(),
                files,
                shuffle: true,
                num_epochs: None,
            };
            let stage = self.preprocessed(part, &source.train_preprocessors, 0, features)?;
            let seed = self.seed("train/shuffle");
            Some(Box::new(Shuffle::new(stage, seed, buffer_size)) as Stage)
        };
        let is_fixed = source.eval_on_fixed_exemplars && plan.split != source.train_split;
        Ok(FewShot {
            task: self.name(),
            eval,
            train,
            num_shots: source.num_shots,
            train_feature_keys: source.train_feature_keys.clone(),
            fixed: is_fixed.then_some(None),
        })
    }

    /// Reads files and applies preprocessors, beginning with preprocessor `first`.
    fn preprocessed(
        &self,
        part: Reading,
        preprocessors: &[Preprocessor],
        first: usize,
        features: &Features,
    ) -> Result<Stage, DataError> {
        let guard = BadRecordGuard {
            task: self.name(),
            split: part.split.clone(),
            policy: part.files.bad_records,
            skipped: self.plan.bad_records.clone(),
        };
        let groups = self.groups(part.label, preprocessors, first, features, &guard)?;
        let mut groups = groups.into_iter();
        let maps = groups.next().map(|group| group.maps).unwrap_or_default();
        let read = self.read(part, maps, &guard);
        Ok(groups.fold(read, |stage, group| self.append(stage, group, &guard)))
    }

    fn groups(
        &self,
        label: &str,
        preprocessors: &[Preprocessor],
        first: usize,
        features: &Features,
        guard: &BadRecordGuard,
    ) -> Result<Vec<Group>, DataError> {
        let context = Context { features, lengths: self.plan.lengths.as_ref() };
        let mut groups = vec![Group { head: None, maps: Vec::new() }];
        for (i, preprocessor) in preprocessors.iter().enumerate().skip(first) {
            let name = preprocessor.name();
            for (j, step) in preprocessor.steps(&context)?.into_iter().enumerate() {
                let seed = self.seed(&format!("{label}{i}.{j}"));
                match step {
                    Step::Map(step) => {
                        let group = groups.last_mut().expect("there is a first group");
                        group.maps.push(NamedStep { name, seed, step });
                    }
                    head => {
                        let head = self.of_shard(head);
                        let bad_records = guard.clone();
                        let context = StepContext { task: self.name(), name, seed, bad_records };
                        groups.push(Group { head: Some((context, head)), maps: Vec::new() });
                    }
                }
            }
        }
        Ok(groups)
    }

    /// A step of this shard: the shards of a data set take an equal part of its first examples.
    fn of_shard(&self, step: Step) -> Step {
        let TaskPlan { shard_index, num_shards, num_epochs, .. } = *self.plan;
        match step {
            Step::Take { num_examples, .. } => {
                let more = usize::from(shard_index < num_examples % num_shards);
                let num_examples = (num_examples / num_shards + more).max(1);
                Step::Take { num_examples, num_passes: num_epochs }
            }
            step => step,
        }
    }

    /// The share of the files that this shard reads.
    fn deal(&self, files: &SplitFiles, num_epochs: Option<u64>) -> Deal {
        let TaskPlan { shard_index, num_shards, .. } = *self.plan;
        let num_files = files.files.len();
        // The first records of all files belong to all shards; for data that end, SeqIO deals out
        // records if there are fewer files than shards.
        let by_record = files.most.is_some() || num_epochs.is_some() && num_files < num_shards;
        Deal::new(shard_index, num_shards, if by_record { 1 } else { num_files })
    }

    /// Reads, parses and maps records.
    fn read(&self, part: Reading, steps: Vec<NamedStep>, guard: &BadRecordGuard) -> Stage {
        let Reading { label, split, files, shuffle, num_epochs } = part;
        let plan = self.plan;
        let deal = self.deal(&files, num_epochs);
        // Streams open as many files together as one host of SeqIO; each shard of an evaluation is
        // such a host.
        let sharing = if plan.shuffle || plan.num_epochs.is_none() { deal.num_groups() } else { 1 };
        // Streams that share files use the same file order.
        let files_seed = format!("{}/{label}files/{}", self.name(), deal.group());
        let files_seed = StageSeed::new(plan.seed, &files_seed);
        let read_plan = ReadPlan {
            task: self.name(),
            split,
            files: files.files.into_iter().map(Arc::new).collect(),
            most: files.most,
            cycle_length: files.cycle_length.div_ceil(sharing),
            block_length: files.block_length,
            skip_header_lines: files.skip_header_lines,
            shuffle: (shuffle && files.most.is_none()).then_some(files_seed),
            num_epochs,
            deal,
            produced: self.produced.clone(),
            bad_records: guard.clone(),
        };
        let reader = Reader::new(read_plan, format!("{}/{label}", self.name()), &plan.reads);
        let maps = ExampleMaps { task: self.name(), steps, bad_records: guard.clone() };
        let maps = Arc::new(RecordMaps { parser: files.parser, maps });
        let maps: Arc<dyn MapItems<Record>> = match self.share {
            Some(share) => Arc::new(ShareOf { share, maps }),
            None => maps,
        };
        mapped(reader, maps, plan.workers.as_ref())
    }

    fn append(&self, input: Stage, group: Group, guard: &BadRecordGuard) -> Stage {
        let stage = match group.head {
            Some((context, step)) => staged(input, context, step, self.plan.workers.as_ref()),
            None => input,
        };
        if group.maps.is_empty() {
            return stage;
        }
        let bad_records = guard.clone();
        let maps = ExampleMaps { task: self.name(), steps: group.maps, bad_records };
        mapped(stage, Arc::new(maps), self.plan.workers.as_ref())
    }
}

/// A step over the examples that a stage yields.
pub(super) fn staged(
    input: Stage,
    context: StepContext,
    step: Step,
    workers: Option<&Workers>,
) -> Stage {
    match step {
        Step::Batch { num_examples, step } => batched(input, context, num_examples, step, workers),
        Step::Map(step) => {
            let StepContext { task, name, seed, bad_records } = context;
            let steps = vec![NamedStep { name, seed, step }];
            let maps = ExampleMaps { task, steps, bad_records };
            Box::new(Map::new(input, Arc::new(maps)))
        }
        Step::FlatMap(step) => Box::new(FlatMap::new(input, context, step)),
        Step::Join { num_examples, step } => {
            Box::new(Join { input, context, num_examples, step, counter: 0 })
        }
        Step::Rebatch { feature, length } => {
            Box::new(Rebatch::new(input, context, feature, length))
        }
        Step::Convert(converter) => Box::new(Convert::new(input, converter)),
        Step::Shuffle { buffer_size } => Box::new(Shuffle::new(input, context.seed, buffer_size)),
        Step::Take { num_examples, num_passes } => {
            Box::new(Take::new(input, num_examples, num_passes))
        }
    }
}
