//! Writes the arrays of a checkpoint: as zarr into separate folders, and small arrays into the file
//! `checkpoint`.

use std::io::{self, Write};
use std::ops::Range;

use super::Writer;
use crate::array::{Array, ArrayInfo, ArrayView, DType};
use crate::error::CheckpointError;
use crate::native::msgpack::{Leaf, ZarrLeaf};
use crate::native::shard::Shard;
use crate::zarr::{self, ArrayLayout};

impl Writer {
    /// Writes an array as T5X would: as zarr, except that in T5X's own format unpartitioned arrays
    /// (factored states, placeholders of the shape `[1]` and scalars) are stored in the file
    /// `checkpoint`. If several processes save, the first writes it.
    pub fn array(&self, name: &str, array: ArrayView<'_>) -> Result<(), CheckpointError> {
        self.shard(name, &Shard::whole(array, self.ranks()), self.is_first())
    }

    /// Like [`Writer::array`], for the part that this process holds; if several processes hold the
    /// part, only one of them `writes` it.
    pub(in crate::native) fn shard(
        &self,
        name: &str,
        shard: &Shard<'_>,
        writes: bool,
    ) -> Result<(), CheckpointError> {
        shard.check(name, self.rank());
        if !(self.written_format.is_inline)(name, &shard.shape) {
            return self.zarr_shard(name, shard, writes);
        }
        if self.is_first() {
            assert!(shard.is_whole(), "`{name}`, which lies in the file `checkpoint`, is whole");
            self.inline(name, shard.array.to_array());
        } else {
            // Of other processes' leaves only the names matter.
            self.empty(name);
        }
        Ok(())
    }

    /// Like [`Writer::array`], for an array that `read` returns part by part: at most one chunk is
    /// in memory, unless the array is stored in the file `checkpoint`. Only one process writes it.
    pub fn parts(
        &self,
        array: ArrayInfo<'_>,
        read: &mut zarr::ReadPart<'_, CheckpointError>,
    ) -> Result<(), CheckpointError> {
        let ArrayInfo { name, dtype, shape } = array;
        if (self.written_format.is_inline)(name, shape) {
            let whole: Vec<Range<usize>> = shape.iter().map(|size| 0..*size).collect();
            self.inline(name, read(&whole)?);
            return Ok(());
        }
        let chunks = zarr::choose_chunks(shape, dtype.size());
        let leaf = self.zarr_leaf(name, (dtype, shape), chunks)?;
        self.item().join(&leaf.dir).create_dir_all()?;
        let folder = ArrayFolder::new(self, &leaf);
        zarr::write_parts(&folder, &layout(&leaf), read)?;
        self.state().leaves.insert(name.to_string(), Leaf::Zarr(leaf));
        Ok(())
    }

    /// Writes an array into a separate folder, chunk by chunk.
    pub fn zarr(&self, name: &str, array: ArrayView<'_>) -> Result<(), CheckpointError> {
        self.zarr_shard(name, &Shard::whole(array, self.ranks()), self.is_first())
    }

    fn zarr_shard(
        &self,
        name: &str,
        shard: &Shard<'_>,
        writes: bool,
    ) -> Result<(), CheckpointError> {
        let array = shard.array;
        let chunks = match shard.is_even() {
            true => zarr::choose_chunks(&shard.part, array.dtype.size()),
            false => zarr::choose_uneven_chunks(&shard.part, array.dtype.size()),
        };
        let leaf = self.zarr_leaf(name, (array.dtype, &shard.shape), chunks)?;
        if writes {
            assert_eq!(array.data.len(), shard.num_bytes(), "`{name}` has the bytes of its shape");
            self.item().join(&leaf.dir).create_dir_all()?;
            let folder = ArrayFolder::new(self, &leaf);
            zarr::write(&folder, (&shard.start, array), &layout(&leaf))?;
        }
        self.state().leaves.insert(name.to_string(), Leaf::Zarr(leaf));
        Ok(())
    }

    /// Describes the storage of an array of this type and shape. As in T5X, chunks depend on the type before rounding.
    fn zarr_leaf(
        &self,
        name: &str,
        (dtype, shape): (DType, &[usize]),
        chunks: Vec<usize>,
    ) -> Result<ZarrLeaf, CheckpointError> {
        let leaf = ZarrLeaf {
            dir: name.replace('/', "."),
            dtype: self.stored_dtype(name, dtype),
            shape: shape.to_vec(),
            chunks,
            compression: self.compression,
        };
        self.claim(name, &leaf.dir)?;
        Ok(leaf)
    }

    /// Reserves a folder for an array.
    ///
    /// # Errors
    /// The name is not valid for a folder, or another array uses the folder.
    fn claim(&self, name: &str, folder: &str) -> Result<(), CheckpointError> {
        let refused = |reason: String| {
            let path = self.finished.to_string();
            Err(CheckpointError::Export { path, reason: format!("its array `{name}` {reason}") })
        };
        if ["", ".", ".."].contains(&folder) || self.written_format.reserved.contains(&folder) {
            return refused("has a name that no folder can have".to_string());
        }
        let mut state = self.state();
        match state.folders.get(folder) {
            Some(other) if other != name => {
                refused(format!("would lie in the folder `{folder}` of `{other}`"))
            }
            _ => {
                state.folders.insert(folder.to_string(), name.to_string());
                Ok(())
            }
        }
    }

    /// Keeps an array for the file `checkpoint`.
    fn inline(&self, name: &str, array: Array) {
        let dtype = self.stored_dtype(name, array.dtype);
        self.state().leaves.insert(name.to_string(), Leaf::Inline(array.cast(dtype)));
    }

    fn stored_dtype(&self, name: &str, dtype: DType) -> DType {
        match self.target_dtype {
            Some(target) if name.starts_with("target/") && dtype.is_float() => target,
            _ => dtype,
        }
    }
}

pub(super) fn layout(leaf: &ZarrLeaf) -> ArrayLayout<'_> {
    let &ZarrLeaf { dtype, ref shape, ref chunks, compression, .. } = leaf;
    ArrayLayout { dtype, shape, chunks, compression }
}

struct ArrayFolder<'a> {
    writer: &'a Writer,
    name: &'a str,
    /// Approximate size of a chunk in bytes.
    chunk: usize,
}

impl<'a> ArrayFolder<'a> {
    fn new(writer: &'a Writer, leaf: &'a ZarrLeaf) -> Self {
        let chunk = leaf.chunks.iter().product::<usize>() * leaf.dtype.size();
        Self { writer, name: &leaf.dir, chunk }
    }
}

impl zarr::Sink for ArrayFolder<'_> {
    type Error = CheckpointError;

    fn file(
        &self,
        name: &str,
        write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), CheckpointError> {
        let is_chunk = name.starts_with(|first: char| first.is_ascii_digit());
        let size = is_chunk.then_some(self.chunk);
        self.writer.file((&format!("{}/{name}", self.name), size), write)
    }
}
