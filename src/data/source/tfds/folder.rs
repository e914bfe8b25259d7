//! The location of a TFDS data set.

use std::sync::{PoisonError, RwLock};

use crate::error::DataError;
use gimlet_storage::Path;

const DATA_DIR_VARIABLE: &str = "TFDS_DATA_DIR";
/// Files of which a version folder contains at least one.
const DESCRIPTIONS: [&str; 2] = ["features.json", "dataset_info.json"];

static DATA_DIR: RwLock<Option<String>> = RwLock::new(None);

/// Sets the process-wide TFDS data folder: the value of `--tfds_data_dir`.
pub fn set_tfds_data_dir(folder: Option<String>) {
    *DATA_DIR.write().unwrap_or_else(PoisonError::into_inner) = folder;
}

/// The parts of `c4/en:2.2.0`.
pub(super) struct TfdsName<'a> {
    full: &'a str,
    /// `c4/en`
    name: &'a str,
    /// `2.2.0`, with `*` for any number.
    version: &'a str,
}

/// The kind of folder that was found.
pub(super) enum Found {
    /// The folder of one version.
    Version(Path),
    /// A folder with the hub's files.
    Hub(String),
}

impl<'a> TfdsName<'a> {
    pub(super) fn parse(full: &'a str) -> Result<Self, DataError> {
        // As in SeqIO: without its version a data set would change under a task.
        let Some((name, version)) = full.split_once(':') else {
            return Err(DataError::Config(format!(
                "TFDS name must contain a version number, got: {full}; write it behind a colon, \
                 such as `{full}:1.0.0`"
            )));
        };
        let is_number = |part: &str| part == "*" || part.parse::<u32>().is_ok();
        let has_climb = name.split('/').any(|part| part.is_empty() || part.starts_with('.'));
        if version.split('.').count() != 3 || !version.split('.').all(is_number) || has_climb {
            return Err(DataError::Config(format!(
                "`{full}` is not a TFDS name: expected NAME:VERSION or NAME/CONFIG:VERSION, such as \
                 `c4/en:2.2.0`"
            )));
        }
        Ok(Self { full, name, version })
    }

    /// Finds the data set: at its mapped path, otherwise in the data folder.
    pub(super) fn find(&self, data_dir: Option<&str>) -> Result<Found, DataError> {
        if let Some(folder) = Path::parse(&format!("tfds://{}", self.full))?.mapped()? {
            return match is_version(&folder)? {
                true => Ok(Found::Version(folder)),
                false => Ok(Found::Hub(folder.to_string())),
            };
        }
        let data_dir = match data_dir {
            Some(folder) => folder.to_string(),
            None => default_data_dir(),
        };
        let parent = Path::parse(&data_dir)?.join(self.name);
        match self.highest_version(&parent)? {
            Some(folder) => Ok(Found::Version(folder)),
            None => Err(self.missing(&parent)?),
        }
    }

    fn highest_version(&self, parent: &Path) -> Result<Option<Path>, DataError> {
        if !self.version.contains('*') {
            let folder = parent.join(self.version);
            return Ok(is_version(&folder)?.then_some(folder));
        }
        if !parent.is_dir()? {
            return Ok(None);
        }
        let mut best: Option<(Vec<u32>, Path)> = None;
        for folder in parent.list()? {
            let Some(numbers) = numbers_of(folder.file_name()) else { continue };
            let fits = (self.version.split('.').zip(&numbers))
                .all(|(wanted, number)| wanted == "*" || wanted.parse() == Ok(*number));
            if fits
                && best.as_ref().is_none_or(|(known, _)| *known < numbers)
                && is_version(&folder)?
            {
                best = Some((numbers, folder));
            }
        }
        Ok(best.map(|(_, folder)| folder))
    }

    fn missing(&self, parent: &Path) -> Result<DataError, DataError> {
        let mut there = Vec::new();
        if parent.is_dir()? {
            there = parent.list()?.iter().map(|path| format!("`{}`", path.file_name())).collect();
        }
        let there = match there.is_empty() {
            true => "there is no such folder".to_string(),
            false => format!("that folder has {}", there.join(", ")),
        };
        Ok(DataError::NotPrepared {
            name: self.full.to_string(),
            folder: parent.to_string(),
            there,
        })
    }
}

/// `2.2.0` as numbers.
fn numbers_of(version: &str) -> Option<Vec<u32>> {
    let numbers: Option<Vec<u32>> = version.split('.').map(|part| part.parse().ok()).collect();
    numbers.filter(|numbers| numbers.len() == 3)
}

fn is_version(folder: &Path) -> Result<bool, DataError> {
    for description in DESCRIPTIONS {
        let file = folder.join(description);
        // The hub has files of the same name with other content.
        if file.exists()? && super::info::is_of_tfds(&file)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn default_data_dir() -> String {
    let flag = DATA_DIR.read().unwrap_or_else(PoisonError::into_inner).clone();
    let variable = || std::env::var(DATA_DIR_VARIABLE).ok().filter(|folder| !folder.is_empty());
    flag.or_else(variable).unwrap_or_else(|| {
        let home = std::env::var("HOME").unwrap_or_default();
        format!("{home}/tensorflow_datasets")
    })
}
