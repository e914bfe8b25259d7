//! Records that cannot be read: an error, or skipped and counted up to a limit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::error::DataError;
use gimlet_gin::{Configurable, Parameters};
use gimlet_telemetry::warn;

/// Messages of skipped records that are kept, besides the first of each task.
const KEPT_MESSAGES: usize = 10;

/// Handling of a record that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Configurable)]
pub enum OnBadRecord {
    /// The run stops and reports the place of the record.
    #[default]
    Error,
    /// The record is skipped and counted.
    Skip,
}

/// A source's policy for bad records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Parameters)]
pub struct BadRecordPolicy {
    /// Handling of a record that cannot be read: a wrong checksum, a line that is neither text nor JSON, a file that ends
    /// within a record, a feature that is missing, a value that cannot be a feature. Gimlet's own.
    #[gin(default = OnBadRecord::Error)]
    pub on_bad_record: OnBadRecord,
    /// Maximum number of records that are skipped; more are an error. Gimlet's own.
    #[gin(default = MAX_BAD_RECORDS)]
    pub max_bad_records: u64,
}

/// The default limit of skipped records.
const MAX_BAD_RECORDS: u64 = 1000;

impl Default for BadRecordPolicy {
    fn default() -> Self {
        Self { on_bad_record: OnBadRecord::Error, max_bad_records: MAX_BAD_RECORDS }
    }
}

/// The places of skipped records: by task, the numbers in each file, so that a record counts once
/// even if the data are repeated. They are saved with a position, so that it also counts once if a
/// run is resumed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BadPlaces(BTreeMap<String, BTreeMap<String, BTreeSet<u64>>>);

impl BadPlaces {
    /// Whether no record was skipped.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the places of another process.
    pub(crate) fn extend(&mut self, other: &Self) {
        for (task, files) in &other.0 {
            let of_task = self.0.entry(task.clone()).or_default();
            for (file, numbers) in files {
                of_task.entry(file.clone()).or_default().extend(numbers);
            }
        }
    }

    /// Adds a record; `false` if the record was already there.
    fn insert(&mut self, task: &str, (file, number): (String, u64)) -> bool {
        let of_task = self.0.entry(task.to_string()).or_default();
        of_task.entry(file).or_default().insert(number)
    }

    fn count(&self) -> usize {
        self.0.keys().map(|task| self.count_of(task)).sum()
    }

    fn count_of(&self, task: &str) -> usize {
        self.0.get(task).into_iter().flat_map(BTreeMap::values).map(BTreeSet::len).sum()
    }
}

/// The records that a run skipped. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct BadRecords(Arc<Mutex<Skipped>>);

#[derive(Debug, Default)]
struct Skipped {
    places: BadPlaces,
    /// Messages of this process.
    messages: Vec<String>,
}

impl BadRecords {
    /// Records skipped so far.
    pub fn count(&self) -> u64 {
        self.lock().places.count() as u64
    }

    /// Tells the user how many records were skipped; the first ones were reported when they were read.
    pub fn tell(&self, what: &str) {
        match self.count() {
            0 => {}
            count => warn(&format!("{what}: {count} bad records are left out")),
        }
    }

    /// The places of the skipped records, with which another process can continue to count.
    pub(crate) fn places(&self) -> BadPlaces {
        self.lock().places.clone()
    }

    /// Continues the count of an earlier process.
    pub(crate) fn take_up(&self, places: &BadPlaces) {
        self.lock().places.extend(places);
    }

    /// Messages about the first skipped records.
    pub fn messages(&self) -> Vec<String> {
        self.lock().messages.clone()
    }

