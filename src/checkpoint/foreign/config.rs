//! The `config.json` beside weights, which decides how their tensors are read.

use serde::Deserialize;

use super::{Foreign, RawTensors};
use crate::error::CheckpointError;
use crate::format::Format;
use crate::names::hugging_face::{Traits, entries};
use gimlet_storage::Path;

/// The fields of `config.json` that decide how tensors are read.
#[derive(Debug, Deserialize)]
struct Config {
    model_type: Option<String>,
    tie_word_embeddings: Option<bool>,
    /// Written since transformers 5, whose T5 models always claim to be tied.
    scale_decoder_outputs: Option<bool>,
}

/// Number of bytes of two tensors that are compared at a time.
const COMPARED_BYTES: usize = 1 << 20;

/// Opens the tensors of one or several files in `dir` under their mapped names.
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
    if raw.tensors().is_empty() {
        let (path, reason) = (path.to_string(), "it holds no tensors".to_string());
        return Err(CheckpointError::NotACheckpoint { path, reason });
    }
    let is_same =
        |name: &str, other: &str| raw.is_same(name, other) || are_equal(&*raw, name, other);
    let entries = entries(raw.tensors(), raw.dialect(), traits, &is_same);
    Ok(Foreign::new(path, format, raw, entries))
}

/// Whether two tensors hold the same values; a tensor that cannot be read equals no other.
fn are_equal(raw: &dyn RawTensors, name: &str, other: &str) -> bool {
    let info = &raw.tensors()[name];
    if *info != raw.tensors()[other] {
        return false;
    }
    let num_rows = info.shape.first().copied().unwrap_or(1);
    let step = (COMPARED_BYTES / info.row_bytes().max(1)).max(1);
    (0..num_rows).step_by(step).all(|start| {
        let rows = start..(start + step).min(num_rows);
        let read = |name: &str| raw.read_rows(name, rows.clone()).ok();
        read(name).is_some_and(|bytes| read(other) == Some(bytes))
    })
}

fn read_config(file: &Path) -> Result<Option<Config>, CheckpointError> {
    let text = match file.read() {
        Err(error) if error.is_not_found() => return Ok(None),
        text => text?,
    };
    let config = serde_json::from_slice(&text);
    config.map(Some).map_err(|error: serde_json::Error| match error.is_data() {
        true => CheckpointError::Unsupported { path: file.to_string(), reason: error.to_string() },
        false => CheckpointError::damaged(file, error.to_string()),
    })
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
        // transformers 5 calls every T5 tied, but ties a head to an embedding only if both are
        // equal.
        let is_untied = self.tie_word_embeddings == Some(false);
        let scales_by_name = matches!(model_type, "t5" | "longt5");
        Ok(Traits {
            is_untied,
            is_unscaled: self.scale_decoder_outputs == Some(false) || (is_untied && scales_by_name),
            bias_per_layer: Some(model_type == "umt5"),
        })
    }
}
