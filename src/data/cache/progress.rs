//! `.progress.json`: the progress of an unfinished cache, from which a run continues after a killed
//! one.

use serde::{Deserialize, Serialize};

use super::folder::CacheFolder;
use super::info::FeatureTable;
use super::stats::Stats;
use crate::error::DataError;
use crate::pipeline::StageState;
use crate::source::BadPlaces;

/// The progress of a task's cache. All data that it mentions are on the disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Progress {
    /// A description of the cache's content; another recipe starts over.
    pub recipe: String,
    /// The splits that are finished.
    pub finished: Vec<String>,
    /// The split being written.
    pub current: Option<SplitProgress>,
    /// The records that were skipped.
    #[serde(default)]
    pub bad_records: BadPlaces,
}

/// The progress of a split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SplitProgress {
    pub split: String,
    /// The position in the source and its preprocessors; `None` at the beginning.
    pub position: Option<StageState>,
    /// Number of valid bytes of each shard; any bytes after them were written later.
    pub lengths: Vec<u64>,
    pub stats: Stats,
    pub features: FeatureTable,
}

impl Progress {
    /// The progress of a killed run with the same recipe; otherwise the folder is cleared.
    pub(super) fn resume(cache: &CacheFolder, recipe: String) -> Result<Self, DataError> {
        let file = cache.progress();
        if file.exists()? {
            // A file that cannot be parsed was written by another version.
            match serde_json::from_slice::<Self>(&file.read()?) {
                Ok(progress) if progress.recipe == recipe => return Ok(progress),
                _ => {}
            }
        }
        cache.clear()?;
        let progress = Self { recipe, ..Self::default() };
        progress.save(cache)?;
        Ok(progress)
    }

    pub(super) fn save(&self, cache: &CacheFolder) -> Result<(), DataError> {
        let json = serde_json::to_vec(self).expect("maps with text keys are JSON");
        Ok(cache.progress().write_atomic(&json)?)
    }

    /// The progress of a split, if it is the current one.
    pub(super) fn of(&self, split: &str) -> Option<&SplitProgress> {
        self.current.as_ref().filter(|current| current.split == split)
    }
}

impl SplitProgress {
    pub(super) fn new(split: &str, num_shards: usize) -> Self {
        Self {
            split: split.to_string(),
            position: None,
            lengths: vec![0; num_shards],
            stats: Stats::default(),
            features: FeatureTable::default(),
        }
    }
}
