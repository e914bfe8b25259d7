//! The paths of the files of a task's cache.

use std::collections::BTreeSet;

use super::plan::SplitPlan;
use crate::error::DataError;
use gimlet_storage::Path;

const COMPLETED: &str = "COMPLETED";
/// The format of the shards, as SeqIO writes it (`cache_tasks_main.py`, `completed_file_contents`).
const COMPLETED_TEXT: &[u8] = b"tfrecord";
/// The file that an unfinished cache needs to continue.
const PROGRESS: &str = ".progress.json";
/// The file with the values with which the cache was made.
const RECIPE: &str = ".recipe.json";

/// The folder that holds, or will hold, a task's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheFolder {
    path: Path,
}

impl CacheFolder {
    /// The folder of a task below a folder of caches. As in SeqIO, `:` separates folders.
    pub fn of(caches: &Path, task: &str) -> Self {
        Self { path: caches.join(&task.replace(':', "/")) }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the cache is complete.
    pub fn is_complete(&self) -> Result<bool, DataError> {
        Ok(self.completed().exists()?)
    }

    /// Marks the cache as complete, so that readers accept it; called after all other files are
    /// durable.
    pub(super) fn complete(&self) -> Result<(), DataError> {
        Ok(self.completed().write_atomic(COMPLETED_TEXT)?)
    }

    pub(super) fn completed(&self) -> Path {
        self.path.join(COMPLETED)
    }

    pub(super) fn shard(&self, split: &str, index: usize, num_shards: usize) -> Path {
        self.path.join(&format!("{split}.tfrecord-{index:05}-of-{num_shards:05}"))
    }

    pub(super) fn info(&self, split: &str) -> Path {
        self.path.join(&format!("info.{split}.json"))
    }

    pub(super) fn stats(&self, split: &str) -> Path {
        self.path.join(&format!("stats.{split}.json"))
    }

    pub(super) fn progress(&self) -> Path {
        self.path.join(PROGRESS)
    }

    pub(super) fn recipe(&self) -> Path {
        self.path.join(RECIPE)
    }

    /// The splits that have an info file.
    pub(super) fn splits(&self) -> Result<Vec<String>, DataError> {
        let names = self.path.list()?;
        let split = |path: &Path| {
            let name = path.file_name().strip_prefix("info.")?;
            Some(name.strip_suffix(".json")?.to_string())
        };
        Ok(names.iter().filter_map(split).collect())
    }

    /// Removes shards and descriptions of other plans.
    pub(super) fn keep_only(&self, plans: &[SplitPlan]) -> Result<(), DataError> {
        let of_split = |plan: &SplitPlan| self.files_of(plan);
        let wanted: BTreeSet<Path> = plans.iter().flat_map(of_split).collect();
        let is_stray =
            |file: &Path| is_of_cache(file) && !is_of_process(file) && !wanted.contains(file);
        self.remove_if(is_stray)
    }

    /// Removes the files that several processes need to write a cache.
    pub(super) fn remove_parts(&self) -> Result<(), DataError> {
        self.remove_if(is_of_process)
    }

    /// The files of a split.
    pub(super) fn files_of(&self, plan: &SplitPlan) -> Vec<Path> {
        let shard = |index| self.shard(&plan.split, index, plan.num_shards);
        let described = [self.info(&plan.split), self.stats(&plan.split)];
        described.into_iter().chain((0..plan.num_shards).map(shard)).collect()
    }

    fn remove_if(&self, is_unwanted: impl Fn(&Path) -> bool) -> Result<(), DataError> {
        for file in self.path.list()?.iter().filter(|file| is_unwanted(file)) {
            file.remove_file()?;
        }
        Ok(())
    }

    /// Removes the files of a cache and no other files. The mark of completion is removed first.
    pub fn clear(&self) -> Result<(), DataError> {
        let mut files: Vec<Path> = self.path.list()?.into_iter().filter(is_of_cache).collect();
        files.sort_by_key(|file| file.file_name() != COMPLETED);
        for file in files {
            file.remove_file()?;
        }
        Ok(self.path.sync_dir()?)
    }
}

fn is_of_cache(file: &Path) -> bool {
    let name = file.file_name();
    let described = name.starts_with("info.") || name.starts_with("stats.");
    name == COMPLETED
        || name == PROGRESS
        || name == RECIPE
        || is_of_process(file)
        || name.contains(".tfrecord-")
        || (described && name.ends_with(".json"))
}

/// Whether one of several processes needs the file to write its share.
fn is_of_process(file: &Path) -> bool {
    [".part.", ".progress-", ".lock-"].iter().any(|start| file.file_name().starts_with(start))
}
