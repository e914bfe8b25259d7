//! Writes a checkpoint with rows for more tokens, in its own format.

use anyhow::anyhow;

use super::convert::refuse_damage;
use super::metered::Metered;
use super::open::{failure, open_at, storage_failure};
use crate::checkpoint::{
    Format, HuggingFaceOptions, MeshNorms, MeshOptions, MoreTokens, NativeOptions, Weights,
    export_hugging_face, export_mesh_tensorflow, export_orbax, export_t5x, export_torch,
    export_trainer, index_of, trainer_file, with_more_tokens,
};
use crate::models::HUGGING_FACE;
use crate::run::failure::Failure;
use crate::storage::Path;

/// A checkpoint with more tokens.
pub struct Extended {
    /// Number of rows of its tables of tokens.
    pub rows: usize,
    /// Number of rows before.
    pub old_rows: usize,
}

/// Writes the checkpoint at `from` with more tokens into the folder `to`: as `checkpoint_N`, `model.ckpt-N`, `model_N.pth`, as a file
/// of the same name, or for transformers into the folder itself. `options` are those of the model.
///
/// # Errors
/// It is damaged, has no table of tokens, or is a file of weights of transformers without its folder; a file cannot be written.
pub fn write_with_more_tokens(
    from: &Path,
    to: &Path,
    more: &MoreTokens,
    options: HuggingFaceOptions,
) -> Result<Extended, Failure> {
    let stored = open_at(from.as_str())?;
    refuse_damage(&*stored).map_err(failure)?;
    let (stored, [old_rows, rows]) = with_more_tokens(stored, more).map_err(failure)?;
    let (format, step) = (stored.format(), stored.step().map_err(failure)?);
    let metered = Metered::new(&*stored, to);
    let place = (to.clone(), step);
    match format {
        Format::T5x => export_t5x(&metered, place, &NativeOptions::default()).map(drop),
        Format::Orbax => export_orbax(&metered, place, &NativeOptions::default()).map(drop),
        Format::MeshTensorFlow => {
            let options = MeshOptions { dtype: None, norms: norms(stored.path())? };
            export_mesh_tensorflow(&metered, place, options).map(drop)
        }
        Format::Trainer => {
            let file = trainer_file(to, step);
            export_trainer(&metered, (&file, step), &options, HUGGING_FACE)
        }
        Format::Torch => export_torch(&metered, &to.join(from.file_name()), &options, HUGGING_FACE),
        Format::Peft => {
            return Err(Failure::usage(anyhow!(
                "`{from}` is an adapter, whose base model has the rows of tokens: add them there"
            )));
        }
        Format::HuggingFace => {
            let options = HuggingFaceOptions { weights: weights(from)?, ..options };
            export_hugging_face(&metered, to, &options, HUGGING_FACE)
        }
    }
    .map_err(failure)?;
    Ok(Extended { rows, old_rows })
}

/// Returns the kind of weights in a folder of transformers.
fn weights(folder: &Path) -> Result<Weights, Failure> {
    for weights in [Weights::Safetensors, Weights::Torch, Weights::Flax] {
        let file = folder.join(weights.file_name());
        for file in [file.suffixed(".index.json"), file] {
            if file.exists().map_err(storage_failure)? {
                return Ok(weights);
            }
        }
    }
    Err(Failure::usage(anyhow!(
        "`{folder}` is one file of weights, expected the folder that has its config.json too"
    )))
}

/// Returns the names of norms in a bundle of Mesh TensorFlow's, whose index holds the end of each name as it is.
fn norms(bundle: &Path) -> Result<MeshNorms, Failure> {
    const SUBLAYERS: &[u8] = b"rms_norm";
    let index = index_of(bundle).read().map_err(storage_failure)?;
    let is_new = index.windows(SUBLAYERS.len()).any(|window| window == SUBLAYERS);
    Ok(if is_new { MeshNorms::Sublayers } else { MeshNorms::Legacy })
}
