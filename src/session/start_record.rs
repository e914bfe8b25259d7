//! `starts.jsonl`: a line for each start of a run, which says when, from which step, where and with which versions
//! it trains. `gimlet report` shows it.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::storage::{Path, Process, StorageError};

/// The file in MODEL_DIR.
pub const STARTS: &str = "starts.jsonl";

/// One start of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StartRecord {
    /// Seconds since 1970.
    pub time: u64,
    /// The step from which it trains: 0, or that of a checkpoint.
    pub step: u64,
    /// The words of the command line.
    pub command: Vec<String>,
    /// The machine of the first process.
    pub host: String,
    /// Number of processes.
    pub processes: usize,
    /// The device of the first process, and its processors or memory.
    pub device: String,
    /// Version and commit of Gimlet.
    pub gimlet: String,
    /// Version of libtorch.
    pub libtorch: String,
    /// `scope/module.Name.parameter` or a macro to the place of its binding: `runs/small.gin:12`. It is empty if
    /// the places are those of the start before.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub bound_at: BTreeMap<String, String>,
}

impl StartRecord {
    /// Adds a start from `step` at this moment to the file in MODEL_DIR.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, model_dir: &Path, step: u64) -> Result<(), StorageError> {
        let path = model_dir.join(STARTS);
        let mut text = match path.read() {
            Err(error) if error.is_not_found() => String::new(),
            read => String::from_utf8_lossy(&read?).into_owned(),
        };
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let host = Process::this().host.clone();
        let mut record = Self { time, step, host, ..self.clone() };
        if places(&parse(&text)).is_some_and(|earlier| *earlier == record.bound_at) {
            record.bound_at.clear();
        }
        text += &serde_json::to_string(&record).expect("a record has only texts and numbers");
        text.push('\n');
        path.write_atomic(text.as_bytes())
    }
}

/// Returns the starts of a run, the oldest first; none for runs that other programs wrote.
///
/// # Errors
/// The file cannot be read.
pub fn read_starts(model_dir: &Path) -> Result<Vec<StartRecord>, StorageError> {
    match model_dir.join(STARTS).read() {
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        read => Ok(parse(&String::from_utf8_lossy(&read?))),
    }
}

/// Returns the places of the bindings at the last start.
pub fn places(starts: &[StartRecord]) -> Option<&BTreeMap<String, String>> {
    starts.iter().rev().map(|start| &start.bound_at).find(|places| !places.is_empty())
}

fn parse(text: &str) -> Vec<StartRecord> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_written_where_they_change() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Path::try_from(dir.path()).unwrap();
        assert_eq!(read_starts(&folder).unwrap(), []);
        let bound = |place: &str| StartRecord {
            bound_at: [("TRAIN_STEPS".to_string(), place.to_string())].into(),
            ..StartRecord::default()
        };
        bound("a.gin:1").write(&folder, 0).unwrap();
        bound("a.gin:1").write(&folder, 10).unwrap();
        let starts = read_starts(&folder).unwrap();
        assert_eq!(starts.iter().map(|start| start.step).collect::<Vec<_>>(), [0, 10]);
        assert!(starts[1].bound_at.is_empty());
        assert_eq!(places(&starts).unwrap()["TRAIN_STEPS"], "a.gin:1");
        bound("a.gin:2").write(&folder, 20).unwrap();
        assert_eq!(places(&read_starts(&folder).unwrap()).unwrap()["TRAIN_STEPS"], "a.gin:2");
    }
}
