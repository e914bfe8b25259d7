//! The `config.json` beside weights, which decides how their tensors are read.

use serde::Deserialize;

use super::{Foreign, RawTensors};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::format::Format;
use crate::checkpoint::names::hugging_face::{Traits, entries};
use crate::storage::Path;

/// What of `config.json` decides how tensors are read.
#[derive(Debug, Deserialize)]
struct Config {
    model_type: Option<String>,
    tie_word_embeddings: Option<bool>,
}

/// Names the tensors of a file, or of several in `dir`.
pub(super) fn with_config(
    path: &Path,
    dir: &Path,
    format: Format,
    raw: Box<dyn RawTensors>,
) -> Result<Foreign, CheckpointError> {
    let traits = match read_config(&dir.join("config.json"))? {
        Some(config) => config.traits(path)?,
        None => Traits::default(),
    };
    let is_same = |name: &str, other: &str| raw.is_same(name, other);
    let entries = entries(raw.tensors(), raw.dialect(), traits, &is_same);
    Ok(Foreign::new(path, format, raw, entries))
}

fn read_config(file: &Path) -> Result<Option<Config>, CheckpointError> {
    let text = match file.read() {
        Err(error) if error.is_not_found() => return Ok(None),
        text => text?,
    };
    let config = serde_json::from_slice(&text);
    config.map(Some).map_err(|error| CheckpointError::damaged(file, error.to_string()))
}

impl Config {
    fn traits(&self, path: &Path) -> Result<Traits, CheckpointError> {
        let model_type = self.model_type.as_deref().unwrap_or("t5");
        if !matches!(model_type, "t5" | "mt5" | "umt5" | "longt5") {
            return Err(CheckpointError::Unsupported {
                path: path.to_string(),
                reason: format!(
                    "its config.json has model_type `{model_type}`, expected t5, mt5, umt5 or longt5"
                ),
            });
        }
        Ok(Traits {
            // transformers takes the head for tied where its configuration does not say.
            tied: Some(self.tie_word_embeddings.unwrap_or(true)),
            bias_per_layer: Some(model_type == "umt5"),
        })
    }
}
