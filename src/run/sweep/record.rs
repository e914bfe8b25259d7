//! The memory of a sweep, in files of its own beside the points' folders: the values of a point, how its command ended, and its output.

use std::fmt;
use std::fs::{self, File, OpenOptions};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::run::checkpoint::storage_failure;
use crate::run::failure::Failure;
use crate::storage::{Path, StorageError};

use super::Task;
use super::process::End;

/// The folder of these files, in that of the sweep.
pub const SWEEP_DIR: &str = "_sweep";

/// The files about a point.
pub struct Record {
    path: Path,
    log: Path,
}

/// How far a point is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its command has not begun, or was another one.
    Waiting,
    /// Its command has begun: it is at work, or was interrupted.
    Begun,
    /// Its command ended with status 0.
    Finished,
    /// Its command ended with another status.
    Failed,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Waiting => "waiting",
            Self::Begun => "begun",
            Self::Finished => "finished",
            Self::Failed => "failed",
        })
    }
}

/// The content of the file about a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// The number of the point.
    pub index: usize,
    /// Its values as texts, by the names of bindings and flags.
    pub values: Vec<(String, String)>,
    /// The words of the command: another command, such as one with more steps, runs again.
    command: Vec<String>,
    /// The status with which it ended.
    status: Option<u8>,
}

/// Reads what a sweep in a folder remembers of the point with a folder in it.
///
/// # Errors
/// Storage that fails.
pub fn recorded(all: &Path, point: &str) -> Result<Option<Recorded>, StorageError> {
    match Record::new(all, point).path.read_to_string() {
        Err(error) if error.is_not_found() => Ok(None),
        text => Ok(serde_json::from_str(&text?).ok()),
    }
}

/// The file that takes the output of a point: the log itself, or one that becomes it, since buckets take whole files only.
pub(super) enum Log {
    /// The log.
    Here(File),
    /// A file of this machine.
    Remote(NamedTempFile),
}

impl Log {
    pub fn file(&self) -> &File {
        match self {
            Self::Here(file) => file,
            Self::Remote(file) => file.as_file(),
        }
    }
}

impl Record {
    /// Names the files about a point of the sweep in `all`.
    pub fn new(all: &Path, point: &str) -> Self {
        let file = all.join(SWEEP_DIR).join(point);
        Self { path: file.suffixed(".json"), log: file.suffixed(".log") }
    }

    /// Returns how far the point is with this command.
    ///
    /// # Errors
    /// Storage that fails.
    pub fn state(&self, words: &[String]) -> Result<State, Failure> {
        let text = match self.path.read_to_string() {
            Err(error) if error.is_not_found() => return Ok(State::Waiting),
            text => text.map_err(storage_failure)?,
        };
        let known = serde_json::from_str::<Recorded>(&text).ok().filter(|it| it.command == words);
        Ok(match known.map(|known| known.status) {
            None => State::Waiting,
            Some(None) => State::Begun,
            Some(Some(0)) => State::Finished,
            Some(Some(_)) => State::Failed,
        })
    }

    /// Remembers that the command begins, or how it ended; one that was interrupted goes on later.
    ///
    /// # Errors
    /// Storage that fails.
    pub fn write(&self, task: &Task, end: Option<End>) -> Result<(), Failure> {
        let status = match end {
            Some(End::Status(status)) => Some(status),
            Some(End::Interrupted(_)) | None => None,
        };
        let values = task.point.values.clone();
        let known = Recorded { index: task.index, values, command: task.words.clone(), status };
        let text = serde_json::to_string_pretty(&known).map_err(Failure::world)?;
        let folder = self.path.folder();
        folder.create_dir_all().map_err(storage_failure)?;
        self.path.write_atomic(text.as_bytes()).map_err(storage_failure)
    }

    /// The file with the output.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// Opens the log, to which every start of the point adds its output. Its folder is that of the record, which was written.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn log(&self) -> Result<Log, Failure> {
        if self.log.is_remote() {
            return NamedTempFile::new().map(Log::Remote).map_err(Failure::world);
        }
        let path = self.log.local().map_err(storage_failure)?;
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.map(Log::Here).map_err(Failure::world)
    }

    /// Puts the output of the last start into a bucket.
    ///
    /// # Errors
    /// Storage that fails.
    pub fn keep(&self, log: Log) -> Result<(), Failure> {
        let Log::Remote(file) = log else { return Ok(()) };
        let output = fs::read(file.path()).map_err(Failure::world)?;
        self.log.write_atomic(&output).map_err(storage_failure)
    }
}
