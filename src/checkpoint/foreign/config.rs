//! The `config.json` beside weights, whose keys the family of the model understands.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::generation_keys::{GENERATION_KEYS, changing_keys, generation_fields};
use crate::error::CheckpointError;
use crate::hugging_face_keys::check_keys;
use gimlet_storage::Path;

/// A `config.json`.
#[derive(Clone, Debug)]
pub struct HuggingFaceConfig {
    /// The place of the file.
    pub file: Path,
    /// Its entries.
    pub keys: Map<String, Value>,
}

impl HuggingFaceConfig {
    /// The name of the file.
    pub const FILE: &'static str = "config.json";

    /// Reads the text of a file.
    ///
    /// # Errors
    /// It is not a JSON object.
    pub fn parse(file: &Path, text: &[u8]) -> Result<Self, serde_json::Error> {
        Ok(Self { file: file.clone(), keys: serde_json::from_slice(text)? })
    }

    /// Reads the file of a folder, if there is one.
    ///
    /// # Errors
    /// The file cannot be read, or is not a JSON object.
    pub(super) fn of_folder(folder: &Path) -> Result<Option<Self>, CheckpointError> {
        let file = folder.join(Self::FILE);
        let text = match file.read() {
            Err(error) if error.is_not_found() => return Ok(None),
            text => text?,
        };
        let config = Self::parse(&file, &text).map_err(|error| unusable(&file, &error))?;
        // The arguments of a command of t5-experiments say nothing about tensors.
        let is_of_a_command =
            ["model_cls", "model_cfg"].iter().all(|key| config.keys.contains_key(*key));
        Ok(Some(config).filter(|_| !is_of_a_command))
    }

    /// Reads the file that belongs to a folder or a file of weights, if there is one.
    ///
    /// # Errors
    /// The file cannot be read, or is not a JSON object.
    pub fn beside(weights: &Path) -> Result<Option<Self>, CheckpointError> {
        Self::of_folder(&if weights.is_dir()? { weights.clone() } else { weights.folder() })
    }

    /// Returns the entries of some names.
    ///
    /// # Errors
    /// An entry is of another type, or missing.
    pub fn fields<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_value(Value::Object(self.keys.clone()))
    }

    /// The `model_type`, if the file says it.
    pub fn model_type(&self) -> Option<String> {
        match self.keys.get("model_type")? {
            Value::Null => None,
            found => Some(found.as_str().map_or_else(|| found.to_string(), str::to_string)),
        }
    }

    /// Warns of the keys of the `generation_config.json` beside the file that are not known. Values that are refused are told by
    /// the commands that run the model.
    pub(super) fn warn_of_generation(&self) {
        let notice = || {
            let (place, fields) = generation_fields(&self.file, &self.keys).ok()?;
            check_keys(&place, &fields, &[GENERATION_KEYS]).ok()?
        };
        notice().iter().for_each(|notice| gimlet_telemetry::warn_once(notice));
    }

    /// Returns a warning about the parameters of decoding beside the weights, for a model that decodes in another way until
    /// one of `ends`.
    pub fn unused_decoding(&self, ends: &[i64]) -> Option<String> {
        let (place, fields) = generation_fields(&self.file, &self.keys).ok()?;
        let keys = changing_keys(&fields, ends);
        (!keys.is_empty()).then(|| {
            format!(
                "{place} is not used: the model decodes as its gin says, without {} of this file; \
                 --gin_file={} decodes with them",
                gimlet_telemetry::quoted_names(&keys, 8),
                self.file
            )
        })
    }

    /// The ids that end a decoded sequence, if the file says some.
    ///
    /// # Errors
    /// It says something else: what was found, and what was expected.
    pub fn eos_ids(&self) -> Result<Vec<i64>, String> {
        let found = self.keys.get("eos_token_id").filter(|found| !found.is_null());
        let Some(found) = found else { return Ok(Vec::new()) };
        let ids = found.as_array().map_or(std::slice::from_ref(found), Vec::as_slice);
        ids.iter()
            .map(Value::as_i64)
            .collect::<Option<_>>()
            .ok_or_else(|| format!("`eos_token_id` is {found}, expected an id or a list of ids"))
    }
}

/// The error for a file that is not that of a model.
pub(super) fn unusable(file: &Path, error: &serde_json::Error) -> CheckpointError {
    match error.is_data() {
        true => CheckpointError::Unsupported { path: file.to_string(), reason: error.to_string() },
        false => CheckpointError::damaged(file, error.to_string()),
    }
}