    /// Records a skipped record, reports the first ones and each task's first to the user, and
    /// returns the task's number of skipped records.
    fn note(&self, task: &str, place: (String, u64), message: impl FnOnce() -> String) -> u64 {
        let mut skipped = self.lock();
        let is_new = skipped.places.insert(task, place);
        let of_task = skipped.places.count_of(task);
        if is_new && (skipped.messages.len() < KEPT_MESSAGES || of_task == 1) {
            let message = message();
            warn(&message);
            skipped.messages.push(message);
            if skipped.messages.len() == KEPT_MESSAGES {
                warn("further bad records are only counted, except for the first of each task");
            }
        }
        of_task as u64
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Skipped> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The policy of one split together with the counter of its run.
#[derive(Clone, Debug, Default)]
pub(crate) struct BadRecordGuard {
    pub task: String,
    pub split: String,
    pub policy: BadRecordPolicy,
    pub skipped: BadRecords,
}

impl BadRecordGuard {
    /// Whether the error is that of a record, and records may be skipped.
    pub(crate) fn may_skip(&self, error: &DataError) -> bool {
        self.policy.on_bad_record == OnBadRecord::Skip && error.is_bad_record()
    }

    /// Passes the error on, or counts a record that may be skipped.
    pub(crate) fn skip(&self, error: DataError, file: &str, number: u64) -> Result<(), DataError> {
        if !self.may_skip(&error) {
            return Err(error);
        }
        let skipped = || format!("task `{}`: skipped a bad record: {error}", self.task);
        let count = self.skipped.note(&self.task, (file.to_string(), number), skipped);
        let limit = self.policy.max_bad_records;
        if count > limit {
            let (task, split, last) = (self.task.clone(), self.split.clone(), error.to_string());
            return Err(DataError::TooManyBadRecords { task, split, count, limit, last });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(on_bad_record: OnBadRecord) -> BadRecordGuard {
        let policy = BadRecordPolicy { on_bad_record, max_bad_records: 2 };
        BadRecordGuard { policy, ..BadRecordGuard::default() }
    }

    fn bad() -> DataError {
        DataError::Record { place: "f:1".to_string(), reason: "odd".to_string() }
    }

    #[test]
    fn a_record_counts_once_and_the_limit_holds() {
        let guard = guard(OnBadRecord::Skip);
        for number in [1, 2, 1, 2] {
            guard.skip(bad(), "f", number).unwrap();
        }
        assert_eq!(guard.skipped.count(), 2);
        assert_eq!(guard.skipped.messages().len(), 2);
        let error = guard.skip(bad(), "g", 1).unwrap_err().to_string();
        assert!(error.contains("3 bad records") && error.contains("f:1: odd"), "{error}");
    }

    #[test]
    fn the_limit_is_of_each_task() {
        let one = guard(OnBadRecord::Skip);
        let other = BadRecordGuard { task: "other".to_string(), ..one.clone() };
        for number in [1, 2] {
            one.skip(bad(), "f", number).unwrap();
            other.skip(bad(), "f", number).unwrap();
        }
        assert_eq!(one.skipped.count(), 4);
        assert!(other.skip(bad(), "f", 3).is_err());
    }

    #[test]
    fn another_process_goes_on_counting() {
        let (before, after) = (guard(OnBadRecord::Skip), guard(OnBadRecord::Skip));
        for number in [1, 2] {
            before.skip(bad(), "f", number).unwrap();
        }
        let saved = serde_json::to_string(&before.skipped.places()).unwrap();
        assert_eq!(saved, "{\"\":{\"f\":[1,2]}}");
        after.skipped.take_up(&serde_json::from_str(&saved).unwrap());
        after.skip(bad(), "f", 2).unwrap();
        assert_eq!(after.skipped.count(), 2);
        assert!(after.skip(bad(), "f", 3).is_err());
        assert_eq!(after.skipped.messages().len(), 1, "what is new is told anew");
    }

    #[test]
    fn each_task_is_heard_of() {
        let skipped = BadRecords::default();
        for (task, count) in [("a", KEPT_MESSAGES as u64 + 5), ("b", 2)] {
            for number in 1..=count {
                skipped.note(task, ("f".to_string(), number), || task.to_string());
            }
        }
        let messages = skipped.messages();
        assert_eq!(messages.len(), KEPT_MESSAGES + 1);
        assert_eq!(messages[KEPT_MESSAGES], "b");
    }

    #[test]
    fn only_records_are_skipped_and_only_when_asked() {
        assert!(guard(OnBadRecord::Error).skip(bad(), "f", 1).is_err());
        let other = DataError::Config("x".to_string());
        assert!(guard(OnBadRecord::Skip).skip(other, "f", 1).is_err());
    }
}
