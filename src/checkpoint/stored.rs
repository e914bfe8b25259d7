//! The interface for reading a checkpoint of any format.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use super::array::{Array, ArrayInfo, Shapes, num_bytes};
use super::blocks::{Region, blocks};
use super::error::CheckpointError;
use super::format::{Format, Without};
use super::parallel;
use super::read_ahead::{Visit, read_ahead};
use gimlet_storage::Path;
use gimlet_telemetry::Wait;

/// The file that identifies a run after a restart, which `gimlet train` writes beside the arrays.
pub const RUN_FILE: &str = "gimlet/run.json";

/// An open checkpoint. Its arrays have T5X's names and shapes in every format; they are not loaded
/// until they are requested.
pub trait Stored: fmt::Debug + Send + Sync {
    /// Path of the checkpoint.
    fn path(&self) -> &Path;

    /// Format of the checkpoint.
    fn format(&self) -> Format;

    /// The arrays that it lacks because of its kind.
    fn without(&self) -> Without {
        self.format().without_state(&self.shapes())
    }

    /// The step after which the checkpoint was written; 0 for a format without steps.
    fn step(&self) -> Result<u64, CheckpointError>;

    /// Every array, sorted by name.
    fn leaves(&self) -> Vec<ArrayInfo<'_>>;

    /// Reads one array. Damage of its bytes is detected as far as the format allows.
    fn read(&self, name: &str) -> Result<Array, CheckpointError>;

    /// Reads the part of an array within these ranges of its dimensions, and no more bytes than
    /// necessary.
    fn read_part(&self, name: &str, part: &[Range<usize>]) -> Result<Array, CheckpointError> {
        Ok(self.read(name)?.part(part))
    }

    /// Reads one of Gimlet's files beside the arrays, such as `gimlet/run.json`; `None` if it does
    /// not exist.
    fn extra(&self, _relative: &str) -> Result<Option<Vec<u8>>, CheckpointError> {
        Ok(None)
    }

    /// The names of Gimlet's files.
    fn extras(&self) -> Result<Vec<String>, CheckpointError> {
        Ok(Vec::new())
    }

    /// Whether [`Stored::verify`] detects more damage than reading the arrays in parts does.
    fn has_checksums(&self) -> bool {
        false
    }

    /// Checks that everything is present and undamaged, as far as the format allows.
    fn verify(&self) -> Result<(), CheckpointError> {
        self.read_everything()
    }

    /// Reads and drops every array: damage is detected as far as the format allows.
    fn read_everything(&self) -> Result<(), CheckpointError> {
        let leaves = self.leaves();
        let names: Vec<&str> = leaves.iter().map(|leaf| leaf.name).collect();
        self.read_each(&names, &mut |_, _| Ok(()))
    }

    /// Reads arrays in the given order, ahead of `visit` in several threads. Besides the array
    /// being visited, at most half a gigabyte is in memory, or a single larger array.
    fn read_each(&self, names: &[&str], visit: &mut Visit<'_>) -> Result<(), CheckpointError> {
        let shapes = self.shapes();
        let whole = |name: &&str| shapes.get(*name).map(|shape| whole(shape)).unwrap_or_default();
        let parts: Vec<(&str, Region)> = names.iter().map(|name| (*name, whole(name))).collect();
        self.read_parts(&parts, visit)
    }

    /// Like [`Stored::read_each`], for a part of each array: its ranges in all dimensions.
    fn read_parts(
        &self,
        parts: &[(&str, Region)],
        visit: &mut Visit<'_>,
    ) -> Result<(), CheckpointError> {
        let num_threads = parallel::num_threads(self.path());
        let leaves = self.leaves();
        let leaves: BTreeMap<&str, ArrayInfo<'_>> =
            leaves.iter().map(|leaf| (leaf.name, *leaf)).collect();
        let bytes = |(name, part): &(&'_ str, Region)| {
            let shape: Vec<usize> = part.iter().map(Range::len).collect();
            leaves.get(name).map_or(0, |leaf| num_bytes(&shape, leaf.dtype).unwrap_or(usize::MAX))
        };
        let arrays: Vec<(&str, usize)> = parts.iter().map(|part| (part.0, bytes(part))).collect();
        let total = arrays.iter().fold(0, |sum: usize, (_, bytes)| sum.saturating_add(*bytes));
        let wait = Wait::new(&format!("reading {}", self.path()), Some(total as u64));
        let read = |at: usize| {
            let (name, part) = &parts[at];
            let array = leaves.get(name).ok_or_else(|| self.no_array(name))?;
            let read = read_block(self, *array, part)?;
            wait.add(read.data.len() as u64);
            Ok(read)
        };
        read_ahead(num_threads, &arrays, &read, visit)
    }

    /// Returns every damage at which [`Stored::verify`] would stop; none for an undamaged
    /// checkpoint. Calls `tell` with the number of bytes done.
    fn damages(&self, tell: &mut dyn FnMut(u64)) -> Result<Vec<CheckpointError>, CheckpointError> {
        array_damages(self, tell)
    }

    /// Describes the damage that the names and sizes of the files show, without reading them;
    /// `_sizes` has the sizes by path relative to the checkpoint.
    fn misfits(&self, _sizes: &BTreeMap<String, u64>) -> Vec<String> {
        Vec::new()
    }

    /// Names of subtrees without arrays, which T5X also requires.
    fn empty_nodes(&self) -> Vec<&str> {
        Vec::new()
    }

    /// The other values that T5X stores in the tree, by name: None, texts, complex numbers.
    fn others(&self) -> Vec<(&str, &rmpv::Value)> {
        Vec::new()
    }

    /// The shapes of all arrays by name.
    fn shapes(&self) -> Shapes {
        let shape = |array: &ArrayInfo<'_>| (array.name.to_string(), array.shape.to_vec());
        self.leaves().iter().map(shape).collect()
    }

    /// The error for an array that does not exist.
    fn no_array(&self, name: &str) -> CheckpointError {
        CheckpointError::NoArray { path: self.path().to_string(), name: name.to_string() }
    }
}

/// A function that takes the blocks of an array, each with its range in the array.
type TakeBlock<'a> = dyn FnMut(Array, &[Range<usize>]) -> Result<(), CheckpointError> + 'a;

/// Reads an array block by block, in no particular order.
pub fn for_each_block<S: Stored + ?Sized>(
    stored: &S,
    array: ArrayInfo<'_>,
    take: &mut TakeBlock<'_>,
) -> Result<(), CheckpointError> {
    blocks(array).iter().try_for_each(|part| take(read_block(stored, array, part)?, part))
}

/// Reads a part of an array, or the whole array.
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

/// The ranges of a whole array.
fn whole(shape: &[usize]) -> Region {
    shape.iter().map(|&size| 0..size).collect()
}

/// Returns the leaves for which `of` returns a value, by name.
pub(super) fn select<'a, L, T>(
    leaves: &'a BTreeMap<String, L>,
    of: impl Fn(&'a L) -> Option<T>,
) -> Vec<(&'a str, T)> {
    leaves.iter().filter_map(|(name, leaf)| Some((&name[..], of(leaf)?))).collect()
}

/// Returns the damage that is found by reading every array.
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
