//! Writes a cache by several processes, exactly as one process writes it.
//!
//! First each process makes the examples of its blocks of records, in a file of its own. When all have, the number of every
//! example is known, and with it its shard: each process then writes its shards, from the files of all. The first one
//! describes the splits and completes the cache. They meet by the files of their progress alone, so that any launcher will do, and a killed
//! process continues.

use std::io::{BufReader, ErrorKind, Read};
use std::time::{Duration, Instant, SystemTime};

use super::folder::CacheFolder;
use super::info::FeatureTable;
use super::part::{CachePart, CacheProcess, ProcessProgress};
use super::plan::SplitPlan;
use super::progress::SplitProgress;
use super::recipe::Recipe;
use super::shards::{Shards, append_durably};
use super::share::Gauge;
use super::stats::{Counter, Stats};
use super::write::{
    CacheOptions, EXAMPLES_PER_REPORT, FLUSH_INTERVAL, Written, described, fit, shard_seed,
    task_plan,
};
use crate::error::DataError;
use crate::pipeline::{Pull, RecordShare, Stage, precache_part, precache_stage, take_block};
use crate::source::{encode, frame};
use crate::task::Task;
use gimlet_storage::{Path, StorageError};

/// Time between two looks at the progress of other processes.
const LOOK: Duration = Duration::from_millis(100);

/// One of the processes that write a cache.
pub(super) struct Divided<'a> {
    pub task: &'a Task,
    /// The folder on disk in which they write.
    pub cache: &'a CacheFolder,
    /// The place where the cache will be: the same folder, or one in a store.
    pub target: &'a CacheFolder,
    pub options: &'a CacheOptions,
    pub process: CacheProcess,
}

