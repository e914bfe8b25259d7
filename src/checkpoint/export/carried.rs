//! A folder of transformers whose configuration and tokenizer a conversion carries over: all keys of `config.json` but those
//! that follow from the arrays, and the other files byte for byte.

use serde_json::{Map, Value};

use super::tokenizer::Files;
use crate::error::CheckpointError;
use crate::foreign::HuggingFaceConfig;
use crate::names::hugging_face::{Families, HuggingFaceFamily};
use gimlet_storage::Path;

pub(super) const CONFIG: &str = HuggingFaceConfig::FILE;
pub(super) const GENERATION: &str = crate::foreign::GENERATION_FILE;

/// The files from which transformers build a tokenizer.
const TOKENIZER: [&str; 7] = [
    "vocab.txt",
    "spiece.model",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
];

/// Keys of `config.json` that say how another program wrote the folder.
const OF_THE_WRITER: [&str; 4] =
    ["dtype", "scale_decoder_outputs", "tie_word_embeddings", "transformers_version"];

/// The meaning of a folder of transformers beside its weights.
#[derive(Debug, Default)]
pub struct Carried {
    /// `config.json`.
    pub config: Map<String, Value>,
    /// `generation_config.json`, if there is one.
    pub(super) generation: Option<Map<String, Value>>,
    /// The tokenizer's files.
    pub(super) tokenizer: Files,
}

impl Carried {
    /// Reads the files of a folder.
    ///
    /// # Errors
    /// A file cannot be read, or is not JSON.
    pub(super) fn of(folder: &Path) -> Result<Self, CheckpointError> {
        let mut config = json(&folder.join(CONFIG))?.unwrap_or_default();
        OF_THE_WRITER.iter().for_each(|key| drop(config.remove(*key)));
        let generation = json(&folder.join(GENERATION))?;
        let mut tokenizer = Files::new();
        for name in TOKENIZER {
            if let Some(bytes) = read(&folder.join(name))? {
                tokenizer.push((name, bytes));
            }
        }
        Ok(Self { config, generation, tokenizer })
    }

    /// A text of `config.json`.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.config.get(key)?.as_str()
    }

    /// A number of `config.json`.
    pub fn number(&self, key: &str) -> Option<usize> {
        usize::try_from(self.config.get(key)?.as_u64()?).ok()
    }
}

/// Lists what the `config.json` and the `generation_config.json` of a folder say and a checkpoint of T5X does not hold, as
/// `layer_norm_epsilon = 1e-05`.
///
/// # Errors
/// A file cannot be read, or is not JSON.
pub fn unheld(folder: &Path, families: Families) -> Result<Vec<String>, CheckpointError> {
    let Some(config) = json(&folder.join(CONFIG))? else { return Ok(Vec::new()) };
    let model_type = config.get("model_type").and_then(Value::as_str);
    let family = HuggingFaceFamily::with(families, model_type);
    let generation = json(&folder.join(GENERATION))?.unwrap_or_default();
    let said = |key: &str| generation.get(key).or(config.get(key)).filter(|it| !it.is_null());
    let differs = |(key, usual): &(&str, Option<f64>)| {
        let found = said(key)?;
        let is_usual = usual.is_some() && found.as_f64() == *usual;
        (!is_usual).then(|| format!("{key} = {found}"))
    };
    Ok(family.iter().flat_map(|family| family.unheld).filter_map(differs).collect())
}

fn json(file: &Path) -> Result<Option<Map<String, Value>>, CheckpointError> {
    let Some(bytes) = read(file)? else { return Ok(None) };
    let parsed = serde_json::from_slice(&bytes);
    parsed.map(Some).map_err(|error| CheckpointError::damaged(file, error.to_string()))
}

fn read(file: &Path) -> Result<Option<Vec<u8>>, CheckpointError> {
    match file.read() {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}
