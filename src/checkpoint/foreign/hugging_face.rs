//! Folders of Hugging Face's transformers: `config.json` and weights in one file or several.

use serde::Deserialize;

use super::flax::FlaxFile;
use super::safetensors::SafeTensors;
use super::shards::Shards;
use super::torch::TorchFile;
use super::{Foreign, RawTensors};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::names::hugging_face::{FLAX, SAFETENSORS, TORCH, Traits, entries};
use crate::checkpoint::stored::Format;
use crate::storage::Path;

/// The weights that a folder may hold, the ones to be preferred first, and what opens them.
const WEIGHTS: [(&str, Weights); 5] = [
    (SAFETENSORS, Weights::SafeTensors),
    ("model.safetensors.index.json", Weights::SafeTensorsIndex),
    (TORCH, Weights::Torch),
    ("pytorch_model.bin.index.json", Weights::TorchIndex),
    (FLAX, Weights::Flax),
];

/// Files of which one lies in every model folder.
pub(in crate::checkpoint) fn marks() -> [&'static str; 5] {
    WEIGHTS.map(|(name, _)| name)
}

/// A kind of file.
#[derive(Clone, Copy)]
enum Weights {
    SafeTensors,
    SafeTensorsIndex,
    Torch,
    TorchIndex,
    Flax,
}

impl Weights {
    fn open(self, file: &Path) -> Result<Box<dyn RawTensors>, CheckpointError> {
        let safe = |file: &Path| Ok(Box::new(SafeTensors::open(file)?) as Box<dyn RawTensors>);
        let torch = |file: &Path| Ok(Box::new(TorchFile::open(file)?) as Box<dyn RawTensors>);
        match self {
            Self::SafeTensors => safe(file),
            Self::Torch => torch(file),
            Self::SafeTensorsIndex => Ok(Box::new(Shards::open(file, &safe)?)),
            Self::TorchIndex => Ok(Box::new(Shards::open(file, &torch)?)),
            Self::Flax => Ok(Box::new(FlaxFile::open(file)?)),
        }
    }
}

/// What of `config.json` decides how tensors are read.
#[derive(Debug, Deserialize)]
struct Config {
    model_type: Option<String>,
    tie_word_embeddings: Option<bool>,
}

/// Opens a folder of weights.
///
/// # Errors
/// Damaged files; a model that is no T5.
pub(in crate::checkpoint) fn open_hugging_face(dir: &Path) -> Result<Foreign, CheckpointError> {
    for (name, weights) in WEIGHTS {
        let file = dir.join(name);
        if file.exists()? {
            let raw = weights.open(&file)?;
            return with_config(dir, dir, Format::HuggingFace, raw);
        }
    }
    let names: Vec<String> = WEIGHTS.iter().map(|(name, _)| format!("`{name}`")).collect();
    let reason = format!("it holds no weights, expected one of {}", names.join(", "));
    Err(CheckpointError::NotACheckpoint { path: dir.to_string(), reason })
}

/// Opens a file of weights; the `config.json` beside it is heeded.
///
/// # Errors
/// A damaged file; a model that is no T5.
pub(in crate::checkpoint) fn open_file(file: &Path) -> Result<Foreign, CheckpointError> {
    let weights = match file.file_name().ends_with(".msgpack") {
        true => Weights::Flax,
        false => Weights::SafeTensors,
    };
    let raw = weights.open(file)?;
    let dir = file.folder();
    with_config(file, &dir, Format::HuggingFace, raw)
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
