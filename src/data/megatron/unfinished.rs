//! The folder `PREFIX.unfinished` of a conversion, from which a run that was killed is continued.
//!
//! It has the parts of the files, which only grow, and a record: a place in the input, and the sizes that the parts had
//! when all before this place was converted and durable. The same command, started again, cuts the parts to these sizes
//! and reads the input from that place on. Parts of stores cannot grow, so that there is no record beside them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::index_writer::{IndexParts, Written};
use crate::error::DataError;
use crate::source::RecordPosition;
use gimlet_storage::{Lock, Locked, Path, Process};

/// The ending of the folder's name, and the files in it.
const UNFINISHED: &str = ".unfinished";
const RECORD: &str = "progress.json";
const LOCK: &str = "lock";

/// All that decides which files a conversion writes, by names for messages.
pub(super) type Settings = BTreeMap<String, String>;

/// A place in the input: the number of a file, from 0, and the position in it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct InputPlace {
    pub file: usize,
    pub position: RecordPosition,
}

/// The work that was done up to a place in the input.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Progress {
    settings: Settings,
    pub documents: u64,
    pub place: InputPlace,
    /// The work for each key.
    pub written: Vec<Written>,
    /// Whether all is converted, and only the names of the files may have to be changed.
    pub is_converted: bool,
}

/// The folder, which no other process uses meanwhile.
pub(super) struct Unfinished {
    folder: Path,
    _lock: Option<Lock>,
}

impl Unfinished {
    /// Opens or creates the folder of the files whose paths begin with this prefix.
    ///
    /// # Errors
    /// Another process writes files of this prefix; the folder cannot be created.
    pub(super) fn open(output_prefix: &str) -> Result<Self, DataError> {
        let folder = Path::parse(&format!("{output_prefix}{UNFINISHED}"))?;
        folder.create_dir_all()?;
        let file = folder.join(LOCK);
        let lock = match file.try_lock_with(&Process::this().to_string())? {
            Locked::Held(lock) => Some(lock),
            Locked::Busy => {
                let by = file.read_to_string().unwrap_or_else(|_| "another process".to_string());
                return Err(DataError::Config(format!(
                    "files that begin with `{output_prefix}` are being written by {by}: wait for its end, or choose another \
                     prefix"
                )));
            }
            Locked::Unsupported => None,
        };
        Ok(Self { folder, _lock: lock })
    }

    /// The parts of the files of the key with this number.
    pub(super) fn parts(&self, number: usize, prefix: Path) -> IndexParts {
        IndexParts { part: self.folder.join(&number.to_string()), prefix }
    }

    /// The recorded progress of a conversion with these settings to these files; that of a new one if there is none. A
    /// notice says which it is.
    pub(super) fn progress(
        &self,
        settings: Settings,
        parts: &[IndexParts],
    ) -> Result<Progress, DataError> {
        let record = self.folder.join(RECORD);
        let begin = |settings| Progress {
            settings,
            written: vec![Written::default(); parts.len()],
            ..Progress::default()
        };
        if !record.is_on_disk() || !record.exists()? {
            return Ok(begin(settings));
        }
        let found = serde_json::from_slice(&record.read()?).map_err(|error| error.to_string());
        match found.and_then(|found: Progress| found.fits(&settings, parts)) {
            Ok(found) => {
                gimlet_telemetry::notice(&format!(
                    "{} documents of an earlier run are kept, and the conversion continues after them",
                    found.documents
                ));
                Ok(found)
            }
            Err(reason) => {
                gimlet_telemetry::notice(&format!(
                    "`{}` is not continued, and the conversion starts over: {reason}",
                    self.folder
                ));
                // The parts are going to be those of another conversion.
                record.remove_file()?;
                self.folder.sync_dir()?;
                Ok(begin(settings))
            }
        }
    }

    /// Records progress; the parts must be durable.
    pub(super) fn record(&self, progress: &Progress) -> Result<(), DataError> {
        let record = self.folder.join(RECORD);
        if record.is_on_disk() {
            let bytes = serde_json::to_vec(progress).expect("text and numbers are JSON");
            record.write_atomic(&bytes)?;
        }
        Ok(())
    }

    /// Removes the folder.
    pub(super) fn remove(self) -> Result<(), DataError> {
        // The lock stays until nothing else is in the folder that another process could continue.
        let record = self.folder.join(RECORD);
        if record.is_on_disk() && record.exists()? {
            record.remove_file()?;
        }
        Ok(self.folder.remove_dir_all()?)
    }
}

impl Progress {
    /// Returns the progress if it is that of a conversion with these settings and its parts are there; otherwise the
    /// reason why it is not.
    fn fits(self, settings: &Settings, parts: &[IndexParts]) -> Result<Self, String> {
        let value = |settings: &Settings, name| settings.get(name).cloned().unwrap_or_default();
        let names = settings.keys().chain(self.settings.keys());
        for name in names {
            let (was, is) = (value(&self.settings, name), value(settings, name));
            if was != is {
                return Err(format!("{name} was `{was}`, and is `{is}`"));
            }
        }
        let mut written = parts.iter().zip(&self.written);
        let lost = match self.is_converted {
            true => parts
                .iter()
                .find(|parts| !parts.has_index())
                .map(|parts| format!("the index of `{}` is missing", parts.prefix)),
            false => written
                .find_map(|(parts, written)| parts.too_short(written))
                .map(|path| format!("`{path}` is not as long as recorded")),
        };
        lost.map_or(Ok(self), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_progress_of_the_same_conversion_is_continued() {
        let dir = tempfile::tempdir().unwrap();
        let prefix = Path::try_from(dir.path()).unwrap().join("out");
        let unfinished = Unfinished::open(prefix.as_str()).unwrap();
        let parts = [unfinished.parts(0, prefix.suffixed("_text_sentence"))];
        let progress = |vocab: &str| {
            let settings = Settings::from([("vocab".to_string(), vocab.to_string())]);
            unfinished.progress(settings, &parts).unwrap()
        };
        let record = |documents| {
            let begun = progress("a");
            unfinished.record(&Progress { documents, ..begun }).unwrap();
        };
        record(7);
        assert_eq!(progress("a").documents, 7);
        assert_eq!(progress("b").documents, 0);
        assert_eq!(progress("a").documents, 0, "its parts may have changed meanwhile");
        record(7);
        let written = vec![Written { bytes: 1, ..Written::default() }];
        unfinished.record(&Progress { written, ..progress("a") }).unwrap();
        assert_eq!(progress("a").documents, 0, "a part is missing");
        let Err(error) = Unfinished::open(prefix.as_str()) else { panic!("two have it") };
        assert!(error.to_string().contains("are being written by"), "{error}");
        unfinished.remove().unwrap();
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    }
}
