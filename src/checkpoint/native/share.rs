//! Coordinates several processes that save one checkpoint. They communicate only through its
//! folder: the first process marks the folder; the others wait for the mark, write, and leave a
//! list of the files that they wrote; the first process waits for all lists.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::checksums::Checksums;
use super::msgpack::Leaves;
use crate::error::CheckpointError;
use crate::unfinished;
use gimlet_storage::Path;

/// The first and the longest pause between two checks.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1)];

/// The time for the others once one of them is lost, whose part may be there already.
const LAST_PATIENCE: Duration = Duration::from_secs(3);

/// The role of this process in a save of several processes.
#[derive(Clone, Debug)]
pub struct Share {
    /// Number of this process, from 0.
    pub rank: usize,
    /// Number of processes.
    pub count: usize,
    /// Identifier of this attempt, different for every attempt at the same step and the same in all
    /// processes. Letters, digits and `-`.
    pub save_id: String,
    /// Maximum time to wait for the others; `Duration::MAX` means no limit.
    pub patience: Duration,
    /// Set once another process is known to be lost: then the others are given a few seconds.
    pub is_hopeless: Arc<AtomicBool>,
}

/// The work that one process has done.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Done {
    save_id: String,
    /// Names that the process added to the tree, whichever process wrote their arrays.
    arrays: BTreeSet<String>,
    /// Checksums of the files that the process wrote.
    #[serde(flatten)]
    checksums: Checksums,
}

impl Share {
    /// Checks the caller's values.
    pub(super) fn check(&self) {
        let Self { rank, count, save_id, .. } = self;
        assert!(rank < count, "process {rank} is one of {count}");
        let is_plain = save_id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        assert!(is_plain && !save_id.is_empty(), "`{save_id}` can be part of a folder's name");
    }

    /// Waits until the first process has made the folder ready for this save.
    pub(super) fn wait_for_start(&self, folder: &Path) -> Result<(), CheckpointError> {
        let mut ask = || Ok(self.has_started(folder)?.then_some(()));
        self.wait(&mut ask)?.ok_or_else(|| {
            let seconds = self.patience.as_secs_f64();
            self.incomplete(folder, format!("process 0 has not begun it within {seconds} s"))
        })
    }

    /// Whether the folder still belongs to this save.
    fn has_started(&self, folder: &Path) -> Result<bool, CheckpointError> {
        Ok(unfinished::marked_save(folder)?.as_ref() == Some(&self.save_id))
    }

    /// Tells the first process that this process has written everything, with a list.
    pub(super) fn leave(
        &self,
        folder: &Path,
        arrays: BTreeSet<String>,
        checksums: Checksums,
    ) -> Result<(), CheckpointError> {
        if !self.has_started(folder)? {
            let reason = "process 0 has given it up, or started it over".to_string();
            return Err(self.incomplete(folder, reason));
        }
        let done = Done { save_id: self.save_id.clone(), arrays, checksums };
        let text = serde_json::to_vec(&done).expect("plain data becomes JSON");
        let file = self.done_file(folder, self.rank);
        file.parent().expect("it lies in a folder").create_dir_all()?;
        Ok(file.write_atomic(&text)?)
    }

    /// Waits for all other processes, and returns their lists, which are removed.
    pub(super) fn gather(&self, folder: &Path) -> Result<Vec<(usize, Done)>, CheckpointError> {
        let mut missing: BTreeSet<usize> = (1..self.count).collect();
        let mut all = Vec::new();
        let mut ask = || {
            let names: BTreeSet<Path> = match missing.is_empty() {
                true => return Ok(Some(())),
                false => folder.join("gimlet").list()?.into_iter().collect(),
            };
            for rank in missing.clone() {
                let file = self.done_file(folder, rank);
                if names.contains(&file)
                    && let Some(done) = self.read(&file)?
                {
                    all.push((rank, done));
                    missing.remove(&rank);
                }
            }
            Ok(missing.is_empty().then_some(()))
        };
        let has_all = self.wait(&mut ask)?.is_some();
        if !has_all {
            let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
            let (missing, count) = (missing.join(", "), self.count);
            let seconds = self.patience.as_secs_f64();
            let reason = format!(
                "of {count} processes, not done after {seconds} s: {missing}; see their logs"
            );
            return Err(self.incomplete(folder, reason));
        }
        (1..self.count).try_for_each(|rank| self.done_file(folder, rank).remove_file())?;
        Ok(all)
    }

    /// Adds the files of the other processes to the files of this process.
    ///
    /// # Errors
    /// A process has an array that this process does not know, or two processes wrote the same file.
    pub(super) fn merge(
        &self,
        folder: &Path,
        (leaves, mut checksums): (&Leaves, Checksums),
        others: Vec<(usize, Done)>,
    ) -> Result<Checksums, CheckpointError> {
        for (rank, done) in others {
            let is_unknown = |name: &&String| !leaves.contains_key(*name);
            let unknown: Vec<String> =
                done.arrays.iter().filter(is_unknown).map(|name| format!("`{name}`")).collect();
            if !unknown.is_empty() {
                let unknown = unknown.join(", ");
                let reason = format!(
                    "process {rank} has arrays that process 0 does not know: {unknown}; all \
                     processes must name all arrays"
                );
                return Err(self.incomplete(folder, reason));
            }
            for (file, checksum) in done.checksums.files {
                match checksums.files.entry(file) {
                    Entry::Vacant(entry) => {
                        entry.insert(checksum);
                    }
                    Entry::Occupied(entry) => {
                        let file = entry.key();
                        let reason = format!(
                            "process {rank} and one before it wrote `{file}`; check the holders \
                             of its array"
                        );
                        return Err(self.incomplete(folder, reason));
                    }
                }
            }
        }
        Ok(checksums)
    }

    /// Reads the list of a process; `None` for the list of another save.
    fn read(&self, file: &Path) -> Result<Option<Done>, CheckpointError> {
        let done: Option<Done> = serde_json::from_slice(&file.read()?).ok();
        Ok(done.filter(|done| done.save_id == self.save_id))
    }

    fn done_file(&self, folder: &Path, rank: usize) -> Path {
        folder.join(&format!("gimlet/done-{rank:05}-of-{:05}.json", self.count))
    }

    pub(super) fn incomplete(&self, folder: &Path, reason: String) -> CheckpointError {
        CheckpointError::Incomplete { path: folder.to_string(), reason }
    }

    /// Calls `ask` until it returns an answer, with growing pauses; `None` if there is no answer in
    /// time.
    fn wait<T>(
        &self,
        ask: &mut dyn FnMut() -> Result<Option<T>, CheckpointError>,
    ) -> Result<Option<T>, CheckpointError> {
        let (started, mut hopeless_since) = (Instant::now(), None::<Instant>);
        let [mut pause, longest] = PAUSES;
        loop {
            if self.is_hopeless.load(Ordering::Relaxed) {
                hopeless_since.get_or_insert_with(Instant::now);
            }
            let patience = self.patience.saturating_sub(started.elapsed());
            let last = hopeless_since.map(|since| LAST_PATIENCE.saturating_sub(since.elapsed()));
            let left = last.map_or(patience, |last| patience.min(last));
            if let Some(answer) = ask()? {
                return Ok(Some(answer));
            }
            if left.is_zero() {
                return Ok(None);
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(longest);
        }
    }
}
