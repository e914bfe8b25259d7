//! A copied state that is read like a checkpoint, for writers that convert it.

use std::ops::Range;

use super::array::{Array, ArrayInfo, DType};
use super::error::CheckpointError;
use super::format::Format;
use super::saver::Snapshot;
use super::stored::Stored;
use gimlet_storage::Path;

/// A snapshot of which every array is whole.
#[derive(Debug)]
pub(super) struct WholeSnapshot<'a> {
    /// The path of the checkpoint that it becomes.
    pub path: &'a Path,
    /// Its step.
    pub step: u64,
    /// The arrays.
    pub snapshot: &'a Snapshot,
    /// The type to which floats below `target/` are rounded; `None` keeps their types.
    pub dtype: Option<DType>,
}

impl WholeSnapshot<'_> {
    fn dtype(&self, name: &str, dtype: DType) -> DType {
        self.dtype.filter(|_| name.starts_with("target/") && dtype.is_float()).unwrap_or(dtype)
    }

    fn array(&self, name: &str) -> Result<&Array, CheckpointError> {
        let found = self.snapshot.arrays().find(|(other, _)| *other == name);
        found.map(|(_, array)| array).ok_or_else(|| self.no_array(name))
    }
}

impl Stored for WholeSnapshot<'_> {
    fn path(&self) -> &Path {
        self.path
    }

    fn format(&self) -> Format {
        Format::Trainer
    }

    fn step(&self) -> Result<u64, CheckpointError> {
        Ok(self.step)
    }

    fn leaves(&self) -> Vec<ArrayInfo<'_>> {
        let mut leaves = Vec::new();
        for (name, Array { dtype, shape, .. }) in self.snapshot.arrays() {
            leaves.push(ArrayInfo { name, dtype: self.dtype(name, *dtype), shape });
        }
        leaves.sort_by_key(|leaf| leaf.name);
        leaves
    }

    fn read(&self, name: &str) -> Result<Array, CheckpointError> {
        let array = self.array(name)?.clone();
        let dtype = self.dtype(name, array.dtype);
        Ok(array.cast(dtype))
    }

    fn read_part(&self, name: &str, part: &[Range<usize>]) -> Result<Array, CheckpointError> {
        let array = self.array(name)?.part(part);
        let dtype = self.dtype(name, array.dtype);
        Ok(array.cast(dtype))
    }

    fn extra(&self, relative: &str) -> Result<Option<Vec<u8>>, CheckpointError> {
        let found = self.snapshot.extras().iter().find(|(name, _)| name == relative);
        Ok(found.map(|(_, bytes)| bytes.clone()))
    }

    fn extras(&self) -> Result<Vec<String>, CheckpointError> {
        Ok(self.snapshot.extras().iter().map(|(name, _)| name.clone()).collect())
    }
}
