//! From an array to a folder.

use std::io::{self, Write};
use std::ops::Range;

use super::chunks::{Run, chunks_of, indices, parts, runs};
use super::codec::Compression;
use super::v2;
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

/// How an array is stored.
pub struct Layout<'a> {
    /// The type to which floats are rounded.
    pub dtype: DType,
    /// The chunks, which divide the array evenly.
    pub chunks: &'a [usize],
    pub compression: Compression,
}

/// Writes an array.
pub fn write<S: Sink>(sink: &S, array: ArrayView<'_>, layout: &Layout<'_>) -> Result<(), S::Error> {
    let &Layout { dtype, chunks, compression } = layout;
    let text = v2::to_text(dtype, array.shape, chunks, compression);
    sink.file(v2::FILE_NAME, &mut |out| out.write_all(&text))?;
    let all: Vec<Range<usize>> = array.shape.iter().map(|&size| 0..size).collect();
    for index in indices(chunks_of(&all, chunks)) {
        sink.file(&v2::KEYS.file_name(&index), &mut |out| {
            compression.encode(out, &mut |out| {
                let mut runs = runs(&all, chunks, &index);
                runs.try_for_each(|run| write_run(out, array, dtype, run))
            })
        })?;
    }
    Ok(())
}

/// What yields the part of an array that lies in ranges of its dimensions.
pub type ReadPart<'a, E> = dyn FnMut(&[Range<usize>]) -> Result<Array, E> + 'a;

/// As [`write`], of an array that `read` yields chunk by chunk, so that it is never held as a whole.
pub fn write_parts<S: Sink, E: From<S::Error>>(
    sink: &S,
    shape: &[usize],
    layout: &Layout<'_>,
    read: &mut ReadPart<'_, E>,
) -> Result<(), E> {
    let &Layout { dtype, chunks, compression } = layout;
    let text = v2::to_text(dtype, shape, chunks, compression);
    sink.file(v2::FILE_NAME, &mut |out| out.write_all(&text))?;
    for part in parts(shape, chunks) {
        let chunk = read(&part)?;
        let index: Vec<usize> =
            part.iter().zip(chunks).map(|(range, size)| range.start / size).collect();
        let length = part.iter().map(Range::len).product();
        sink.file(&v2::KEYS.file_name(&index), &mut |out| {
            compression.encode(out, &mut |out| {
                write_run(out, chunk.view(), dtype, Run { in_part: 0, in_chunk: 0, length })
            })
        })?;
    }
    Ok(())
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
