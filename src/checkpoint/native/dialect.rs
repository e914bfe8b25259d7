//! In what the two formats differ that T5X writes: where files lie, and how the tree is written down.

use std::fmt;
use std::io;

use super::msgpack::{Leaves, encode};
use super::reader::CHECKPOINT_FILE;
use crate::checkpoint::array::DType;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::journal::Job;
use crate::storage::{Path, StorageError, Takeover};

/// A small file: its path relative to the checkpoint, and what is in it.
pub(in crate::checkpoint) type SmallFile = (String, Vec<u8>);

/// What is written of another checkpoint, and how.
pub(in crate::checkpoint) struct Conversion<'a> {
    pub dialect: &'static Dialect,
    /// The type that parameters are rounded to.
    pub dtype: Option<DType>,
    pub job: &'a Job,
    /// Whether to take the place of a process that seems alive.
    pub takeover: Takeover,
}

/// A format that [`Writer`](super::Writer) writes.
pub(in crate::checkpoint) struct Dialect {
    /// Its name, in what is noted of a conversion.
    pub name: &'static str,
    /// The folder of the checkpoint in which the arrays and what is ours lie; `None`: the checkpoint itself.
    pub folder: Option<&'static str>,
    /// Names that the folder of an array cannot have.
    pub reserved: &'static [&'static str],
    /// Types that arrays cannot have.
    pub refused_types: &'static [DType],
    /// Whether an array of this name and shape lies in the tree.
    pub is_inline: fn(&str, &[usize]) -> bool,
    /// Whether the tree keeps single numbers as such; else they are arrays.
    pub has_numbers: bool,
    /// The files of the tree of a checkpoint that will lie at a path. The last one makes it a checkpoint.
    pub tree: fn(&Leaves, &Path) -> Result<Vec<SmallFile>, CheckpointError>,
}

impl Dialect {
    /// The folder of a checkpoint in which the arrays lie.
    pub fn item(&self, checkpoint: &Path) -> Path {
        self.folder.map_or_else(|| checkpoint.clone(), |folder| checkpoint.join(folder))
    }

    /// The name that a file of the arrays' folder has in the checkpoint.
    pub fn in_checkpoint(&self, name: &str) -> String {
        self.folder.map_or_else(|| name.to_string(), |folder| format!("{folder}/{name}"))
    }

    /// The name that a file has in the arrays' folder; `None` if it lies beside it.
    pub fn in_item<'a>(&self, file: &'a str) -> Option<&'a str> {
        match self.folder {
            Some(folder) => file.strip_prefix(folder)?.strip_prefix('/'),
            None => Some(file),
        }
    }
}

impl fmt::Debug for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// T5X's own: the tree in msgpack, with the small arrays.
pub(in crate::checkpoint) static T5X: Dialect = Dialect {
    name: "t5x",
    folder: None,
    reserved: &[CHECKPOINT_FILE, "gimlet"],
    // It stood for bfloat16 before 2021, and is refused when it is read.
    refused_types: &[DType::U16],
    is_inline: is_unpartitioned,
    has_numbers: true,
    tree: |leaves, finished| {
        let mut tree = Vec::new();
        let failed = |error: io::Error| StorageError::new("write", finished, error);
        encode(leaves, &mut tree).map_err(failed)?;
        Ok(vec![(CHECKPOINT_FILE.to_string(), tree)])
    },
};

/// What T5X gives no partition axes: scalars, Adafactor's factored states and its dummies.
fn is_unpartitioned(name: &str, shape: &[usize]) -> bool {
    let slot = name.rsplit('/').next().expect("split yields one part");
    let is_factored = matches!(slot, "v_row" | "v_col");
    shape.is_empty() || (!name.starts_with("target/") && (is_factored || shape == [1]))
}
