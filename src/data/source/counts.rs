//! Counts the examples of files and finds their records, for formats without such an index: JSON,
//! CSV, text and Arrow. Each file is counted once by a process.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::file::{Format, SourceFile};
use super::read::{Body, RecordPosition, open_records};
use crate::error::DataError;

/// The examples of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub examples: u64,
    /// Index of records, for files with blank lines and headers between examples: for the first
    /// example of each run of consecutive ones, its number and the number of records before it.
    runs: Vec<(u64, u64)>,
}

impl Counted {
    /// A file in which each record is an example.
    pub(super) fn of_records(examples: u64) -> Self {
        Self { examples, runs: vec![(0, 0)] }
    }

    /// The range of records that contains these examples.
    pub(super) fn records(&self, examples: Range<u64>) -> Range<u64> {
        if examples.is_empty() {
            return 0..0;
        }
        self.record(examples.start)..self.record(examples.end - 1) + 1
    }

    fn record(&self, example: u64) -> u64 {
        let after = self.runs.partition_point(|(first, _)| *first <= example);
        let (first, record) = self.runs[after.saturating_sub(1)];
        record + example - first
    }

    fn add(&mut self, records_before: u64) {
        let follows = !self.runs.is_empty() && self.record(self.examples) == records_before;
        if !follows {
            self.runs.push((self.examples, records_before));
        }
        self.examples += 1;
    }
}

/// Path and size of the files that were counted.
type Known = HashMap<(String, u64), Arc<Counted>>;

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// Counts files by reading them, several at once.
pub(super) fn count_by_reading(files: &[SourceFile]) -> Result<Vec<Arc<Counted>>, DataError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(files.len());
    let next = AtomicUsize::new(0);
    let counted: Vec<OnceLock<_>> = files.iter().map(|_| OnceLock::new()).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let index = next.fetch_add(1, Ordering::Relaxed)
                    && let (Some(file), Some(place)) = (files.get(index), counted.get(index))
                {
                    place.get_or_init(|| count_once(file));
                }
            });
        }
    });
    let counted = counted.into_iter();
    counted.map(|place| place.into_inner().expect("every file was counted")).collect()
}

fn count_once(file: &SourceFile) -> Result<Arc<Counted>, DataError> {
    let key = (file.path.to_string(), file.size()?);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(counted) = known().get_or_insert_default().get(&key) {
        return Ok(counted.clone());
    }
    let counted = Arc::new(count(file)?);
    known().get_or_insert_default().insert(key, counted.clone());
    Ok(counted)
}

fn count(file: &SourceFile) -> Result<Counted, DataError> {
    let mut reader = open_records(file, RecordPosition::default())?;
    let mut counted = Counted::default();
    loop {
        let before = reader.position().records;
        match reader.next_record() {
            Ok(None) => return Ok(counted),
            Ok(Some(Body::Bytes(line))) if is_blank(&line, &file.format) => {}
            Ok(Some(_)) => counted.add(before),
            // Counted, since skipping is decided when the record is read.
            Err(_) if reader.recovers() => counted.add(before),
            Err(error) => return Err(error),
        }
    }
}

/// Whether a line is a blank line between JSON objects.
pub(super) fn is_blank(line: &[u8], format: &Format) -> bool {
    matches!(format, Format::Json { .. }) && line.iter().all(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimlet_storage::Path;

    #[test]
    fn examples_are_found_behind_what_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        std::fs::write(&path, "{\"a\": 1}\n\n{\"a\": 2}\n{\"a\": 3}\n \n\n{\"a\": 4}\n\n").unwrap();
        let path = Path::parse(path.to_str().unwrap()).unwrap();
        let file = SourceFile::new(path, Format::Json { field: None });
        let counted = &count_by_reading(std::slice::from_ref(&file)).unwrap()[0];
        assert_eq!(counted.examples, 4);
        for (examples, records) in
            [(0..4, 0..7), (0..1, 0..1), (1..2, 2..3), (1..3, 2..4), (3..4, 6..7), (2..2, 0..0)]
        {
            assert_eq!(counted.records(examples.clone()), records, "{examples:?}");
        }
    }
}
