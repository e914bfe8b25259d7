//! Reads one checkpoint, array by array.

use std::collections::BTreeMap;
use std::ops::Range;

use super::checksums::{Checked, Checksums, extras, read_extra};
use super::msgpack::{Leaf, Leaves, ZarrLeaf, decode};
use crate::array::{Array, ArrayInfo};
use crate::error::CheckpointError;
use crate::format::Format;
use crate::marks::{CHECKPOINT_FILE, step_of};
use crate::msgpack::DecodeError;
use crate::steps::committed;
use crate::stored::{Stored, array_damages, select};
use crate::t5x_tree::STEP;
use crate::zarr::{self, Zarr};
use gimlet_storage::Path;

/// The expected kind of path, for messages.
const EXPECTED: &str = "expected a folder `DIR/checkpoint_N` that a run has saved";

/// An open checkpoint. The arrays in the file `checkpoint` (small ones: factored states) are in
/// memory; the other arrays stay on disk until they are requested.
#[derive(Debug)]
pub struct Reader {
    dir: Path,
    leaves: Leaves,
    checksums: Option<Checksums>,
}

impl Reader {
    /// Opens a folder `checkpoint_N`, or the file `checkpoint` in it.
    ///
    /// # Errors
    /// The path does not exist; the checkpoint is damaged; it is not a checkpoint of this format.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let (dir, file) = locate(path)?;
        let checksums = Checksums::load(&dir)?;
        if let Some(checksums) = &checksums {
            checksums.verify(&dir, CHECKPOINT_FILE)?;
        }
        let source = std::io::BufReader::with_capacity(1 << 18, file.open()?);
        let leaves = decode(source).map_err(|error| match error {
            DecodeError::Damaged(_) if !is_named_checkpoint(&file) && !begins_as_map(&file) => {
                let reason = format!("it is a file of another kind, {EXPECTED}");
                CheckpointError::NotACheckpoint { path: path.to_string(), reason }
            }
            error => error.at(path),
        })?;
        Ok(Self { dir, leaves, checksums })
    }

    fn with_zarr<T>(
        &self,
        leaf: &ZarrLeaf,
        read: impl FnOnce(Zarr<'_>) -> Result<T, CheckpointError>,
    ) -> Result<T, CheckpointError> {
        let checkpoint = &self.dir;
        let folder = zarr::Folder { checkpoint, dir: checkpoint.join(&leaf.dir) };
        let folder = Checked { folder, name: &leaf.dir, checksums: self.checksums.as_ref() };
        let metadata = zarr::metadata(checkpoint, &folder)?;
        let zarr = Zarr { checkpoint, files: &folder, metadata: &metadata, begun: None };
        zarr.check(leaf.dtype, &leaf.shape)?;
        read(zarr)
    }
}

impl Stored for Reader {
    fn path(&self) -> &Path {
        &self.dir
    }

    fn format(&self) -> Format {
        Format::T5x
    }

    /// The step in `state/step`, otherwise in the folder's name.
    fn step(&self) -> Result<u64, CheckpointError> {
        let stored = match self.leaves.get(STEP) {
            Some(Leaf::Inline(array)) => array.to_int(),
            Some(Leaf::Other(value)) => value.as_i64(),
            _ => step_of(&self.dir).and_then(|step| step.try_into().ok()),
        };
        stored
            .and_then(|step| step.try_into().ok())
            .ok_or_else(|| CheckpointError::damaged(&self.dir, "`state/step` is not a step number"))
    }

