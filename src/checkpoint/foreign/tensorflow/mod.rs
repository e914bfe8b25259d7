//! Reads TensorFlow's tensor bundles: `model.ckpt-N.index`, a sorted table of names, and `.data-*`
//! with the bytes of the tensors.

mod bundle;
mod proto;
mod slices;
mod table;

use std::io::Read;

use super::{Foreign, RawTensors};
use crate::error::CheckpointError;
use crate::format::Format;
use crate::names::mesh::entries;
use gimlet_storage::{Path, StorageError};

use bundle::Bundle;

pub(crate) use proto::{BundleEntry, Dim, Header, Shape, Version, type_number};
#[cfg(test)]
pub(crate) use table::read_table;
pub(crate) use table::{FOOTER, MAGIC, masked_crc32c};

/// The file of a folder that names its newest checkpoint.
pub(crate) const STATE_FILE: &str = "checkpoint";

/// Maximum number of bytes that are read of the file `checkpoint`.
const MAX_STATE: u64 = 1 << 20;

/// Opens a checkpoint of Mesh TensorFlow: its prefix, its `.index`, or a folder with a file
/// `checkpoint`.
///
/// # Errors
/// Missing or damaged files.
pub(crate) fn open_tensorflow(path: &Path) -> Result<Foreign, CheckpointError> {
    let prefix = prefix_of(path)?;
    let bundle = Bundle::open(&prefix)?;
    let entries = entries(bundle.tensors());
    Ok(Foreign::new(&prefix, Format::MeshTensorFlow, Box::new(bundle), entries))
}

/// Returns the common prefix of the names of a checkpoint's files.
pub(crate) fn prefix_of(path: &Path) -> Result<Path, CheckpointError> {
    if let Some(prefix) = path.as_str().strip_suffix(".index") {
        return Ok(Path::parse(prefix)?);
    }
    let file = match path.is_dir()? {
        true => path.join(STATE_FILE),
        false if path.file_name() == STATE_FILE && path.exists()? => path.clone(),
        false => return Ok(path.clone()),
    };
    let dir = file.folder();
    let named = newest(&file)?;
    // Folders are moved and downloaded, so a checkpoint beside the file is preferred to the full
    // path in the file.
    let beside = dir.join(named.rsplit('/').next().expect("split yields one part"));
    if index_of(&beside).exists()? || named.is_empty() {
        return Ok(beside);
    }
    match named.starts_with('/') || named.contains("://") {
        true => Ok(Path::parse(&named)?),
        false => Ok(dir.join(&named)),
    }
}

/// Returns the table file of the checkpoint with this prefix.
pub fn index_of(prefix: &Path) -> Path {
    prefix.suffixed(".index")
}

/// Returns the name of the checkpoint in the file `checkpoint`: `model_checkpoint_path:
/// "model.ckpt-1000"`.
fn newest(file: &Path) -> Result<String, CheckpointError> {
    let mut text = String::new();
    let read = file.open()?.take(MAX_STATE).read_to_string(&mut text);
    read.map_err(|error| StorageError::new("read", file, error))?;
    let named = text.lines().find_map(|line| {
        let value = line.trim().strip_prefix("model_checkpoint_path:")?.trim();
        value.strip_prefix('"')?.strip_suffix('"')
    });
    let expected = "it names no checkpoint, expected `model_checkpoint_path: \"model.ckpt-N\"`";
    named.map(str::to_string).ok_or_else(|| CheckpointError::damaged(file, expected))
}
