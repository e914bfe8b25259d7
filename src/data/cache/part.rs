//! The part of a cache that one of several processes makes: its examples of each split in order, and its progress.
//!
//! ```text
//! .part.train-00001-of-00004      framed tf.Examples of the blocks of records that are its own
//! .progress-00001-of-00004.json   number of examples of each block; written after the examples
//! ```

use serde::{Deserialize, Serialize};

use super::folder::CacheFolder;
use super::info::FeatureTable;
use super::stats::Stats;
use crate::error::DataError;
use crate::pipeline::StageState;
use crate::source::BadPlaces;
use gimlet_storage::Path;

/// One of several processes that write a cache together. All see its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheProcess {
    /// This process, from 0.
    pub rank: usize,
    /// Number of processes.
    pub count: usize,
    /// Whether all of them run on one host.
    pub is_on_one_host: bool,
    /// Seconds without any progress after which another process is given up.
    pub timeout_secs: u64,
}

/// The progress of one process. All data that it mentions are on the disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ProcessProgress {
    /// A description of the cache's content and of the number of processes; another recipe starts over.
    pub recipe: String,
    /// The parts of the splits that are begun, in the order of the splits.
    pub parts: Vec<CachePart>,
    /// Whether the shards of this process are written.
    pub is_merged: bool,
    /// The records that were skipped.
    pub bad_records: BadPlaces,
}

/// The examples of a split that one process has made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct CachePart {
    /// Whether no example is missing.
    pub is_whole: bool,
    /// The position in the source and its preprocessors; `None` at the beginning.
    pub position: Option<StageState>,
    /// Number of valid bytes of its file; any bytes after them were written later.
    pub length: u64,
    /// Number of examples of each of the process's blocks, in order.
    pub blocks: Vec<u64>,
    pub stats: Stats,
    pub features: FeatureTable,
}

impl CachePart {
    /// Counts an example of a block, of those that are dealt out to so many processes in turn.
    pub fn count(&mut self, block: u64, num_processes: usize) {
        let own = (block / num_processes as u64) as usize;
        if self.blocks.len() <= own {
            self.blocks.resize(own + 1, 0);
        }
        self.blocks[own] += 1;
    }
}

impl ProcessProgress {
    /// The progress of a killed run with the same recipe, or none.
    pub fn resume(file: &Path, recipe: String) -> Result<Self, DataError> {
        match Self::read(file)? {
            Some(progress) if progress.recipe == recipe => Ok(progress),
            _ => Ok(Self { recipe, ..Self::default() }),
        }
    }

    /// The progress in a file; `None` if there is none, or that of another version.
    pub fn read(file: &Path) -> Result<Option<Self>, DataError> {
        match file.exists()? {
            true => Ok(serde_json::from_slice(&file.read()?).ok()),
            false => Ok(None),
        }
    }

    pub fn save(&self, file: &Path) -> Result<(), DataError> {
        let json = serde_json::to_vec(self).expect("maps with text keys are JSON");
        Ok(file.write_atomic(&json)?)
    }
}

impl CacheProcess {
    /// The file of the progress of one of these processes.
    pub(super) fn progress_of(&self, cache: &CacheFolder, rank: usize) -> Path {
        cache.path().join(&format!(".progress-{rank:05}-of-{:05}.json", self.count))
    }

    /// The file that this process locks.
    pub(super) fn lock_of(&self, cache: &CacheFolder) -> Path {
        cache.path().join(&format!(".lock-{:05}-of-{:05}", self.rank, self.count))
    }

    /// The file of the examples of a split that one of these processes has made.
    pub(super) fn part_of(&self, cache: &CacheFolder, split: &str, rank: usize) -> Path {
        cache.path().join(&format!(".part.{split}-{rank:05}-of-{:05}", self.count))
    }
}
