//! `dataset_info.json`: the splits of a data set and the number of examples in each of their files.

use std::sync::Arc;

use serde::Deserialize;

use super::super::counts::Counted;
use super::super::file::{Format, SourceFile};
use super::super::slices::{Beyond, SplitCounts};
use crate::error::DataError;
use gimlet_storage::Path;

const DEFAULT_TEMPLATE: &str = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}";
const FILE_FORMAT: &str = "tfrecord";

/// A data set in its version folder.
pub(super) struct Info {
    folder: Path,
    described: Described,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Described {
    name: String,
    #[serde(default)]
    file_format: Option<String>,
    #[serde(default)]
    splits: Vec<Split>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Split {
    name: String,
    /// JSON of protos contains 64-bit numbers as text.
    #[serde(default)]
    shard_lengths: Vec<Length>,
    #[serde(default)]
    filepath_template: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Length {
    Text(String),
    Number(u64),
}

impl Length {
    fn number(&self) -> Option<u64> {
        match self {
            Self::Text(text) => text.parse().ok(),
            Self::Number(number) => Some(*number),
        }
    }
}

/// Whether a `features.json` or `dataset_info.json` is one of TFDS.
pub(super) fn is_of_tfds(file: &Path) -> Result<bool, DataError> {
    let json: serde_json::Value = serde_json::from_slice(&file.read()?).unwrap_or_default();
    Ok(json.get("pythonClassName").is_some() || json.get("splits").is_some_and(|s| s.is_array()))
}

impl Info {
    pub(super) fn read(folder: &Path) -> Result<Self, DataError> {
        let file = folder.join("dataset_info.json");
        let described = serde_json::from_slice(&file.read()?).map_err(|error| DataError::File {
            file: file.to_string(),
            reason: error.to_string(),
        })?;
        Ok(Self { folder: folder.clone(), described })
    }

    /// The names of the splits.
    pub(super) fn names(&self) -> Vec<String> {
        self.described.splits.iter().map(|split| split.name.clone()).collect()
    }

    fn unfit(&self, reason: String) -> DataError {
        DataError::File { file: self.folder.join("dataset_info.json").to_string(), reason }
    }

    /// The name of a file of a split.
    fn file_name(&self, split: &Split, shard: usize) -> String {
        let num_shards = split.shard_lengths.len();
        let template = split.filepath_template.as_deref().filter(|text| !text.is_empty());
        template
            .unwrap_or(DEFAULT_TEMPLATE)
            .replace("{DATASET}", &self.described.name)
            .replace("{SPLIT}", &split.name)
            .replace("{FILEFORMAT}", FILE_FORMAT)
            .replace("{SHARD_X_OF_Y}", &format!("{shard:05}-of-{num_shards:05}"))
            .replace("{SHARD_INDEX}", &format!("{shard:05}"))
            .replace("{NUM_SHARDS}", &format!("{num_shards:05}"))
    }
}

impl SplitCounts for Info {
    fn names(&self) -> Result<Vec<String>, DataError> {
        Ok(Info::names(self))
    }

    fn files(&self, split: &str) -> Result<Option<Vec<SourceFile>>, DataError> {
        let Some(split) = self.described.splits.iter().find(|known| known.name == split) else {
            return Ok(None);
        };
        let format = self.described.file_format.as_deref().unwrap_or(FILE_FORMAT);
        if format != FILE_FORMAT && !format.is_empty() {
            return Err(self.unfit(format!(
                "its files are of the format \"{format}\"; prepare the data set as \
                 \"{FILE_FORMAT}\""
            )));
        }
        let present: std::collections::BTreeSet<Path> = self.folder.list()?.into_iter().collect();
        let mut files = Vec::new();
        for (shard, length) in split.shard_lengths.iter().enumerate() {
            let length = length.number();
            let length = length.ok_or_else(|| self.unfit("a shard has no length".to_string()))?;
            let path = self.folder.join(&self.file_name(split, shard));
            if length > 0 && !present.contains(&path) {
                let name = path.file_name();
                return Err(self.unfit(format!("`{name}`, which it lists, is not beside it")));
            }
            files.push(SourceFile {
                records: Some(0..length),
                ..SourceFile::new(path, Format::TfRecord)
            });
        }
        Ok(Some(files))
    }

    fn beyond(&self) -> Beyond {
        Beyond::Refused
    }

    fn count(&self, files: &[SourceFile]) -> Result<Vec<Arc<Counted>>, DataError> {
        let length = |file: &SourceFile| file.records.as_ref().map_or(0, |records| records.end);
        Ok(files.iter().map(|file| Arc::new(Counted::of_records(length(file)))).collect())
    }
}
