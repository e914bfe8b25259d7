//! Reads an array, or a part of an array, from its files.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::chunks::{chunks_of, fill_run, indices, runs};
use super::files::{FileRange, Files};
use super::metadata::{Metadata, Refusal, Shards};
use super::stream::Begun;
use crate::array::{Array, DType, num_bytes, num_elements};
use crate::error::CheckpointError;
use crate::parallel;
use gimlet_storage::{Path, StorageError};
use gimlet_telemetry::total_on_host;

/// Offset and length of a missing chunk in the index of its shard.
const ABSENT: u64 = u64::MAX;

/// A readable array: its metadata and the location of its files. `checkpoint` is named in errors.
pub struct Zarr<'a> {
    pub checkpoint: &'a Path,
    pub files: &'a dyn Files,
    pub metadata: &'a Metadata,
    /// Store of partly read chunks for later parts; `None`: such chunks are not kept.
    pub begun: Option<&'a Begun>,
}

/// Maximum size of the metadata in bytes.
const MAX_METADATA: u64 = 1 << 20;

/// Reads the metadata of an array, in the version that exists.
pub fn metadata(checkpoint: &Path, files: &dyn Files) -> Result<Metadata, CheckpointError> {
    for name in Metadata::FILES {
        let Some(place) = files.place(name) else { continue };
        let mut text = Vec::new();
        match place.open() {
            Err(error) if error.is_not_found() => continue,
            source => source?
                .take(MAX_METADATA + 1)
                .read_to_end(&mut text)
                .map_err(|error| read_error(checkpoint, &files.shown(name), error))?,
        };
        if text.len() as u64 > MAX_METADATA {
            let reason = format!("`{}` has more than {MAX_METADATA} bytes", files.shown(name));
            return Err(CheckpointError::damaged(checkpoint, reason));
        }
        let shown = files.shown("");
        let name_of = shown.trim_end_matches('/');
        return Metadata::parse(name, &text).map_err(|refusal| match refusal {
            Refusal::Damaged(reason) => {
                CheckpointError::damaged(checkpoint, format!("`{name_of}`: {reason}"))
            }
            Refusal::Unsupported(reason) => CheckpointError::Unsupported {
                path: checkpoint.to_string(),
                reason: format!("`{name_of}`: {reason}"),
            },
        });
    }
    Err(CheckpointError::damaged(
        checkpoint,
        format!("`{}` is missing", files.shown(Metadata::FILES[0])),
    ))
}

/// A file of several chunks; `None` if it is missing.
type Shard = Option<Arc<OpenShard>>;

struct OpenShard {
    place: FileRange,
    size: u64,
    /// Offset and length of each chunk.
    chunks: Vec<(u64, u64)>,
}

