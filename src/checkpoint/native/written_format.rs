//! The differences between the two formats that T5X writes: locations of files, and the encoding of
//! the tree.

use std::{fmt, io};

use super::msgpack::{Leaves, encode};
use crate::array::DType;
use crate::error::CheckpointError;
use crate::marks::CHECKPOINT_FILE;
use gimlet_storage::{Path, StorageError, Takeover};

/// A small file: its path relative to the checkpoint, and its content.
pub(crate) type SmallFile = (String, Vec<u8>);

/// A conversion of another checkpoint.
pub(crate) struct Conversion {
    pub written_format: &'static WrittenFormat,
    /// The type to which parameters are rounded.
    pub dtype: Option<DType>,
    /// Whether to take over from a process that seems alive.
    pub takeover: Takeover,
}

/// A format that [`Writer`](super::Writer) writes.
pub(crate) struct WrittenFormat {
    /// Its name in messages.
    pub name: &'static str,
    /// The folder of the checkpoint that holds the arrays and Gimlet's files; `None`: the checkpoint itself.
    pub folder: Option<&'static str>,
    /// Names that the folder of an array cannot have.
    pub reserved: &'static [&'static str],
    /// Types that arrays cannot have.
    pub refused_types: &'static [DType],
    /// Whether an array of this name and shape is stored in the tree.
    pub is_inline: fn(&str, &[usize]) -> bool,
    /// Whether the tree stores single numbers as numbers; otherwise they become arrays.
    pub has_numbers: bool,
    /// Builds the files of the tree of a checkpoint for its final path. The last file makes it a
    /// checkpoint.
    pub tree: fn(&Leaves, &Path) -> Result<Vec<SmallFile>, CheckpointError>,
}

impl WrittenFormat {
    /// The folder of a checkpoint that holds the arrays.
    pub fn item(&self, checkpoint: &Path) -> Path {
        self.folder.map_or_else(|| checkpoint.clone(), |folder| checkpoint.join(folder))
    }

    /// Converts a file name in the arrays' folder to its name in the checkpoint.
    pub fn in_checkpoint(&self, name: &str) -> String {
        self.folder.map_or_else(|| name.to_string(), |folder| format!("{folder}/{name}"))
    }

    /// Converts a file name to its name in the arrays' folder; `None` if the file lies outside it.
    pub fn in_item<'a>(&self, file: &'a str) -> Option<&'a str> {
        match self.folder {
            Some(folder) => file.strip_prefix(folder)?.strip_prefix('/'),
            None => Some(file),
        }
    }
}

impl fmt::Debug for WrittenFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// T5X's own format: the tree in msgpack, with the small arrays.
pub(crate) static T5X: WrittenFormat = WrittenFormat {
    name: "t5x",
    folder: None,
    reserved: &[CHECKPOINT_FILE, "gimlet"],
    // uint16 stood for bfloat16 before 2021, and is refused on reading.
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

/// Whether T5X gives the array no partition axes: scalars, Adafactor's factored states and its
/// placeholders.
fn is_unpartitioned(name: &str, shape: &[usize]) -> bool {
    let slot = name.rsplit('/').next().expect("split yields one part");
    let is_factored = matches!(slot, "v_row" | "v_col");
    shape.is_empty() || (!name.starts_with("target/") && (is_factored || shape == [1]))
}
