//! Writes a TensorFlow checkpoint in the layout of Mesh TensorFlow T5: `model.ckpt-N.data-00000-of-00001`
//! with the bytes of the variables, `model.ckpt-N.index`, which makes the checkpoint visible, and the file
//! `checkpoint`, which names the newest checkpoint of the folder.

mod bundle;
mod newest;
mod table;
mod variables;

use super::options::MeshOptions;
use super::tensor_file::TensorFile;
use super::unwrapped;
use crate::error::CheckpointError;
use crate::foreign::index_of;
use crate::layers::Unstacked;
use crate::marks::bundle_prefix;
use crate::open::open;
use crate::stored::Stored;
use gimlet_storage::Path;

pub use newest::name_newest;

/// Writes the parameters, Adafactor's state and the step of a checkpoint as a step of Mesh
/// TensorFlow's T5, and returns the prefix of its files' names.
///
/// # Errors
/// The checkpoint does not hold a T5; the step already exists; reading or writing fails.
pub fn export_mesh_tensorflow(
    from: &dyn Stored,
    (folder, step): (Path, u64),
    options: MeshOptions,
) -> Result<Path, CheckpointError> {
    let from = &Unstacked::new(from);
    let variables = variables::of(from, step, options)?;
    let prefix = bundle_prefix(&folder, step);
    let (data, index) = (prefix.suffixed(".data-00000-of-00001"), index_of(&prefix));
    newest::refuse_other(&folder)?;
    folder.create_dir_all()?;
    make_room(&prefix, &index)?;
    let out = TensorFile::begin(&data, &index)?;
    let written = bundle::write_data(from, &variables, out);
    let written = written.map_err(|error| unwrapped(&data, error));
    let (table, out) = written?;
    out.finish()?;
    if let Err(error) = index.write_atomic(&table) {
        // Unless a store's answer was lost, the data are not visible; the next conversion
        // overwrites data that cannot be removed.
        if matches!(index.exists(), Ok(false)) {
            let _ = data.remove_file();
        }
        return Err(error.into());
    }
    name_newest(&folder)?;
    Ok(prefix)
}

/// Removes the index of a damaged checkpoint, which is then written again.
///
/// # Errors
/// A complete checkpoint is there.
fn make_room(prefix: &Path, index: &Path) -> Result<(), CheckpointError> {
    if !index.exists()? {
        return Ok(());
    }
    match open(prefix, &[]) {
        Err(error) if error.is_damage() => Ok(index.remove_file()?),
        _ => {
            let reason = "it is there already; name another folder or remove it".to_string();
            Err(CheckpointError::Export { path: prefix.to_string(), reason })
        }
    }
}
