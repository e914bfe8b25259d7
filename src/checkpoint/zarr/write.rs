//! Writes an array into a folder.

use std::io::{self, Read as _, Write};
use std::ops::Range;

use super::chunks::{Run, chunks_of, indices, parts, runs};
use super::codec::Compression;
use super::v2;
use crate::array::{Array, ArrayView, DType, cast_floats, num_elements};

/// Number of elements that are cast at a time: the only copy that a cast needs.
const CAST_ELEMENTS: usize = 1 << 16;

/// The destination of an array's files.
pub trait Sink {
    /// Error of the destination.
    type Error;

    /// Writes one file of the array's folder; `write` is called once.
    fn file(
        &self,
        name: &str,
        write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Self::Error>;
}

/// The storage layout of an array.
pub struct ArrayLayout<'a> {
    /// The type to which floats are rounded.
    pub dtype: DType,
    /// The dimensions of the whole array.
    pub shape: &'a [usize],
    /// The chunks; those at the end of the array are padded with zeros.
    pub chunks: &'a [usize],
    pub compression: Compression,
}

impl ArrayLayout<'_> {
    fn write_metadata<S: Sink>(&self, sink: &S) -> Result<(), S::Error> {
        let text = v2::to_text(self.dtype, self.shape, self.chunks, self.compression);
        sink.file(v2::FILE_NAME, &mut |out| out.write_all(&text))
    }

    /// The names of all files of the array.
    pub fn file_names(&self) -> impl Iterator<Item = String> {
        let all: Vec<Range<usize>> = self.shape.iter().map(|&size| 0..size).collect();
        let chunks = indices(chunks_of(&all, self.chunks)).map(|index| v2::KEYS.file_name(&index));
        std::iter::once(v2::FILE_NAME.to_string()).chain(chunks)
    }
}

/// Writes the chunks of a part of an array. The part begins at `start`, the start of a chunk, and
/// ends at the end of a chunk or of the array. The first part also writes the metadata.
pub fn write<S: Sink>(
    sink: &S,
    (start, array): (&[usize], ArrayView<'_>),
    layout: &ArrayLayout<'_>,
) -> Result<(), S::Error> {
    let &ArrayLayout { dtype, chunks, compression, .. } = layout;
    if start.iter().all(|&at| at == 0) {
        layout.write_metadata(sink)?;
    }
    let part: Vec<Range<usize>> =
        start.iter().zip(array.shape).map(|(&at, &size)| at..at + size).collect();
    for index in indices(chunks_of(&part, chunks)) {
        sink.file(&v2::KEYS.file_name(&index), &mut |out| {
            compression.encode(out, &mut |out| {
                let mut at = 0;
                for run in runs(&part, chunks, &index) {
                    write_zeros(out, (run.in_chunk - at) * dtype.size())?;
                    write_run(out, array, dtype, run)?;
                    at = run.in_chunk + run.length;
                }
                write_zeros(out, (num_elements(chunks) - at) * dtype.size())
            })
        })?;
    }
    Ok(())
}

/// A function that returns the part of an array within ranges of its dimensions.
pub type ReadPart<'a, E> = dyn FnMut(&[Range<usize>]) -> Result<Array, E> + 'a;

/// Like [`write()`], for an array that `read` returns chunk by chunk, so that the whole array is
/// never in memory.
pub fn write_parts<S: Sink, E: From<S::Error>>(
    sink: &S,
    layout: &ArrayLayout<'_>,
    read: &mut ReadPart<'_, E>,
) -> Result<(), E> {
    let &ArrayLayout { dtype, shape, chunks, compression } = layout;
    layout.write_metadata(sink)?;
    for part in parts(shape, chunks) {
        let index: Vec<usize> =
            part.iter().zip(chunks).map(|(range, size)| range.start / size).collect();
        let name = v2::KEYS.file_name(&index);
        let chunk = read(&part)?;
        let length = part.iter().map(Range::len).product();
        sink.file(&name, &mut |out| {
            compression.encode(out, &mut |out| {
                write_run(out, chunk.view(), dtype, Run { in_part: 0, in_chunk: 0, length })
            })
        })?;
    }
    Ok(())
}

fn write_zeros(out: &mut dyn Write, bytes: usize) -> io::Result<()> {
    io::copy(&mut io::repeat(0).take(bytes as u64), out).map(drop)
}

fn write_run(out: &mut dyn Write, array: ArrayView<'_>, dtype: DType, run: Run) -> io::Result<()> {
    let element_bytes = array.dtype.size();
    let start = run.in_part * element_bytes;
    let bytes = &array.data[start..start + run.length * element_bytes];
    if dtype == array.dtype {
        return out.write_all(bytes);
    }
    let mut parts = bytes.chunks(CAST_ELEMENTS * element_bytes);
    parts.try_for_each(|part| out.write_all(&cast_floats(part, array.dtype, dtype)))
}
