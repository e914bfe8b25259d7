//! A tensor that is written as it is read, block by block.

use std::io::{self, Write};

use crate::checkpoint::array::{ArrayInfo, DType};
use crate::checkpoint::blocks::{columns, slabs};
use crate::checkpoint::names::Axes;
use crate::checkpoint::stored::{Stored, read_block};
use crate::checkpoint::transpose::transposed;

/// A tensor to be written.
pub(super) struct Tensor {
    /// Its name in the file.
    pub name: String,
    /// Its name in the checkpoint.
    pub source: String,
    /// Its dimensions in the checkpoint.
    pub shape: Vec<usize>,
    /// Its dimensions in the file.
    pub out_shape: Vec<usize>,
    /// How the two relate.
    pub axes: Axes,
    /// The type that is written.
    pub dtype: DType,
    /// The type in the checkpoint.
    pub source_dtype: DType,
}

impl Tensor {
    /// Writes its elements in C order, block by block. An error of reading is wrapped; see
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

    /// Its bytes as they are written.
    pub(super) fn num_bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.size()
    }
}
