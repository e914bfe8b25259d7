//! Writes a folder that Hugging Face's transformers load: weights, configuration, tokenizer.

use serde_json::{Value, json};

use super::carried::{CONFIG, Carried, GENERATION};
use super::model::{Model, Named};
use super::options::{HuggingFaceOptions, Weights};
use super::tensor_file::TensorFile;
use super::tokenizer::{Files, byte_files, pretty, sentencepiece_files};
use super::{flax, safetensors, torch, unwrapped};
use crate::error::CheckpointError;
use crate::layers::Unstacked;
use crate::names::hugging_face::{Families, HuggingFaceFamily};
use crate::stored::Stored;
use gimlet_storage::Path;

/// Writes the parameters of a checkpoint as a folder that transformers load. The weights become
/// visible last and only when they are complete.
///
/// # Errors
/// The checkpoint holds a model of no family; the target already holds a model; reading or writing fails.
pub fn export_hugging_face(
    from: &dyn Stored,
    to: &Path,
    options: &HuggingFaceOptions,
    families: Families,
) -> Result<(), CheckpointError> {
    let from = &Unstacked::new(from);
    let carried = options.folder.as_ref().map(Carried::of).transpose()?.unwrap_or_default();
    let model = Model::of(from, families, options, &carried)?;
    let name = options.weights.file_name();
    if to.join(name).exists()? {
        let reason = format!("it holds a `{name}` already; name another folder or remove it");
        return Err(CheckpointError::Export { path: to.to_string(), reason });
    }
    let mut files = vec![(CONFIG, pretty(&model.config))];
    if let Some(generation) = generation_config(options, &carried, model.named.family) {
        files.push((GENERATION, pretty(&generation)));
    }
    files.extend(match &options.vocabulary {
        _ if options.without_tokenizer => Vec::new(),
        Some(vocabulary) => sentencepiece_files(vocabulary, options.extra_ids, model.vocab_size)?,
        None if !carried.tokenizer.is_empty() => carried.tokenizer,
        None if model.named.family.byte_rows == Some(model.vocab_size) => {
            byte_files(options.extra_ids.unwrap_or(125))
        }
        None => Vec::new(),
    });
    let missing = missing(to, files)?;
    to.create_dir_all()?;
    write_weights(
        from,
        &model.named,
        options.weights,
        &Target { file: to.join(name), beside: missing },
    )
}

/// Returns the files that do not exist yet; existing files are not overwritten and must have the
/// same content.
fn missing(to: &Path, files: Files) -> Result<Vec<(Path, Vec<u8>)>, CheckpointError> {
    let mut missing = Vec::new();
    for (name, bytes) in files {
        let file = to.join(name);
        match file.read() {
            Ok(found) if found == bytes => {}
            Ok(_) => return Err(holds_another(to, name)),
            Err(error) if error.is_not_found() => missing.push((file, bytes)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(missing)
}

fn holds_another(to: &Path, name: &str) -> CheckpointError {
    let reason = format!("it holds another `{name}`; name another folder or remove it");
    CheckpointError::Export { path: to.to_string(), reason }
}

/// Writes the parameters of a checkpoint as a state dictionary under transformers' names, which
/// `torch.load` reads; the file becomes visible only when it is complete.
///
/// # Errors
/// The same as those of [`export_hugging_face`].
pub fn export_torch(
    from: &dyn Stored,
    file: &Path,
    options: &HuggingFaceOptions,
    families: Families,
) -> Result<(), CheckpointError> {
    let from = &Unstacked::new(from);
    let carried = options.folder.as_ref().map(Carried::of).transpose()?.unwrap_or_default();
    let model = Model::of(from, families, options, &carried)?;
    if file.exists()? {
        let reason = "it is there already; name another file or remove it".to_string();
        return Err(CheckpointError::Export { path: file.to_string(), reason });
    }
    if let Some(folder) = file.parent() {
        folder.create_dir_all()?;
    }
    let target = Target { file: file.clone(), beside: Vec::new() };
    write_weights(from, &model.named, Weights::Torch, &target)
}

/// The files that an export adds.
struct Target {
    /// The file of weights.
    file: Path,
    /// The small files beside it.
    beside: Vec<(Path, Vec<u8>)>,
}

/// Writes weights and small files such that the weights become visible last and only when they are
/// complete. If the export fails, the added files are removed.
fn write_weights(
    from: &dyn Stored,
    model: &Named,
    weights: Weights,
    target: &Target,
) -> Result<(), CheckpointError> {
    // An export that is refused here has not written anything that must be removed.
    let out = TensorFile::begin(&target.file, &target.file)?;
    let mut added = Vec::new();
    let written = write_in_order(from, model, weights, target, (out, &mut added));
    // If the weights exist in spite of the error, for example because a store's answer was lost,
    // the small files belong to them.
    if written.is_err() && matches!(target.file.exists(), Ok(false)) {
        // Errors of removing are ignored, since the original error is the one to report.
        added.iter().for_each(|file| drop(file.remove_file()));
    }
    written
}

fn write_in_order(
    from: &dyn Stored,
    model: &Named,
    weights: Weights,
    Target { file, beside }: &Target,
    (out, added): (TensorFile, &mut Vec<Path>),
) -> Result<(), CheckpointError> {
    let written = match weights {
        Weights::Safetensors => safetensors::write_file(from, model, out),
        Weights::Torch => torch::write_file(from, model, out),
        Weights::Flax => flax::write_file(from, model, out),
    };
    let out = written.map_err(|error| unwrapped(file, error))?;
    for (path, bytes) in beside {
        // Another conversion into the folder may have ended in the meantime.
        if !path.exists()? {
            path.write_atomic(bytes)?;
            added.push(path.clone());
        } else if path.read()? != *bytes {
            return Err(holds_another(&file.folder(), path.file_name()));
        }
    }
    out.finish()
}

/// `generation_config.json`: that which is carried over, or the ids of special tokens. `None` if a `config.json` that is carried
/// over says everything: transformers read it instead; and for a family without such ids.
fn generation_config(
    options: &HuggingFaceOptions,
    carried: &Carried,
    family: &HuggingFaceFamily,
) -> Option<Value> {
    let is_said = family.special_ids.is_empty() || !carried.config.is_empty();
    let mut config = match &carried.generation {
        Some(generation) => generation.clone(),
        None if is_said && options.generation.is_empty() => return None,
        None => family
            .special_ids
            .iter()
            .map(|(key, usual)| {
                let said = carried.config.get(*key).cloned();
                (key.to_string(), said.unwrap_or_else(|| json!(usual)))
            })
            .collect(),
    };
    config.extend(options.generation.clone());
    Some(Value::Object(config))
}
