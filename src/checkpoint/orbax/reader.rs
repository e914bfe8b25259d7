//! Reads an Orbax checkpoint under T5X's names.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;

use super::item::Item;
use super::metadata::{self, Named};
use crate::array::{Array, ArrayInfo};
use crate::blocks::BLOCK_BYTES;
use crate::error::CheckpointError;
use crate::format::Format;
use crate::marks::step_of;
use crate::native::{Checksums, extras, read_extra};
use crate::parallel;
use crate::stored::{Stored, array_damages, select};
use crate::t5x_tree::STEP;
use crate::zarr::{self, Begun, Metadata, Zarr};
use gimlet_storage::Path;

/// An open checkpoint. The names and metadata of its arrays are in memory, their values are not.
#[derive(Debug)]
struct OrbaxReader {
    checkpoint: Path,
    item: Item,
    leaves: BTreeMap<String, Leaf>,
    /// Partly read chunks that are whole arrays, kept between two blocks of an array.
    begun: Begun,
}

#[derive(Debug)]
enum Leaf {
    Inline(Array),
    Zarr { name: String, metadata: Metadata },
    Empty,
    Other(rmpv::Value),
}

impl Leaf {
    fn is_array(&self) -> bool {
        matches!(self, Self::Inline(_) | Self::Zarr { .. })
    }
}

/// Opens a checkpoint, or the folder in it that holds the arrays.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Stored>, CheckpointError> {
    let item = Item::open(path)?;
    let leaves = Mutex::new(BTreeMap::new());
    // If arrays have folders, each has a file to read, which may be remote.
    let named = metadata::leaves(item.dir())?.into_iter();
    parallel::for_each(parallel::num_threads(path), named, |(name, named)| {
        let leaf = match named {
            Named::Inline(array) => Leaf::Inline(array),
            Named::Empty => Leaf::Empty,
            Named::Other(value) => Leaf::Other(value),
            Named::Array(array) => {
                let metadata = zarr::metadata(path, item.array(path, &array).as_ref())?;
                Leaf::Zarr { name: array, metadata }
            }
        };
        leaves.lock().expect("no holder of the leaves panics").insert(name, leaf);
        Ok::<_, CheckpointError>(())
    })?;
    let leaves = leaves.into_inner().expect("no holder of the leaves panics");
    let leaves = with_names_of_t5x(leaves);
    let begun = Begun::new(BLOCK_BYTES);
    Ok(Box::new(OrbaxReader { checkpoint: path.clone(), item, leaves, begun }))
}

/// Renames the state of a plain flax program, which has its parameters under `params` and its step
/// at the root.
fn with_names_of_t5x(leaves: BTreeMap<String, Leaf>) -> BTreeMap<String, Leaf> {
    if leaves.iter().any(|(name, leaf)| name.starts_with("target/") && leaf.is_array()) {
        return leaves;
    }
    let rename = |name: String| match name.strip_prefix("params/") {
        Some(rest) => format!("target/{}", rest.strip_prefix("params/").unwrap_or(rest)),
        None if name == "step" => STEP.to_string(),
        None => name,
    };
    leaves.into_iter().map(|(name, leaf)| (rename(name), leaf)).collect()
}

impl OrbaxReader {
    fn with_leaf(
        &self,
        name: &str,
        read: impl FnOnce(Zarr<'_>) -> Result<Array, CheckpointError>,
    ) -> Result<Array, CheckpointError> {
        match self.leaves.get(name) {
            Some(Leaf::Inline(array)) => Ok(array.clone()),
            Some(Leaf::Zarr { name, metadata }) => {
                let files = self.item.array(&self.checkpoint, name);
                let (checkpoint, begun) = (&self.checkpoint, Some(&self.begun));
                read(Zarr { checkpoint, files: files.as_ref(), metadata, begun })
            }
            _ => Err(self.no_array(name)),
        }
    }
}

impl OrbaxReader {
    /// Verifies the files outside the folder of arrays, unless the user named that folder alone.
    fn verify_beside(&self, checksums: &Checksums) -> Result<(), CheckpointError> {
        match *self.item.dir() == self.checkpoint {
            true => Ok(()),
            false => checksums.verify_beside(&self.checkpoint),
        }
    }
}

impl Stored for OrbaxReader {
    fn path(&self) -> &Path {
        &self.checkpoint
    }