impl Divided<'_> {
    /// Writes this process's share of the cache; the first process returns when the cache is complete.
    pub fn write(
        &self,
        plans: &[SplitPlan],
        recipe: &str,
        observe: &mut dyn FnMut(&str, Written),
    ) -> Result<(), DataError> {
        self.begin()?;
        let recipe = format!("{recipe} processes {}", self.process.count);
        let file = self.process.progress_of(self.cache, self.process.rank);
        let mut progress = ProcessProgress::resume(&file, recipe)?;
        progress.save(&file)?;
        self.options.bad_records.take_up(&progress.bad_records);
        for (index, plan) in plans.iter().enumerate() {
            if progress.parts.len() <= index {
                progress.parts.push(CachePart::default());
            }
            if !progress.parts[index].is_whole {
                self.make_part(plan, index, &mut progress, observe)?;
            }
        }
        let has_parts = |other: &ProcessProgress| {
            other.parts.len() == plans.len() && other.parts.iter().all(|part| part.is_whole)
        };
        let Some(all) = self.wait_for(&progress.recipe, has_parts)? else { return Ok(()) };
        if !progress.is_merged {
            for (index, plan) in plans.iter().enumerate() {
                self.merge(plan, index, &all, &progress)?;
            }
            progress.is_merged = true;
            progress.save(&file)?;
        }
        if self.process.rank > 0 {
            return Ok(());
        }
        let Some(all) = self.wait_for(&progress.recipe, |other| other.is_merged)? else {
            return Ok(());
        };
        self.finish(plans, &all)
    }

    /// Waits until the mark of a cache that is made again is gone: the first process removes it.
    fn begin(&self) -> Result<(), DataError> {
        if !self.options.overwrite {
            return Ok(());
        }
        if self.process.rank == 0 && self.target.is_complete()? {
            self.target.completed().remove_file()?;
        }
        let since = Instant::now();
        while self.target.is_complete()? {
            self.give_up_after(since, 0)?;
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Makes the examples of this process's blocks of a split.
    fn make_part(
        &self,
        plan: &SplitPlan,
        index: usize,
        progress: &mut ProcessProgress,
        observe: &mut dyn FnMut(&str, Written),
    ) -> Result<(), DataError> {
        let path = self.process.part_of(self.cache, &plan.split, self.process.rank);
        path.set_size(progress.parts[index].length)?;
        let mut held = Vec::new();
        if let Some(mut stage) = self.stage(plan, index)? {
            if let Some(position) = &progress.parts[index].position {
                stage.restore(position)?;
            }
            let counter = Counter::new(self.task, self.options.enable_char_counts)?;
            let mut gauge = Gauge::new(self.task, plan)?;
            let mut flushed = Instant::now();
            while let Some(mut example) = stage.pull()? {
                let block = take_block(&mut example);
                fit(self.task, &mut example);
                let part = &mut progress.parts[index];
                part.count(block, self.process.count);
                let number = part.stats.examples();
                let noted = part.features.note(&example, &self.task.output_features);
                noted.map_err(|reason| self.mixed(&plan.split, number + 1, reason))?;
                counter.count(&example, &mut part.stats);
                frame(&encode(&example), &mut held);
                if part.stats.examples().is_multiple_of(EXAMPLES_PER_REPORT) {
                    let share = gauge.share(&stage)?;
                    observe(&plan.split, Written { examples: number + 1, share });
                }
                if held.len() >= self.options.flush_bytes || flushed.elapsed() >= FLUSH_INTERVAL {
                    progress.parts[index].position = Some(stage.save());
                    self.flush(&path, &mut held, index, progress)?;
                    flushed = Instant::now();
                }
            }
        }
        progress.parts[index].is_whole = true;
        progress.parts[index].position = None;
        observe(
            &plan.split,
            Written { examples: progress.parts[index].stats.examples(), share: Some(1.0) },
        );
        self.flush(&path, &mut held, index, progress)
    }

    /// The examples of a split that this process makes; `None` if it makes none. A split whose steps take several examples
    /// together goes to one process.
    fn stage(&self, plan: &SplitPlan, index: usize) -> Result<Option<Stage>, DataError> {
        let CacheProcess { rank, count, .. } = self.process;
        let share = RecordShare { rank, count, first: index };
        let task_plan = task_plan(self.options, &plan.split);
        if let Some(stage) = precache_part(self.task, &task_plan, share)? {
            return Ok(Some(stage));
        }
        share.owns(0).then(|| precache_stage(self.task, &task_plan)).transpose()
    }

    /// Appends the held examples to the part, and then saves the progress.
    fn flush(
        &self,
        path: &Path,
        held: &mut Vec<u8>,
        index: usize,
        progress: &mut ProcessProgress,
    ) -> Result<(), DataError> {
        append_durably(path, held)?;
        progress.parts[index].length += held.len() as u64;
        held.clear();
        progress.bad_records = self.options.bad_records.places();
        progress.save(&self.process.progress_of(self.cache, self.process.rank))
    }

    /// Writes this process's shards of a split from the parts of all processes.
    fn merge(
        &self,
        plan: &SplitPlan,
        index: usize,
        all: &[ProcessProgress],
        progress: &ProcessProgress,
    ) -> Result<(), DataError> {
        let CacheProcess { rank, count, .. } = self.process;
        let is_own = |shard: usize| shard % count == rank;
        let seed = shard_seed(self.task, self.options, &plan.split);
        let reached = SplitProgress::new(&plan.split, plan.num_shards);
        let mut shards = Shards::new(self.cache, reached, seed);
        shards.trim(is_own)?;
        let own_file = self.process.progress_of(self.cache, rank);
        let mut parts: Vec<PartReader> = Vec::new();
        for other in 0..count {
            parts.push(PartReader::open(self.process.part_of(self.cache, &plan.split, other))?);
        }
        let share = RecordShare { rank, count, first: index };
        let blocks = all.iter().map(|other| other.parts[index].blocks.len()).max().unwrap_or(0);
        let mut number = 0;
        for block in 0..(blocks * count) as u64 {
            let owner = share.owner(block);
            let of_owner = &all[owner].parts[index].blocks;
            for _ in 0..of_owner.get(block as usize / count).copied().unwrap_or(0) {
                let framed = parts[owner].read_next()?;
                let shard = shards.shard_of(number);
                if is_own(shard) {
                    shards.push_framed(shard, framed);
                }
                number += 1;
            }
            if shards.num_held >= self.options.flush_bytes {
                shards.flush_own()?;
                // Others see that this process is alive.
                progress.save(&own_file)?;
            }
        }
        shards.flush_own()
    }

    /// Describes the splits, completes the cache, and removes what the processes needed.
    fn finish(&self, plans: &[SplitPlan], all: &[ProcessProgress]) -> Result<(), DataError> {
        for (index, plan) in plans.iter().enumerate() {
            let (mut stats, mut features) = (Stats::default(), FeatureTable::default());
            for part in all.iter().map(|progress| &progress.parts[index]) {
                stats.join(&part.stats);
                let joined = features.join(&part.features);
                joined.map_err(|reason| self.mixed(&plan.split, 1, reason))?;
            }
            described(self.task, self.cache, plan, &features, &stats)?;
        }
        self.cache.keep_only(plans)?;
        Recipe::new(self.task, self.options)?.write(self.cache)?;
        self.cache.complete()?;
        self.cache.remove_parts()
    }

    fn mixed(&self, split: &str, number: u64, reason: String) -> DataError {
        let (task, split) = (self.task.task_name().to_string(), split.to_string());
        DataError::MixedExamples { task, split, number, reason }
    }

    /// Waits until the progress of every process with this recipe is far enough; `None` if the cache has become complete
    /// meanwhile. A process is given up when its progress does not change.
    fn wait_for(
        &self,
        recipe: &str,
        is_enough: impl Fn(&ProcessProgress) -> bool,
    ) -> Result<Option<Vec<ProcessProgress>>, DataError> {
        let mut all = Vec::new();
        let mut since: (Instant, Option<SystemTime>) = (Instant::now(), None);
        while all.len() < self.process.count {
            let file = self.process.progress_of(self.cache, all.len());
            let found = ProcessProgress::read(&file)?.filter(|other| other.recipe == recipe);
            if let Some(progress) = found.filter(&is_enough) {
                all.push(progress);
                since = (Instant::now(), None);
                continue;
            }
            if self.process.rank > 0 && self.target.is_complete()? {
                return Ok(None);
            }
            let changed = file.modified().ok();
            if changed != since.1 {
                since = (Instant::now(), changed);
            }
            self.give_up_after(since.0, all.len())?;
            std::thread::sleep(LOOK);
        }
        Ok(Some(all))
    }

    fn give_up_after(&self, since: Instant, rank: usize) -> Result<(), DataError> {
        if since.elapsed() < Duration::from_secs(self.process.timeout_secs) {
            return Ok(());
        }
        Err(DataError::CacheProcess {
            folder: self.cache.path().to_string(),
            rank,
            count: self.process.count,
            seconds: self.process.timeout_secs,
        })
    }
}

/// The framed examples of a part, one after the other.
struct PartReader {
    path: Path,
    file: BufReader<Box<dyn Read + Send>>,
    framed: Vec<u8>,
}

/// Bytes of a frame before the record, which begin with its length, and after it: see `source::frame`.
const HEAD: usize = 12;
const TAIL: usize = 4;

impl PartReader {
    fn open(path: Path) -> Result<Self, DataError> {
        let file = BufReader::with_capacity(1 << 20, path.open()?);
        Ok(Self { path, file, framed: Vec::new() })
    }

    /// The next example with its frame.
    fn read_next(&mut self) -> Result<&[u8], DataError> {
        let read = self.read_frame();
        read.map_err(|error| StorageError::new("read", &self.path, error))?;
        Ok(&self.framed)
    }

    fn read_frame(&mut self) -> std::io::Result<()> {
        self.framed.resize(HEAD, 0);
        self.file.read_exact(&mut self.framed)?;
        let length = self.framed[..8].try_into().expect("eight bytes");
        let length =
            usize::try_from(u64::from_le_bytes(length)).map_err(|_| ErrorKind::InvalidData)?;
        self.framed.resize(HEAD + length + TAIL, 0);
        self.file.read_exact(&mut self.framed[HEAD..])
    }
}
