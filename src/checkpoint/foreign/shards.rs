//! Reads the tensors of a model from several files, which a JSON index lists.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;

use super::RawTensors;
use super::sums::Piece;
use crate::error::CheckpointError;
use crate::names::hugging_face::WeightsLayout;
use crate::raw::RawInfos;
use gimlet_storage::Path;

/// A function that opens one of the files.
type Opener<'a> = &'a dyn Fn(&Path) -> Result<Box<dyn RawTensors>, CheckpointError>;

/// The files of one model.
#[derive(Debug)]
pub(super) struct Shards {
    files: Vec<Box<dyn RawTensors>>,
    tensors: RawInfos,
    /// Index of the file that holds each tensor.
    places: BTreeMap<String, usize>,
}

/// Maximum size of an index in bytes.
const MAX_INDEX: u64 = 64 << 20;

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Shards {
    /// Opens every file that the index names.
    ///
    /// # Errors
    /// A file is missing or damaged, or lacks a tensor that the index promises.
    pub fn open(index: &Path, open: Opener<'_>) -> Result<Self, CheckpointError> {
        let damaged = |reason| CheckpointError::damaged(index, reason);
        let parsed: Index = serde_json::from_slice(&index.read_up_to(MAX_INDEX)?)
            .map_err(|error| damaged(format!("it is not an index of files: {error}")))?;
        let dir = index.folder();
        let mut shards =
            Self { files: Vec::new(), tensors: RawInfos::new(), places: BTreeMap::new() };
        let mut opened: BTreeMap<&str, usize> = BTreeMap::new();
        for (tensor, file) in &parsed.weight_map {
            let at = match opened.get(&file[..]) {
                Some(at) => *at,
                None => {
                    if file.contains(['/', '\\', '\0']) || ["", ".", ".."].contains(&&file[..]) {
                        return Err(damaged(format!(
                            "`{file}` is not the name of a file beside it"
                        )));
                    }
                    shards
                        .files
                        .push(open(&dir.join(file)).map_err(|error| missing(index, error))?);
                    opened.insert(file, shards.files.len() - 1);
                    shards.files.len() - 1
                }
            };
            let Some(info) = shards.files[at].tensors().get(tensor) else {
                return Err(damaged(format!("`{file}` lacks `{tensor}`, which it should hold")));
            };
            shards.tensors.insert(tensor.clone(), info.clone());
            shards.places.insert(tensor.clone(), at);
        }
        Ok(shards)
    }
}

/// Reports a file that the index names but that does not exist as damage of the model.
fn missing(index: &Path, error: CheckpointError) -> CheckpointError {
    match error {
        CheckpointError::Storage(error) if error.is_not_found() => {
            CheckpointError::damaged(index, error.to_string())
        }
        error => error,
    }
}

impl RawTensors for Shards {
    fn tensors(&self) -> &RawInfos {
        &self.tensors
    }

    fn layout(&self) -> WeightsLayout {
        self.files.first().map_or(WeightsLayout::PyTorch, |file| file.layout())
    }

    fn read_rows(&self, name: &str, rows: Range<usize>) -> Result<Vec<u8>, CheckpointError> {
        self.files[self.places[name]].read_rows(name, rows)
    }

    fn pieces(&self) -> Vec<Piece<'_>> {
        self.files.iter().flat_map(|file| file.pieces()).collect()
    }

    fn is_same(&self, name: &str, other: &str) -> bool {
        self.places.get(name) == self.places.get(other)
            && self.places.get(name).is_some_and(|at| self.files[*at].is_same(name, other))
    }
}
