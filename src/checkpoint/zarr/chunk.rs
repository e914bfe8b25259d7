//! Reads the file of a chunk and copies the elements that lie in a part of the array.

use std::io;

use super::chunks::{Run, fill_run, indices};
use super::codec::decoded;
use super::files::FileRange;
use super::read::Zarr;
use super::room::ROOM;
use super::stream::ChunkStream;
use crate::array::num_elements;
use crate::error::CheckpointError;

/// Number of bytes allocated for a chunk before its bytes are read.
const RESERVED_BYTES: usize = 16 << 20;

impl Zarr<'_> {
    /// Copies the elements that the chunk and the part share into `data`.
    pub(super) fn read_chunk(
        &self,
        index: &[usize],
        place: &FileRange,
        runs: impl Iterator<Item = Run>,
        data: &mut [u8],
    ) -> Result<(), CheckpointError> {
        let name = self.metadata.keys.file_name(index);
        let mut runs = runs.peekable();
        let first = runs.peek().expect("a chunk that is read shares elements").in_chunk;
        let shown = self.files.shown(&name);
        let first_byte = first * self.metadata.dtype.size();
        let begun = self.begun.and_then(|begun| begun.take(&shown, first_byte));
        // Memory for the packed and the unpacked bytes.
        let whole_bytes = self.metadata.chunk_bytes().saturating_mul(2);
        let _held = self.metadata.unpacks_whole_chunks().then(|| ROOM.hold(whole_bytes));
        let stream = match begun {
            Some(stream) => Some(stream),
            None => self.open_chunk(index, place)?,
        };
        let Some(stream) = stream else {
            let fill = self.metadata.fill.as_ref().ok_or_else(|| self.missing(index))?;
            runs.for_each(|run| fill_run(run, fill, data));
            return Ok(());
        };
        let copied = match &self.metadata.order {
            None => self.copy_runs(index, stream, runs, data),
            Some(order) => self.copy_reordered(order, stream, runs, data),
        };
        copied.map_err(|error| self.read_error(&name, error))
    }

    /// Opens the unpacked bytes of a chunk; `None` if the chunk has no file.
    fn open_chunk(
        &self,
        index: &[usize],
        place: &FileRange,
    ) -> Result<Option<ChunkStream>, CheckpointError> {
        let name = self.metadata.keys.file_name(index);
        let source = match place.open() {
            Ok(source) => source,
            Err(error)
                if error.is_not_found()
                    && matches!(place, FileRange::File(_) | FileRange::Checked { .. }) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(self.place_error(&name, error)),
        };
        let stream = decoded(source, &self.metadata.codecs, self.metadata.chunk_bytes());
        Ok(Some(ChunkStream::new(stream.map_err(|error| self.read_error(&name, error))?)))
    }

    /// Copies runs from a chunk in C order while it is unpacked, without holding the chunk. The
    /// stream is read to its end unless more parts follow and it is kept for them.
    fn copy_runs(
        &self,
        index: &[usize],
        mut stream: ChunkStream,
        runs: impl Iterator<Item = Run>,
        data: &mut [u8],
    ) -> io::Result<()> {
        let element_bytes = self.metadata.dtype.size();
        for run in runs {
            let [from, to, length] =
                [run.in_chunk, run.in_part, run.length].map(|elements| elements * element_bytes);
            stream.read_at(from, &mut data[to..to + length])?;
        }
        let chunk_bytes = self.metadata.chunk_bytes();
        let has_more = stream.at() < self.metadata.elements_end(index) * element_bytes;
        let stream = match self.begun {
            Some(begun) if has_more && !self.metadata.unpacks_whole_chunks() => {
                let name = self.files.shown(&self.metadata.keys.file_name(index));
                begun.keep(name, stream, chunk_bytes)
            }
            _ => Some(stream),
        };
        stream.map_or(Ok(()), |stream| stream.finish(chunk_bytes))
    }

    /// Copies runs from a chunk in another order, which must be loaded completely.
    fn copy_reordered(
        &self,
        order: &[usize],
        mut stream: ChunkStream,
        runs: impl Iterator<Item = Run>,
        data: &mut [u8],
    ) -> io::Result<()> {
        let (chunk_bytes, element_bytes) =
            (self.metadata.chunk_bytes(), self.metadata.dtype.size());
        // The buffer grows with the bytes found, not with the claimed size.
        let mut stored = Vec::new();
        while stored.len() < chunk_bytes {
            let (start, end) = (stored.len(), chunk_bytes.min(stored.len() + RESERVED_BYTES));
            stored.resize(end, 0);
            stream.read_at(start, &mut stored[start..])?;
        }
        stream.finish(chunk_bytes)?;
        let chunk = in_c_order(&stored, &self.metadata.chunks, order, element_bytes);
        for run in runs {
            let [from, to, length] =
                [run.in_chunk, run.in_part, run.length].map(|elements| elements * element_bytes);
            data[to..to + length].copy_from_slice(&chunk[from..from + length]);
        }
        Ok(())
    }
}

