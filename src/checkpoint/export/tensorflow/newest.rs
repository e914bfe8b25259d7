//! The file `checkpoint` of a folder, in which TensorFlow finds the newest checkpoint.

use crate::error::CheckpointError;
use crate::foreign::STATE_FILE;
use crate::format::Format;
use crate::marks::{bundle_prefix, step_of_bundle};
use crate::open::recognize;
use gimlet_storage::Path;

/// Makes the file `checkpoint` of a folder list all TensorFlow checkpoints there and name the
/// newest, unless it already does.
///
/// # Errors
/// The folder cannot be read or written; its file `checkpoint` is not TensorFlow's.
pub fn name_newest(folder: &Path) -> Result<(), CheckpointError> {
    let entries = folder.entries()?;
    let step = |path: &Path| step_of_bundle(path.file_name().strip_suffix(".index")?);
    let mut steps: Vec<u64> = entries.iter().filter_map(|entry| step(&entry.path)).collect();
    steps.sort_unstable();
    let Some(newest) = steps.last() else { return Ok(()) };
    refuse_other(folder)?;
    let line = |key: &str, step: &u64| {
        format!("{key}: \"{}\"\n", bundle_prefix(folder, *step).file_name())
    };
    let all = steps.iter().map(|step| line("all_model_checkpoint_paths", step));
    let text = line("model_checkpoint_path", newest) + &all.collect::<String>();
    let file = folder.join(STATE_FILE);
    match file.read() {
        Ok(found) if found == text.as_bytes() => Ok(()),
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(file.write_atomic(text.as_bytes())?),
    }
}

/// Checks that the file `checkpoint` of a folder, if there is one, is TensorFlow's.
///
/// # Errors
/// The file is T5X's or another program's.
pub(super) fn refuse_other(folder: &Path) -> Result<(), CheckpointError> {
    let is_there = folder.join(STATE_FILE).exists()?;
    if !is_there || recognize(folder)? == Format::MeshTensorFlow {
        return Ok(());
    }
    let reason = format!("its file `{STATE_FILE}` is not TensorFlow's; name another folder");
    Err(CheckpointError::Export { path: folder.to_string(), reason })
}
