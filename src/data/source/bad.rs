//! Records that cannot be read: an error, or skipped and counted up to a limit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use crate::data::error::DataError;
use crate::gin::Configurable;
use crate::telemetry::warn;

/// Messages kept of skipped records, beside the first of each task.
const KEPT_MESSAGES: usize = 10;

/// What is done with a record that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Configurable)]
pub enum OnBadRecord {
    /// The run stops with the place of the record.
    #[default]
    Error,
    /// The record is left out and counted.
    Skip,
}

/// What a source says about bad records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BadRecordPolicy {
    pub on_bad_record: OnBadRecord,
    /// Skipped records beyond which the run stops after all.
    pub max_bad_records: u64,
}

/// The records that a run skipped. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct BadRecords(Arc<Mutex<Skipped>>);

#[derive(Debug, Default)]
struct Skipped {
    /// File and number by task, so that a record counts once however often the data are repeated.
    places: BTreeMap<String, BTreeSet<(String, u64)>>,
    messages: Vec<String>,
}

impl Skipped {
    fn count(&self) -> usize {
        self.places.values().map(BTreeSet::len).sum()
    }
}

impl BadRecords {
    /// Records skipped so far.
    pub fn count(&self) -> u64 {
        self.lock().count() as u64
    }

    /// What was wrong with the first of them.
    pub fn messages(&self) -> Vec<String> {
        self.lock().messages.clone()
    }

    /// Notes a skipped record, tells the user of the first ones and of each task's first, and returns
    /// how many the task has now.
    fn note(&self, task: &str, place: (String, u64), message: impl FnOnce() -> String) -> u64 {
        let mut skipped = self.lock();
        let of_task = skipped.places.entry(task.to_string()).or_default();
        let is_new = of_task.insert(place);
        let of_task = of_task.len();
        let count = skipped.count();
        if is_new && (count <= KEPT_MESSAGES || of_task == 1) {
            let message = message();
            warn(&message);
            if count == KEPT_MESSAGES {
                warn("further bad records are only counted, but for the first of each task");
            }
            skipped.messages.push(message);
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
    /// Whether the error is one of a record, and records may be left out.
    pub(crate) fn may_skip(&self, error: &DataError) -> bool {
        self.policy.on_bad_record == OnBadRecord::Skip && error.is_bad_record()
    }

    /// Passes the error on, or takes note of a record that may be skipped.
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
