//! A tensor that is read and written block by block.

use std::io::{self, Write};

use crate::array::{ArrayInfo, DType};
use crate::blocks::{columns, slabs};
use crate::names::Axes;
use crate::stored::{Stored, read_block};
use crate::transpose::transposed;

/// A tensor to be written.
#[derive(Clone)]
pub(super) struct Tensor {
    /// Its name in the file.
    pub name: String,
    /// Its name in the checkpoint.
    pub source: String,
    /// Its dimensions in the checkpoint.
    pub shape: Vec<usize>,
    /// Its dimensions in the file.
    pub out_shape: Vec<usize>,
    /// Relation of the axes in the checkpoint to those in the file.
    pub axes: Axes,
    /// The type in the file.
    pub dtype: DType,
    /// The type in the checkpoint.
    pub source_dtype: DType,
}

impl Tensor {
    /// Writes the tensor's elements in C order, block by block. A read error is wrapped; see
    /// [`unwrapped`](super::unwrapped).
    pub(super) fn write(
        &self,
        from: &dyn Stored,
        axes: Axes,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let array = ArrayInfo { name: &self.source, dtype: self.source_dtype, shape: &self.shape };
        let parts = match axes {
            Axes::Same => slabs(array),
            Axes::Swapped => columns(array),
        };
        for part in parts {
            let block = read_block(from, array, &part).map_err(io::Error::other)?;
            let block = match axes {
                Axes::Same => block,
                Axes::Swapped => transposed(block),
            };
            out.write_all(&block.cast(self.dtype).data)?;
        }
        Ok(())
    }

    /// Number of bytes in the file.
    pub(super) fn num_bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.size()
    }
}
