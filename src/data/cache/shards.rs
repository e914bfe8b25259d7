//! The shards of a split that is being written; the last examples are held in memory.

use std::io::Write;

use super::folder::CacheFolder;
use super::progress::SplitProgress;
use crate::error::DataError;
use crate::random::StageSeed;
use crate::source::frame;
use gimlet_storage::{FileWriter, Path, StorageError};

/// The shards of a split; the last examples are held in memory.
pub(super) struct Shards<'a> {
    pub cache: &'a CacheFolder,
    pub reached: SplitProgress,
    /// The bytes to be appended to each shard.
    held: Vec<Vec<u8>>,
    /// Total number of held bytes.
    pub num_held: usize,
    seed: StageSeed,
    /// The round that deals out examples, and its order of shards.
    round: Option<(u64, Vec<usize>)>,
}

impl<'a> Shards<'a> {
    /// The shards of a split that have reached that state.
    pub fn new(cache: &'a CacheFolder, reached: SplitProgress, seed: StageSeed) -> Self {
        let held = vec![Vec::new(); reached.lengths.len()];
        Self { cache, reached, held, num_held: 0, seed, round: None }
    }

    /// Truncates shards to their lengths in the progress, as a killed run may have written more.
    pub fn trim(&self, is_wanted: impl Fn(usize) -> bool) -> Result<(), DataError> {
        let lengths = self.reached.lengths.iter().enumerate();
        for (index, &length) in lengths.filter(|(index, _)| is_wanted(*index)) {
            self.path(index).set_size(length)?;
        }
        Ok(())
    }

    fn path(&self, index: usize) -> Path {
        self.cache.shard(&self.reached.split, index, self.held.len())
    }

    /// Adds a record to a shard.
    pub fn push(&mut self, shard: usize, record: &[u8]) {
        let held = &mut self.held[shard];
        let before = held.len();
        frame(record, held);
        self.num_held += held.len() - before;
    }

    /// Adds a record with its frame to a shard.
    pub fn push_framed(&mut self, shard: usize, framed: &[u8]) {
        self.held[shard].extend_from_slice(framed);
        self.num_held += framed.len();
    }

    /// The shard of the example of that number.
    pub fn shard_of(&mut self, number: u64) -> usize {
        let num_shards = self.held.len() as u64;
        let (round, turn) = (number / num_shards, (number % num_shards) as usize);
        match &self.round {
            Some((current, order)) if *current == round => order[turn],
            _ => {
                let mut order: Vec<usize> = (0..self.held.len()).collect();
                self.seed.draw(round).shuffle(&mut order);
                let shard = order[turn];
                self.round = Some((round, order));
                shard
            }
        }
    }

    /// Appends the held bytes and waits until the disk has them, together with all else in the folder.
    pub fn flush(&mut self) -> Result<(), DataError> {
        self.append_held(|path, bytes| Ok(appended(path, bytes)?.close()?))?;
        Ok(self.cache.path().sync_tree()?)
    }

    /// The same for a process beside others, whose files in the folder come and go.
    pub fn flush_own(&mut self) -> Result<(), DataError> {
        self.append_held(append_durably)?;
        Ok(self.cache.path().sync_dir()?)
    }

    fn append_held(
        &mut self,
        append: impl Fn(&Path, &[u8]) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        for index in 0..self.held.len() {
            if self.held[index].is_empty() {
                continue;
            }
            // One file at a time: a split may have more shards than a process may open files.
            append(&self.path(index), &self.held[index])?;
            self.reached.lengths[index] += self.held[index].len() as u64;
            self.held[index].clear();
        }
        self.num_held = 0;
        Ok(())
    }
}

/// Appends bytes to a file and waits until the disk has them.
pub(super) fn append_durably(path: &Path, bytes: &[u8]) -> Result<(), DataError> {
    Ok(appended(path, bytes)?.finish()?)
}

fn appended(path: &Path, bytes: &[u8]) -> Result<FileWriter, DataError> {
    let mut file = path.append()?;
    let written = file.write_all(bytes);
    written.map_err(|error| StorageError::new("write", path, error))?;
    Ok(file)
}
