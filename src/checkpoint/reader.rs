//! Reading one checkpoint, array by array.

use super::array::{Array, DType};
use super::checksums::Checksums;
use super::error::CheckpointError;
use super::fit::Shapes;
use super::msgpack::{DecodeError, Leaf, Leaves, decode};
use super::steps::step_of;
use super::zarr;
use crate::storage::Path;

/// The file that makes a folder a checkpoint.
pub(super) const CHECKPOINT_FILE: &str = "checkpoint";

/// What the user should have named.
const EXPECTED: &str = "expected a folder `DIR/checkpoint_N` that a run has saved";

/// Orbax's mark.
const ORBAX_FILE: &str = "_METADATA";

/// An open checkpoint. Holds the arrays that lie in the file `checkpoint` (small ones: factored
/// states); the others stay on disk until they are asked for.
#[derive(Debug)]
pub struct Reader {
    dir: Path,
    leaves: Leaves,
    checksums: Option<Checksums>,
}

/// An array of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayInfo<'a> {
    /// `target/encoder/encoder_norm/scale`, `state/step`, `state/param_states/.../v_row`.
    pub name: &'a str,
    /// The type it is stored in.
    pub dtype: DType,
    /// Its dimensions.
    pub shape: &'a [usize],
}

impl Reader {
    /// Opens a folder `checkpoint_N`, or the file `checkpoint` in it.
    ///
    /// # Errors
    /// Not found; damaged; no checkpoint; or one of TensorFlow or Orbax, which cannot be read yet.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let (dir, file) = locate(path)?;
        refuse_tensorflow(path, &file)?;
        let checksums = Checksums::load(&dir)?;
        if let Some(checksums) = &checksums {
            checksums.verify(&dir, CHECKPOINT_FILE)?;
        }
        let source = std::io::BufReader::with_capacity(1 << 18, file.open()?);
        let shown = || path.to_string();
        let leaves = decode(source).map_err(|error| match error {
            DecodeError::Damaged(_) if !is_named_checkpoint(&file) && !begins_as_map(&file) => {
                let reason = format!("it is a file of another kind, {EXPECTED}");
                CheckpointError::NotACheckpoint { path: shown(), reason }
            }
            DecodeError::Damaged(reason) => CheckpointError::Damaged { path: shown(), reason },
            DecodeError::Unsupported(reason) => {
                CheckpointError::Unsupported { path: shown(), reason }
            }
            DecodeError::NotACheckpoint(reason) => {
                CheckpointError::NotACheckpoint { path: shown(), reason }
            }
            DecodeError::Orbax => {
                CheckpointError::NotYet { path: shown(), kind: "an Orbax checkpoint" }
            }
        })?;
        Ok(Self { dir, leaves, checksums })
    }

    /// The checkpoint's folder.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The step after which it was written: `state/step`, else that of the folder's name.
    pub fn step(&self) -> Result<u64, CheckpointError> {
        let stored = match self.leaves.get("state/step") {
            Some(Leaf::Inline(array)) => array.to_int(),
            Some(Leaf::Other(value)) => value.as_i64(),
            _ => step_of(&self.dir).and_then(|step| step.try_into().ok()),
        };
        stored
            .and_then(|step| step.try_into().ok())
            .ok_or_else(|| CheckpointError::damaged(&self.dir, "`state/step` is not a step number"))
    }

    /// Every array, sorted by name.
    pub fn leaves(&self) -> impl Iterator<Item = ArrayInfo<'_>> {
        self.leaves.iter().filter_map(|(name, leaf)| match leaf {
            Leaf::Inline(array) => {
                Some(ArrayInfo { name, dtype: array.dtype, shape: &array.shape })
            }
            Leaf::Zarr(zarr) => Some(ArrayInfo { name, dtype: zarr.dtype, shape: &zarr.shape }),
            Leaf::Empty | Leaf::Other(_) => None,
        })
    }

    /// The shapes of all arrays by name.
    pub fn shapes(&self) -> Shapes {
        self.leaves().map(|array| (array.name.to_string(), array.shape.to_vec())).collect()
    }

    /// Reads one array. Damage of its chunks is noticed.
    pub fn read(&self, name: &str) -> Result<Array, CheckpointError> {
        match self.leaves.get(name) {
            Some(Leaf::Inline(array)) => Ok(array.clone()),
            Some(Leaf::Zarr(leaf)) => {
                zarr::read(&self.dir, &self.dir.join(&leaf.dir), (leaf.dtype, &leaf.shape))
            }
            _ => {
                Err(CheckpointError::NoArray { path: self.dir.to_string(), name: name.to_string() })
            }
        }
    }

    /// Reads a file beside the arrays, such as `gimlet/data.json`; `None` if there is none.
    pub fn extra(&self, relative: &str) -> Result<Option<Vec<u8>>, CheckpointError> {
        match self.dir.join(relative).read() {
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
            Ok(bytes) => {
                self.checksums.iter().try_for_each(|sums| sums.verify(&self.dir, relative))?;
                Ok(Some(bytes))
            }
        }
    }

    /// Checks the whole checkpoint: every byte against the checksums where there are any, else (T5X
    /// writes none) that every array can be read; compressed chunks have checksums of their own.
    pub fn verify(&self) -> Result<(), CheckpointError> {
        match &self.checksums {
            Some(checksums) => checksums.verify_all(&self.dir),
            None => self.leaves().try_for_each(|array| self.read(array.name).map(drop)),
        }
    }
}

