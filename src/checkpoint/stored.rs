//! What can be read from a checkpoint, whatever its format.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

use super::array::{Array, ArrayInfo, Shapes, num_bytes};
use super::blocks::blocks;
use super::error::CheckpointError;
use super::format::Format;
use super::parallel;
use super::read_ahead::{Visit, read_ahead};
use crate::storage::Path;
use crate::telemetry::Wait;

/// What makes a run the same run after a restart, as `gimlet train` leaves it beside the arrays.
pub const RUN_FILE: &str = "gimlet/run.json";

/// The count of updates, which T5X asks for.
pub(super) const STEP: &str = "state/step";

/// An open checkpoint. Its arrays have T5X's names and shapes whatever the format; they stay where they
/// lie until they are asked for.
pub trait Stored: fmt::Debug + Send + Sync {
    /// Where it lies.
    fn path(&self) -> &Path;

    /// Its format.
    fn format(&self) -> Format;

    /// The step after which it was written; 0 for a format that has none.
    fn step(&self) -> Result<u64, CheckpointError>;

    /// Every array, sorted by name.
    fn leaves(&self) -> Vec<ArrayInfo<'_>>;

    /// Reads one array. Damage of its bytes is noticed as far as the format tells.
    fn read(&self, name: &str) -> Result<Array, CheckpointError>;

    /// Reads the part of an array that lies in these ranges of its dimensions, and no more than it
    /// must to get at it.
    fn read_part(&self, name: &str, part: &[Range<usize>]) -> Result<Array, CheckpointError> {
        Ok(self.read(name)?.part(part))
    }

    /// Reads a file of ours beside the arrays, such as `gimlet/run.json`; `None` if there is none.
    fn extra(&self, _relative: &str) -> Result<Option<Vec<u8>>, CheckpointError> {
        Ok(None)
    }

    /// The names of those files.
    fn extras(&self) -> Result<Vec<String>, CheckpointError> {
        Ok(Vec::new())
    }

    /// Whether [`Stored::verify`] notices more than reading the arrays in parts does.
    fn has_checksums(&self) -> bool {
        false
    }

    /// Checks that everything is there and undamaged, as far as the format tells.
    fn verify(&self) -> Result<(), CheckpointError> {
        self.read_everything()
    }

    /// Reads every array and drops it: damage that the format can tell is noticed.
    fn read_everything(&self) -> Result<(), CheckpointError> {
        let leaves = self.leaves();
        let names: Vec<&str> = leaves.iter().map(|leaf| leaf.name).collect();
        self.read_each(&names, &mut |_, _| Ok(()))
    }

    /// Reads arrays in the order given, ahead of `visit` by several threads. Beside the array being visited no
    /// more than half a gigabyte is held, or a single array that is larger.
    fn read_each(&self, names: &[&str], visit: &mut Visit<'_>) -> Result<(), CheckpointError> {
        let num_threads = parallel::num_threads(self.path());
        let leaves = self.leaves();
        let wait = Wait::new(&format!("reading {}", self.path()), Some(sum_of(&leaves, names)));
        let read = |name: &str| self.read(name).inspect(|array| wait.add(array.data.len() as u64));
        read_ahead(num_threads, &leaves, names, &read, visit)
    }

    /// Every damage that [`Stored::verify`] would stop at; none for a whole checkpoint. `tell` is told of
    /// the bytes done.
    fn damages(&self, tell: &mut dyn FnMut(u64)) -> Result<Vec<CheckpointError>, CheckpointError> {
        array_damages(self, tell)
    }

    /// What is wrong as far as names and sizes of its files tell, without reading them; the sizes are by
    /// path relative to the checkpoint.
    fn misfits(&self, _sizes: &BTreeMap<String, u64>) -> Vec<String> {
        Vec::new()
    }

    /// Names of subtrees without arrays, which T5X asks for all the same.
    fn empty_nodes(&self) -> Vec<&str> {
        Vec::new()
    }

    /// What else T5X keeps in the tree, by name: None, texts, complex numbers.
    fn others(&self) -> Vec<(&str, &rmpv::Value)> {
        Vec::new()
    }

    /// The shapes of all arrays by name.
    fn shapes(&self) -> Shapes {
        let shape = |array: &ArrayInfo<'_>| (array.name.to_string(), array.shape.to_vec());
        self.leaves().iter().map(shape).collect()
    }

    /// The error for an array that is not there.
    fn no_array(&self, name: &str) -> CheckpointError {
        CheckpointError::NoArray { path: self.path().to_string(), name: name.to_string() }
    }
}

/// What takes the blocks of an array, each with the part of the array that it is.
type TakeBlock<'a> = dyn FnMut(Array, &[Range<usize>]) -> Result<(), CheckpointError> + 'a;

/// Reads an array block by block, in no particular order.
pub fn for_each_block<S: Stored + ?Sized>(
    stored: &S,
    array: ArrayInfo<'_>,
    take: &mut TakeBlock<'_>,
) -> Result<(), CheckpointError> {
    blocks(array).iter().try_for_each(|part| take(read_block(stored, array, part)?, part))
}

/// Reads a part of an array, which may be the whole.
pub(super) fn read_block<S: Stored + ?Sized>(
    stored: &S,
    array: ArrayInfo<'_>,
    part: &[Range<usize>],
) -> Result<Array, CheckpointError> {
    match part.iter().zip(array.shape).all(|(range, size)| range.len() == *size) {
        true => stored.read(array.name),
        false => stored.read_part(array.name, part),
    }
}

/// The bytes of the arrays of these names.
fn sum_of(leaves: &[ArrayInfo<'_>], names: &[&str]) -> u64 {
    let names: BTreeSet<&str> = names.iter().copied().collect();
    let bytes = |leaf: &ArrayInfo<'_>| num_bytes(leaf.shape, leaf.dtype).unwrap_or(0) as u64;
    leaves.iter().filter(|leaf| names.contains(leaf.name)).map(bytes).sum()
}

/// Of leaves by name those of which `of` finds something.
pub(super) fn select<'a, L, T>(
    leaves: &'a BTreeMap<String, L>,
    of: impl Fn(&'a L) -> Option<T>,
) -> Vec<(&'a str, T)> {
    leaves.iter().filter_map(|(name, leaf)| Some((&name[..], of(leaf)?))).collect()
}

/// What comes to light by reading every array.
pub(super) fn array_damages<S: Stored + ?Sized>(
    stored: &S,
    tell: &mut dyn FnMut(u64),
) -> Result<Vec<CheckpointError>, CheckpointError> {
    let mut damages = Vec::new();
    for array in stored.leaves() {
        let read = for_each_block(stored, array, &mut |part, _| {
            tell(part.data.len() as u64);
            Ok(())
        });
        match read {
            Err(error) if error.is_damage() => damages.push(error),
            other => other?,
        }
    }
    Ok(damages)
}