    fn leaves(&self) -> Vec<ArrayInfo<'_>> {
        let info = |(name, leaf)| match leaf {
            &Leaf::Inline(Array { dtype, ref shape, .. }) => Some(ArrayInfo { name, dtype, shape }),
            &Leaf::Zarr(ZarrLeaf { dtype, ref shape, .. }) => {
                Some(ArrayInfo { name, dtype, shape })
            }
            Leaf::Empty | Leaf::Other(_) => None,
        };
        self.leaves.iter().map(|(name, leaf)| (&name[..], leaf)).filter_map(info).collect()
    }

    /// Damage of compressed chunks is detected.
    fn read(&self, name: &str) -> Result<Array, CheckpointError> {
        match self.leaves.get(name) {
            Some(Leaf::Inline(array)) => Ok(array.clone()),
            Some(Leaf::Zarr(leaf)) => self.with_zarr(leaf, |zarr| zarr.read()),
            _ => Err(self.no_array(name)),
        }
    }

    /// Opens only the chunks that intersect the part.
    fn read_part(&self, name: &str, part: &[Range<usize>]) -> Result<Array, CheckpointError> {
        match self.leaves.get(name) {
            Some(Leaf::Zarr(leaf)) => self.with_zarr(leaf, |zarr| zarr.read_part(part)),
            _ => Ok(self.read(name)?.part(part)),
        }
    }

    fn extra(&self, relative: &str) -> Result<Option<Vec<u8>>, CheckpointError> {
        read_extra((&self.dir, self.checksums.as_ref()), relative)
    }

    fn extras(&self) -> Result<Vec<String>, CheckpointError> {
        extras(&self.dir)
    }

    fn has_checksums(&self) -> bool {
        self.checksums.is_some()
    }

    fn damages(&self, tell: &mut dyn FnMut(u64)) -> Result<Vec<CheckpointError>, CheckpointError> {
        match &self.checksums {
            Some(checksums) => checksums.damages(&self.dir, tell),
            None => array_damages(self, tell),
        }
    }

    fn misfits(&self, sizes: &BTreeMap<String, u64>) -> Vec<String> {
        if let Some(checksums) = &self.checksums {
            return checksums.misfits(sizes);
        }
        let metadata = self.leaves.values().filter_map(|leaf| match leaf {
            Leaf::Zarr(leaf) => Some(format!("{}/.zarray", leaf.dir.trim_end_matches('/'))),
            _ => None,
        });
        let missing = metadata.filter(|name| !sizes.contains_key(name));
        missing.map(|name| format!("`{name}` is missing")).collect()
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

    /// Compares every byte with the checksums. Without checksums (T5X writes none) it checks that
    /// every array can be read; compressed chunks have their own checksums.
    fn verify(&self) -> Result<(), CheckpointError> {
        match &self.checksums {
            Some(checksums) => checksums.verify_all(&self.dir),
            None => self.read_everything(),
        }
    }
}

/// Returns the folder of a checkpoint and the file `checkpoint` in the folder.
fn locate(path: &Path) -> Result<(Path, Path), CheckpointError> {
    if path.is_dir()? {
        return locate_in(path);
    }
    if path.exists()? {
        return Ok((path.folder(), path.clone()));
    }
    // The error of opening the file names the path and the remedy.
    path.open()?;
    Ok((path.clone(), path.clone()))
}

fn locate_in(dir: &Path) -> Result<(Path, Path), CheckpointError> {
    let file = dir.join(CHECKPOINT_FILE);
    if file.exists()? {
        return Ok((dir.clone(), file));
    }
    if step_of(dir).is_some() {
        return Err(CheckpointError::damaged(dir, "its file `checkpoint` is missing"));
    }
    let reason = match committed(dir)?.pop_last() {
        Some((_, newest)) => format!(
            "it is a folder of checkpoints; name one, such as `{newest}`, or use mode = 'latest'"
        ),
        None => format!("it has no file `checkpoint`, {EXPECTED}"),
    };
    Err(CheckpointError::NotACheckpoint { path: dir.to_string(), reason })
}

/// Whether a file has a name that T5X or flax gives to checkpoints.
fn is_named_checkpoint(file: &Path) -> bool {
    file.file_name() == CHECKPOINT_FILE || step_of(file).is_some()
}

/// Whether a file begins like a checkpoint, possibly truncated: with a msgpack map.
fn begins_as_map(file: &Path) -> bool {
    use std::io::Read;
    let mut first = [0];
    let read = file.open().is_ok_and(|mut source| source.read_exact(&mut first).is_ok());
    read && matches!(first[0], 0x80..=0x8f | 0xde | 0xdf)
}
