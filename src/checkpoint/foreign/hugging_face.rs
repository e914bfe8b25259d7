//! Reads folders of Hugging Face's transformers: `config.json` and weights in one or several files.

use super::flax::FlaxFile;
use super::named::named;
use super::safetensors::SafeTensors;
use super::shards::Shards;
use super::torch::TorchFile;
use super::{Foreign, RawTensors};
use crate::error::CheckpointError;
use crate::export::Weights as Written;
use crate::format::Format;
use crate::names::hugging_face::Families;
use gimlet_storage::Path;

/// The files of weights that a folder may hold, the preferred ones first, and their kinds.
const WEIGHTS: [(&str, Weights); 6] = [
    (Written::Safetensors.file_name(), Weights::SafeTensors),
    ("model.safetensors.index.json", Weights::SafeTensorsIndex),
    (Written::Torch.file_name(), Weights::Torch),
    ("pytorch_model.bin.index.json", Weights::TorchIndex),
    (Written::Flax.file_name(), Weights::Flax),
    ("flax_model.msgpack.index.json", Weights::FlaxIndex),
];

/// File names that mark a model folder: every model folder has one of them.
pub(crate) fn marks() -> [&'static str; 6] {
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
    FlaxIndex,
}

impl Weights {
    fn open(self, file: &Path) -> Result<Box<dyn RawTensors>, CheckpointError> {
        let safe = |file: &Path| Ok(Box::new(SafeTensors::open(file)?) as Box<dyn RawTensors>);
        let torch = |file: &Path| Ok(Box::new(TorchFile::open(file)?) as Box<dyn RawTensors>);
        let flax = |file: &Path| Ok(Box::new(FlaxFile::open(file)?) as Box<dyn RawTensors>);
        match self {
            Self::SafeTensors => safe(file),
            Self::Torch => torch(file),
            Self::SafeTensorsIndex => Ok(Box::new(Shards::open(file, &safe)?)),
            Self::TorchIndex => Ok(Box::new(Shards::open(file, &torch)?)),
            Self::Flax => flax(file),
            Self::FlaxIndex => Ok(Box::new(Shards::open(file, &flax)?)),
        }
    }
}

/// Opens a folder of weights.
///
/// # Errors
/// Damaged files; a model of no family.
pub(crate) fn open_hugging_face(
    dir: &Path,
    families: Families,
) -> Result<Foreign, CheckpointError> {
    for (name, weights) in WEIGHTS {
        let file = dir.join(name);
        if file.exists()? {
            let raw = weights.open(&file)?;
            return named((dir, dir), Format::HuggingFace, raw, families);
        }
    }
    let names: Vec<String> = WEIGHTS.iter().map(|(name, _)| format!("`{name}`")).collect();
    let reason = format!("it holds no weights, expected one of {}", names.join(", "));
    Err(CheckpointError::NotACheckpoint { path: dir.to_string(), reason })
}

/// Opens the tensors of a file of weights, whose name tells its kind.
///
/// # Errors
/// A damaged file.
pub(crate) fn open_weights(file: &Path) -> Result<Box<dyn RawTensors>, CheckpointError> {
    let weights = match file.file_name().rsplit('.').next() {
        Some("msgpack") => Weights::Flax,
        Some("bin") => Weights::Torch,
        _ => Weights::SafeTensors,
    };
    weights.open(file)
}

/// Opens a file of weights, and uses the `config.json` beside it.
///
/// # Errors
/// A damaged file; a model of no family.
pub(crate) fn open_file(file: &Path, families: Families) -> Result<Foreign, CheckpointError> {
    let raw = open_weights(file)?;
    named((file, &file.folder()), Format::HuggingFace, raw, families)
}
