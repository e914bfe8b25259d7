//! Folders written by `datasets`' `save_to_disk`: one data set, or one for each split.
//!
//! ```text
//! dataset_dict.json {"splits": ["train", "test"]}      train/ test/
//! state.json {"_data_files": [{"filename": "data-00000-of-00002.arrow"}, ...], "_split": "train"}
//! ```

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::contract::unknown_split;
use crate::error::{DataError, file_error};
use gimlet_storage::Path;

/// A saved data set.
pub(super) struct Saved {
    /// Splits with their folders.
    splits: Vec<(String, Path)>,
}

#[derive(Deserialize)]
struct Dict {
    splits: Vec<String>,
}

#[derive(Deserialize)]
struct State {
    #[serde(rename = "_data_files")]
    data_files: Vec<DataFile>,
    #[serde(rename = "_split")]
    split: Option<String>,
    /// A selection of rows of the files, written by old versions of `datasets`.
    #[serde(rename = "_indices_data_files", default)]
    indices: Option<Vec<DataFile>>,
}

#[derive(Deserialize)]
struct DataFile {
    filename: String,
}

impl Saved {
    /// The data set in a folder, if one was saved there.
    pub(super) fn find(folder: &Path) -> Result<Option<Self>, DataError> {
        let dict = folder.join("dataset_dict.json");
        if dict.exists()? {
            let Dict { splits } = read(&dict)?;
            let placed = |split: String| (split.clone(), folder.join(&split));
            return Ok(Some(Self { splits: splits.into_iter().map(placed).collect() }));
        }
        let state = folder.join("state.json");
        if !state.exists()? {
            return Ok(None);
        }
        let State { split, .. } = read(&state)?;
        let split = split.unwrap_or_else(|| "train".to_string());
        Ok(Some(Self { splits: vec![(split, folder.clone())] }))
    }

    /// The names of the splits.
    pub(super) fn splits(&self) -> Vec<String> {
        self.splits.iter().map(|(split, _)| split.clone()).collect()
    }

    /// The files of a split, in the order of its rows.
    pub(super) fn files(&self, task: &str, split: &str) -> Result<Vec<Path>, DataError> {
        let Some((_, folder)) = self.splits.iter().find(|(known, _)| known == split) else {
            return Err(unknown_split(task, split, self.splits().into_iter()));
        };
        let file = folder.join("state.json");
        let State { data_files, indices, .. } = read(&file)?;
        if indices.is_some_and(|indices| !indices.is_empty()) {
            let reason = "it selects rows by indices; save the data set after \
                          `flatten_indices()`";
            return Err(file_error(&file, reason));
        }
        Ok(data_files.iter().map(|data| folder.join(&data.filename)).collect())
    }
}

fn read<T: DeserializeOwned>(file: &Path) -> Result<T, DataError> {
    serde_json::from_slice(&file.read()?).map_err(|error| file_error(file, error))
}