    fn format(&self) -> Format {
        Format::Orbax
    }

    /// The step in `state/step`, otherwise in the folder's name or its parent's name.
    fn step(&self) -> Result<u64, CheckpointError> {
        if !self.leaves.get(STEP).is_some_and(Leaf::is_array) {
            let above = || step_of(&self.checkpoint.parent()?);
            return Ok(step_of(&self.checkpoint).or_else(above).unwrap_or(0));
        }
        let step = self.read(STEP)?.to_int().and_then(|step| step.try_into().ok());
        step.ok_or_else(|| {
            CheckpointError::damaged(&self.checkpoint, "`state/step` is not a step number")
        })
    }

    fn leaves(&self) -> Vec<ArrayInfo<'_>> {
        let info = |(name, leaf)| match leaf {
            &Leaf::Inline(Array { dtype, ref shape, .. }) => Some(ArrayInfo { name, dtype, shape }),
            Leaf::Zarr { metadata, .. } => {
                Some(ArrayInfo { name, dtype: metadata.dtype, shape: &metadata.shape })
            }
            Leaf::Empty | Leaf::Other(_) => None,
        };
        self.leaves.iter().map(|(name, leaf)| (&name[..], leaf)).filter_map(info).collect()
    }

    /// Damage of the tree is detected, and damage of compressed chunks if their decoders detect it.
    fn read(&self, name: &str) -> Result<Array, CheckpointError> {
        self.with_leaf(name, |zarr| zarr.read())
    }

    /// Opens only the chunks that intersect the part.
    fn read_part(&self, name: &str, part: &[Range<usize>]) -> Result<Array, CheckpointError> {
        match self.leaves.get(name) {
            Some(Leaf::Inline(array)) => Ok(array.part(part)),
            _ => self.with_leaf(name, |zarr| zarr.read_part(part)),
        }
    }

    fn extra(&self, relative: &str) -> Result<Option<Vec<u8>>, CheckpointError> {
        read_extra((self.item.dir(), self.item.checksums()), relative)
    }

    fn extras(&self) -> Result<Vec<String>, CheckpointError> {
        extras(self.item.dir())
    }

    fn has_checksums(&self) -> bool {
        self.item.checksums().is_some()
    }

    /// Verifies every byte if Gimlet wrote the checkpoint; otherwise checks as [`Stored::read`]
    /// does.
    fn verify(&self) -> Result<(), CheckpointError> {
        match self.item.checksums() {
            Some(checksums) => {
                self.verify_beside(checksums)?;
                checksums.verify_all(self.item.dir())
            }
            None => self.read_everything(),
        }
    }

    fn damages(&self, tell: &mut dyn FnMut(u64)) -> Result<Vec<CheckpointError>, CheckpointError> {
        match self.item.checksums() {
            Some(checksums) => {
                let mut damages = checksums.damages(self.item.dir(), tell)?;
                match self.verify_beside(checksums) {
                    Err(error) if error.is_damage() => damages.push(error),
                    verified => verified?,
                }
                Ok(damages)
            }
            None => array_damages(self, tell),
        }
    }

    fn misfits(&self, sizes: &BTreeMap<String, u64>) -> Vec<String> {
        let Some(checksums) = self.item.checksums() else { return Vec::new() };
        let folder = self.item.dir().relative_to(&self.checkpoint);
        let in_item = |(name, size): (&String, &u64)| {
            let name = match folder {
                "" => name,
                folder => name.strip_prefix(folder)?.strip_prefix('/')?,
            };
            Some((name.to_string(), *size))
        };
        checksums.misfits(&sizes.iter().filter_map(in_item).collect())
    }

    fn empty_nodes(&self) -> Vec<&str> {
        let empty = select(&self.leaves, |leaf| matches!(leaf, Leaf::Empty).then_some(()));
        empty.into_iter().map(|(name, ())| name).collect()
    }

    fn others(&self) -> Vec<(&str, &rmpv::Value)> {
        select(&self.leaves, |leaf| match leaf {
            Leaf::Other(value) => Some(value),
            _ => None,
        })
    }
}
