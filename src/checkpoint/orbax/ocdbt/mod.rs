//! OCDBT, TensorStore's key-value store in a few files: a manifest that points to the root of a B+tree
//! of keys, whose values lie in its leaves or in data files (the `ocdbt` page of TensorStore).
//!
//! The whole tree is read at once, in its newest version; values are not read.

mod codec;
mod files;
mod manifest;
mod tree;

use std::collections::BTreeMap;

use super::super::error::CheckpointError;
use super::super::zarr::FileRange;
use gimlet_storage::Path;

pub use manifest::MANIFEST;

/// Location of each value by its key.
pub type Entries = BTreeMap<String, FileRange>;

/// Reads the keys of a database in a folder; `checkpoint` is named in errors.
pub fn open(checkpoint: &Path, dir: &Path) -> Result<Entries, CheckpointError> {
    match manifest::root(checkpoint, dir)? {
        Some(root) => tree::entries(checkpoint, dir, root),
        None => Ok(Entries::new()),
    }
}