impl Zarr<'_> {
    /// Checks that the type and shape agree with those in another file.
    pub fn check(&self, dtype: DType, shape: &[usize]) -> Result<(), CheckpointError> {
        if (self.metadata.dtype, &self.metadata.shape[..]) == (dtype, shape) {
            return Ok(());
        }
        let reason = format!(
            "`{}` holds {} {:?}, but the file `checkpoint` says {dtype} {shape:?}",
            self.files.shown("").trim_end_matches('/'),
            self.metadata.dtype,
            self.metadata.shape
        );
        Err(CheckpointError::damaged(self.checkpoint, reason))
    }

    /// Reads the whole array.
    pub fn read(&self) -> Result<Array, CheckpointError> {
        let all: Vec<Range<usize>> = self.metadata.shape.iter().map(|&size| 0..size).collect();
        self.read_part(&all)
    }

    /// Reads the elements within these ranges of the dimensions: only chunks that share elements
    /// with the ranges are opened. Panics when a range lies outside the array.
    pub fn read_part(&self, part: &[Range<usize>]) -> Result<Array, CheckpointError> {
        let (dtype, array_shape) = (self.metadata.dtype, &self.metadata.shape);
        assert_eq!(part.len(), array_shape.len(), "one range for each dimension");
        let lies_inside = part.iter().zip(array_shape).all(|(range, size)| range.end <= *size);
        assert!(lies_inside, "{part:?} lies outside of {array_shape:?}");
        let shape: Vec<usize> = part.iter().map(Range::len).collect();
        let bytes = num_bytes(&shape, dtype).filter(|bytes| fits_memory(*bytes));
        let Some(bytes) = bytes else {
            let reason = format!("`{}` is {dtype} {shape:?}", self.files.shown(""));
            return Err(CheckpointError::Unsupported {
                path: self.checkpoint.to_string(),
                reason: format!("{reason}: more than memory can hold"),
            });
        };
        let mut data = vec![0; bytes];
        let shards = Mutex::default();
        let chunk = self.metadata.chunks.first().copied();
        let bands = Bands { part: part.to_vec(), chunk, rest: &mut data };
        let num_threads = parallel::num_threads(self.checkpoint);
        parallel::for_each(num_threads, bands, |(part, data)| {
            self.read_band(&part, data, &shards)
        })?;
        Ok(Array { dtype, shape, data })
    }

    /// Reads the chunks of one band of the part into `data`.
    fn read_band(
        &self,
        part: &[Range<usize>],
        data: &mut [u8],
        shards: &Mutex<BTreeMap<String, Shard>>,
    ) -> Result<(), CheckpointError> {
        for index in indices(chunks_of(part, &self.metadata.chunks)) {
            let runs = runs(part, &self.metadata.chunks, &index);
            match self.place(&index, shards)? {
                (_, Some(place)) => self.read_chunk(&index, &place, runs, data)?,
                (is_listed, None) => {
                    // If an index omits the chunk explicitly, the fill value may be missing.
                    let fill = self.metadata.fill.as_ref();
                    if !is_listed && fill.is_none() {
                        return Err(self.missing(&index));
                    }
                    if let Some(fill) = fill.filter(|fill| fill.iter().any(|byte| *byte != 0)) {
                        runs.for_each(|run| fill_run(run, fill, data));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the location of a chunk, `None` if it is missing, and whether an index lists it.
    fn place(
        &self,
        index: &[usize],
        shards: &Mutex<BTreeMap<String, Shard>>,
    ) -> Result<(bool, Option<FileRange>), CheckpointError> {
        let Some(layout) = &self.metadata.shards else {
            return Ok((false, self.files.place(&self.metadata.keys.file_name(index))));
        };
        let shard: Vec<usize> = index.iter().zip(&layout.counts).map(|(i, n)| i / n).collect();
        let name = self.metadata.keys.file_name(&shard);
        let known = shards.lock().expect("no holder of the shards panics").get(&name).cloned();
        let shard = match known {
            Some(shard) => shard,
            None => {
                let shard = self.shard(layout, &name)?;
                let mut shards = shards.lock().expect("no holder of the shards panics");
                shards.entry(name.clone()).or_insert(shard).clone()
            }
        };
        let Some(shard) = shard else { return Ok((false, None)) };
        let within = index.iter().zip(&layout.counts).fold(0, |at, (i, n)| at * n + i % n);
        match shard.chunks[within] {
            (ABSENT, ABSENT) => Ok((true, None)),
            (offset, length) => match shard.place.part(shard.size, offset, length) {
                Some(part) => Ok((true, Some(part))),
                None => Err(self.damaged(&name, "has a chunk beyond its end")),
            },
        }
    }

    fn shard(&self, layout: &Shards, name: &str) -> Result<Shard, CheckpointError> {
        let Some(place) = self.files.place(name) else { return Ok(None) };
        let size = match place.size() {
            Err(error) if error.is_not_found() => return Ok(None),
            size => size?,
        };
        let chunks = self.shard_index(layout, &place, size, name)?;
        Ok(Some(Arc::new(OpenShard { place, size, chunks })))
    }

    fn shard_index(
        &self,
        layout: &Shards,
        place: &FileRange,
        size: u64,
        name: &str,
    ) -> Result<Vec<(u64, u64)>, CheckpointError> {
        let entries_bytes = num_elements(&layout.counts) as u64 * 16;
        let bytes = entries_bytes + if layout.has_checksum { 4 } else { 0 };
        let start = if layout.index_at_end { size.checked_sub(bytes) } else { Some(0) };
        let part = start.and_then(|start| place.part(size, start, bytes));
        let Some(part) = part else { return Err(self.damaged(name, "is truncated")) };
        let mut index = Vec::new();
        let read = part.open().map(|mut source| source.read_to_end(&mut index));
        read.map_err(|error| self.place_error(name, error))?
            .map_err(|error| self.read_error(name, error))?;
        let Some((entries, checksum)) = index.split_at_checked(entries_bytes as usize) else {
            return Err(self.damaged(name, "is truncated"));
        };
        if layout.has_checksum && crc32c::crc32c(entries).to_le_bytes()[..] != *checksum {
            return Err(self.damaged(name, "is corrupt: the checksum of its index does not match"));
        }
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        Ok(entries
            .chunks_exact(16)
            .map(|entry| (number(&entry[..8]), number(&entry[8..])))
            .collect())
    }

    fn damaged(&self, name: &str, reason: &str) -> CheckpointError {
        let name = self.files.shown(name);
        CheckpointError::damaged(self.checkpoint, format!("`{name}` {reason}"))
    }

    pub(super) fn missing(&self, index: &[usize]) -> CheckpointError {
        self.damaged(&self.metadata.keys.file_name(index), "is missing")
    }

    /// Reports a missing or incomplete file as damage.
    pub(super) fn place_error(&self, name: &str, error: StorageError) -> CheckpointError {
        match error {
            error if error.is_not_found() => self.damaged(name, &format!("is missing: {error}")),
            StorageError::Io { ref source, .. }
                if source.kind() == io::ErrorKind::UnexpectedEof =>
            {
                self.damaged(name, &format!("is truncated: {error}"))
            }
            other => other.into(),
        }
    }

    /// Converts an error of reading a chunk; decoders report damage as invalid input or an early
    /// end.
    pub(super) fn read_error(&self, name: &str, error: io::Error) -> CheckpointError {
        read_error(self.checkpoint, &self.files.shown(name), error)
    }
}

/// Reports damage that a decoder or checksum found; other errors are errors of the disk.
fn read_error(checkpoint: &Path, file: &str, error: io::Error) -> CheckpointError {
    let damaged = |what: &str| CheckpointError::damaged(checkpoint, format!("`{file}` {what}"));
    match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("is truncated"),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            damaged(&format!("is corrupt: {error}"))
        }
        _ => StorageError::new("read", checkpoint, error).into(),
    }
}

/// Whether the machine has so much memory. Allocators promise more, which the system then ends the process for.
fn fits_memory(bytes: usize) -> bool {
    let promised = || Vec::<u8>::new().try_reserve_exact(bytes).is_ok();
    total_on_host().is_none_or(|total| bytes as u64 <= total) && promised()
}

/// Cuts a part of an array at the chunk boundaries of its first dimension, so that the bytes of
/// each band can be filled independently.
struct Bands<'d> {
    /// The remaining part.
    part: Vec<Range<usize>>,
    /// The size of chunks in the first dimension; `None` for a scalar.
    chunk: Option<usize>,
    /// The bytes of the remaining part.
    rest: &'d mut [u8],
}

impl<'d> Iterator for Bands<'d> {
    type Item = (Vec<Range<usize>>, &'d mut [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let rest = std::mem::take(&mut self.rest);
        let mut band = self.part.clone();
        let Some(chunk) = self.chunk else { return Some((band, rest)) };
        let rows = &mut self.part[0];
        let end = rows.end.min((rows.start / chunk + 1) * chunk);
        let row_bytes = rest.len() / rows.len();
        let (bytes, rest) = rest.split_at_mut(row_bytes * (end - rows.start));
        band[0].end = end;
        rows.start = end;
        self.rest = rest;
        Some((band, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files in which each shard is shorter than its index claims.
    struct Cut(Path, u64);

    impl Files for Cut {
        fn place(&self, _: &str) -> Option<FileRange> {
            Some(FileRange::Slice { file: self.0.clone(), offset: 0, length: self.1 })
        }

        fn shown(&self, name: &str) -> String {
            name.to_string()
        }
    }

    #[test]
    fn a_shard_whose_index_is_cut_is_damaged_however_large() {
        let dir = tempfile::tempdir().unwrap();
        let path = Path::try_from(dir.path()).unwrap();
        let file = path.join("data");
        file.write_atomic(&[0; 1000]).unwrap();
        for num_chunks in [100, 1_000_000] {
            let text = format!(
                r#"{{"chunk_grid":{{"configuration":{{"chunk_shape":[{num_chunks}]}},"name":"regular"}},"chunk_key_encoding":{{"name":"default"}},"codecs":[{{"configuration":{{"chunk_shape":[1],"codecs":[{{"name":"bytes"}}],"index_codecs":[{{"configuration":{{"endian":"little"}},"name":"bytes"}}]}},"name":"sharding_indexed"}}],"data_type":"int8","fill_value":0,"node_type":"array","shape":[{num_chunks}],"zarr_format":3}}"#
            );
            let Ok(metadata) = Metadata::parse("zarr.json", text.as_bytes()) else {
                panic!("the metadata are well-formed");
            };
            let files = Cut(file.clone(), num_chunks * 16 + 1);
            let zarr = Zarr { checkpoint: &path, files: &files, metadata: &metadata, begun: None };
            let error = zarr.read_part(std::slice::from_ref(&(0..1))).unwrap_err();
            assert!(error.is_damage(), "{error}");
            assert!(error.to_string().contains("is truncated"), "{error}");
        }
    }
}