/// The folder of a checkpoint and the file `checkpoint` in it.
fn locate(path: &Path) -> Result<(Path, Path), CheckpointError> {
    if path.is_dir()? {
        return locate_in(path);
    }
    if path.exists()? {
        return Ok((path.parent().unwrap_or(Path::parse(".")?), path.clone()));
    }
    if Path::parse(&format!("{path}.index"))?.exists()? {
        return Err(tensorflow(path));
    }
    // The error of opening names path and remedy.
    path.open()?;
    Ok((path.clone(), path.clone()))
}

fn locate_in(dir: &Path) -> Result<(Path, Path), CheckpointError> {
    let file = dir.join(CHECKPOINT_FILE);
    let orbax = [ORBAX_FILE, "state/_METADATA", "_CHECKPOINT_METADATA"];
    for mark in orbax {
        if dir.join(mark).exists()? {
            let kind = "an Orbax checkpoint";
            return Err(CheckpointError::NotYet { path: dir.to_string(), kind });
        }
    }
    if file.exists()? {
        return Ok((dir.clone(), file));
    }
    if step_of(dir).is_some() {
        return Err(CheckpointError::damaged(dir, "its file `checkpoint` is missing"));
    }
    let reason = match super::steps::list_steps(dir)?.last() {
        Some(step) => format!(
            "it is a folder of checkpoints; name one, such as `{dir}/checkpoint_{step}`, or use \
             mode = 'latest'"
        ),
        None => format!("it has no file `checkpoint`, {EXPECTED}"),
    };
    Err(CheckpointError::NotACheckpoint { path: dir.to_string(), reason })
}

/// Whether a file has a name that T5X or flax gives to checkpoints.
fn is_named_checkpoint(file: &Path) -> bool {
    file.file_name() == CHECKPOINT_FILE || step_of(file).is_some()
}

/// Whether a file begins as a checkpoint does, though it may be cut: with a msgpack map.
fn begins_as_map(file: &Path) -> bool {
    use std::io::Read;
    let mut first = [0];
    let read = file.open().is_ok_and(|mut source| source.read_exact(&mut first).is_ok());
    read && matches!(first[0], 0x80..=0x8f | 0xde | 0xdf)
}

/// TensorFlow's file of the same name is a text that names the newest of its checkpoints.
fn refuse_tensorflow(path: &Path, file: &Path) -> Result<(), CheckpointError> {
    use std::io::Read;
    let mut head = Vec::new();
    let read = file.open()?.take(21).read_to_end(&mut head);
    read.map_err(|error| crate::storage::StorageError::new("read", file, error))?;
    if head == b"model_checkpoint_path" { Err(tensorflow(path)) } else { Ok(()) }
}

fn tensorflow(path: &Path) -> CheckpointError {
    CheckpointError::NotYet { path: path.to_string(), kind: "a TensorFlow checkpoint" }
}
