//! From an array to a folder.

use std::io::{self, Write};
use std::ops::Range;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::chunks::{indices, parts, runs};
use super::metadata::{Compressor, FILE_NAME, Metadata, Separator};
use crate::checkpoint::array::{Array, ArrayView, DType, cast_floats};

/// Elements that are cast at a time: the only copy that a cast makes.
const CAST_ELEMENTS: usize = 1 << 16;

/// Where files of an array go.
pub trait Sink {
    /// What goes wrong.
    type Error;

    /// Writes one file of the array's folder; `write` is called once.
    fn file(
        &self,
        name: &str,
        write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Self::Error>;
}

/// Writes an array in the given chunks, which divide it evenly, rounding floats to `dtype`.
pub fn write<S: Sink>(
    sink: &S,
    array: ArrayView<'_>,
    dtype: DType,
    chunks: &[usize],
) -> Result<(), S::Error> {
    let metadata = write_metadata(sink, dtype, array.shape, chunks)?;
    for index in indices(array.shape, chunks) {
        sink.file(&metadata.chunk_name(&index), &mut |out| {
            write_chunk(out, array, dtype, chunks, &index)
        })?;
    }
    Ok(())
}

/// As [`write`], of an array that `read` yields chunk by chunk, so that it is never held as a whole.
pub fn write_parts<S: Sink, E: From<S::Error>>(
    sink: &S,
    shape: &[usize],
    dtype: DType,
    chunks: &[usize],
    read: &mut dyn FnMut(&[Range<usize>]) -> Result<Array, E>,
) -> Result<(), E> {
    let metadata = write_metadata(sink, dtype, shape, chunks)?;
    let origin = vec![0; shape.len()];
    for (index, part) in indices(shape, chunks).iter().zip(parts(shape, chunks)) {
        let chunk = read(&part)?;
        sink.file(&metadata.chunk_name(index), &mut |out| {
            write_chunk(out, chunk.view(), dtype, &chunk.shape, &origin)
        })?;
    }
    Ok(())
}

fn write_metadata<S: Sink>(
    sink: &S,
    dtype: DType,
    shape: &[usize],
    chunks: &[usize],
) -> Result<Metadata, S::Error> {
    let metadata = Metadata {
        dtype,
        shape: shape.to_vec(),
        chunks: chunks.to_vec(),
        compressor: Compressor::Gzip,
        separator: Separator::Dot,
        fill: None,
    };
    sink.file(FILE_NAME, &mut |out| out.write_all(&metadata.to_text()))?;
    Ok(metadata)
}

fn write_chunk(
    out: &mut dyn Write,
    array: ArrayView<'_>,
    dtype: DType,
    chunks: &[usize],
    index: &[usize],
) -> io::Result<()> {
    let element_bytes = array.dtype.size();
    let mut encoder = GzEncoder::new(out, Compression::new(1));
    for run in runs(array.shape, chunks, index) {
        let start = run.in_array * element_bytes;
        let bytes = &array.data[start..start + run.length * element_bytes];
        if dtype == array.dtype {
            encoder.write_all(bytes)?;
        } else {
            for part in bytes.chunks(CAST_ELEMENTS * element_bytes) {
                encoder.write_all(&cast_floats(part, array.dtype, dtype))?;
            }
        }
    }
    encoder.finish().map(drop)
}