/// Reorders a chunk whose dimension `i` is dimension `order[i]` of the array to the array's order.
fn in_c_order(stored: &[u8], chunks: &[usize], order: &[usize], element_bytes: usize) -> Vec<u8> {
    let Some((last, outer)) = order.split_last() else { return stored.to_vec() };
    // The distance in the array's order between neighbours in each dimension.
    let stride = |dimension: usize| num_elements(&chunks[dimension + 1..]) * element_bytes;
    let mut out = vec![0; stored.len()];
    let rows = indices(outer.iter().map(|&dimension| 0..chunks[dimension]).collect());
    for (index, row) in rows.zip(stored.chunks_exact(chunks[*last] * element_bytes)) {
        let start: usize =
            index.iter().zip(outer).map(|(i, dimension)| i * stride(*dimension)).sum();
        for (i, element) in row.chunks_exact(element_bytes).enumerate() {
            let at = start + i * stride(*last);
            out[at..at + element_bytes].copy_from_slice(element);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::Arc;

    use super::super::{Begun, Files, Metadata};
    use super::*;
    use gimlet_storage::Path;

    /// An array of one chunk, in memory.
    struct OneChunk {
        bytes: Arc<[u8]>,
    }

    impl Files for OneChunk {
        fn place(&self, _: &str) -> Option<FileRange> {
            Some(FileRange::Inline(self.bytes.clone()))
        }

        fn shown(&self, name: &str) -> String {
            format!("a/{name}")
        }
    }

    const METADATA: &str = r#"{"zarr_format": 2, "shape": [5, 3], "chunks": [6, 4], "dtype": "<i2",
        "compressor": null, "order": "C", "filters": null, "fill_value": 0}"#;

    /// The numbers of a padded chunk of [6, 4], packed as the metadata say; the array's numbers are
    /// `10 * row + column`.
    fn one_chunk(order: &str) -> (Metadata, OneChunk) {
        let text = METADATA.replace("\"C\"", order);
        let metadata = Metadata::parse(Metadata::FILES[0], text.as_bytes()).unwrap();
        let number = |at: i16| match order {
            "\"C\"" => 10 * (at / 4) + at % 4,
            _ => 10 * (at % 6) + at / 6,
        };
        let bytes = (0..24).flat_map(|at| number(at).to_le_bytes()).collect();
        (metadata, OneChunk { bytes })
    }

    fn read(zarr: &Zarr<'_>, part: &[Range<usize>]) {
        let array = zarr.read_part(part).unwrap();
        let found: Vec<i16> =
            array.data.chunks(2).map(|bytes| i16::from_le_bytes([bytes[0], bytes[1]])).collect();
        let row = |row: usize| part[1].clone().map(move |column| (10 * row + column) as i16);
        assert_eq!(found, part[0].clone().flat_map(row).collect::<Vec<_>>(), "{part:?}");
    }

    #[test]
    fn blocks_of_rows_and_of_columns_come_out_of_one_large_chunk() {
        let checkpoint = Path::parse("c").unwrap();
        for order in ["\"C\"", "\"F\""] {
            for begun in [None, Some(Begun::new(1)), Some(Begun::new(1_000))] {
                let (metadata, files) = one_chunk(order);
                let zarr = Zarr {
                    checkpoint: &checkpoint,
                    files: &files,
                    metadata: &metadata,
                    begun: begun.as_ref(),
                };
                for part in [[0..2, 0..3], [2..3, 0..3], [3..5, 0..3], [0..5, 0..1], [0..5, 1..3]] {
                    read(&zarr, &part);
                }
                read(&zarr, &[2..3, 1..2]);
            }
        }
    }

    #[test]
    fn rows_that_follow_each_other_go_on_in_the_chunk_and_its_end_is_checked() {
        let checkpoint = Path::parse("c").unwrap();
        let (metadata, mut files) = one_chunk("\"C\"");
        // The file ends in the padding, which belongs to no row.
        files.bytes = files.bytes[..47].into();
        let begun = Begun::new(1);
        let zarr = Zarr {
            checkpoint: &checkpoint,
            files: &files,
            metadata: &metadata,
            begun: Some(&begun),
        };
        read(&zarr, &[0..2, 0..3]);
        // Rows that were read are not read again, so the change is not noticed.
        read(&zarr, &[2..4, 0..3]);
        let error = zarr.read_part(&[4..5, 0..3]).unwrap_err();
        assert!(error.to_string().contains("`a/0.0` is truncated"), "{error}");
        assert!(begun.take("a/0.0", usize::MAX).is_none(), "nothing is left of it");
    }
}
