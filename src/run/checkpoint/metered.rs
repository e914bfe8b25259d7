//! A checkpoint that shows how much of it has been read.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Mutex;

use crate::checkpoint::{Array, ArrayInfo, CheckpointError, Format, Stored};
use crate::storage::Path;

use super::arrays::array_bytes;
use super::meter::Meter;

/// Passes all calls on, and counts the bytes that are read.
pub(super) struct Metered<'a> {
    inner: &'a dyn Stored,
    meter: Mutex<Meter>,
}

impl<'a> Metered<'a> {
    /// Wraps a checkpoint that is converted to `target`.
    pub(super) fn new(inner: &'a dyn Stored, target: &Path) -> Self {
        let total = inner.leaves().iter().map(array_bytes).sum();
        Self { inner, meter: Mutex::new(Meter::new(&format!("writing {target}"), Some(total))) }
    }

    fn counted(&self, array: Array) -> Array {
        self.meter.lock().expect("counting does not panic").add(array.data.len() as u64);
        array
    }
}

impl fmt::Debug for Metered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Stored for Metered<'_> {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn format(&self) -> Format {
        self.inner.format()
    }

    fn step(&self) -> Result<u64, CheckpointError> {
        self.inner.step()
    }

    fn leaves(&self) -> Vec<ArrayInfo<'_>> {
        self.inner.leaves()
    }

    fn read(&self, name: &str) -> Result<Array, CheckpointError> {
        self.inner.read(name).map(|array| self.counted(array))
    }

    fn read_part(&self, name: &str, part: &[Range<usize>]) -> Result<Array, CheckpointError> {
        self.inner.read_part(name, part).map(|array| self.counted(array))
    }

    fn extra(&self, relative: &str) -> Result<Option<Vec<u8>>, CheckpointError> {
        self.inner.extra(relative)
    }

    fn extras(&self) -> Result<Vec<String>, CheckpointError> {
        self.inner.extras()
    }

    fn misfits(&self, sizes: &BTreeMap<String, u64>) -> Vec<String> {
        self.inner.misfits(sizes)
    }

    fn empty_nodes(&self) -> Vec<&str> {
        self.inner.empty_nodes()
    }

    fn others(&self) -> Vec<(&str, &rmpv::Value)> {
        self.inner.others()
    }
}
