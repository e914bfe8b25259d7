//! From a folder to an array.

use std::io::{self, Read};

use flate2::read::{GzDecoder, ZlibDecoder};

use super::chunks::{Run, indices, runs};
use super::metadata::{Compressor, FILE_NAME, Metadata, Refusal};
use crate::checkpoint::array::{Array, DType, num_elements};
use crate::checkpoint::error::CheckpointError;
use crate::storage::{Path, StorageError};

/// Reads a whole array; `checkpoint` is named in errors.
pub fn read(
    checkpoint: &Path,
    dir: &Path,
    expected: (DType, &[usize]),
) -> Result<Array, CheckpointError> {
    let metadata = metadata(checkpoint, dir, expected)?;
    let element_bytes = metadata.dtype.size();
    let mut data = vec![0; num_elements(&metadata.shape) * element_bytes];
    let mut chunk = Vec::new();
    for index in indices(&metadata.shape, &metadata.chunks) {
        let file = dir.join(&metadata.chunk_name(&index));
        let runs = runs(&metadata.shape, &metadata.chunks, &index);
        let source = match file.open() {
            Ok(source) => source,
            Err(error) if error.is_not_found() => {
                fill(checkpoint, &file, &metadata, &runs, &mut data)?;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let read = match runs[..] {
            [run] if run.length * element_bytes == metadata.chunk_bytes() => {
                let start = run.in_array * element_bytes;
                let place = &mut data[start..start + metadata.chunk_bytes()];
                decompress(source, metadata.compressor, place)
            }
            _ => {
                chunk.resize(metadata.chunk_bytes(), 0);
                let read = decompress(source, metadata.compressor, &mut chunk);
                scatter(&chunk, &runs, element_bytes, &mut data);
                read
            }
        };
        read.map_err(|error| chunk_error(checkpoint, &file, error))?;
    }
    Ok(Array { dtype: metadata.dtype, shape: metadata.shape, data })
}

fn metadata(
    checkpoint: &Path,
    dir: &Path,
    (dtype, shape): (DType, &[usize]),
) -> Result<Metadata, CheckpointError> {
    let file = dir.join(FILE_NAME);
    let text = match file.read() {
        Err(error) if error.is_not_found() => return Err(missing(checkpoint, &file)),
        other => other?,
    };
    let name = relative(checkpoint, dir);
    let metadata = Metadata::parse(&text).map_err(|refusal| match refusal {
        Refusal::Damaged(reason) => {
            CheckpointError::damaged(checkpoint, format!("`{name}`: {reason}"))
        }
        Refusal::Unsupported(reason) => CheckpointError::Unsupported {
            path: checkpoint.to_string(),
            reason: format!("`{name}`: {reason}"),
        },
    })?;
    if (metadata.dtype, &metadata.shape[..]) != (dtype, shape) {
        let reason = format!(
            "`{name}` holds {} {:?}, but the file `checkpoint` says {dtype} {shape:?}",
            metadata.dtype, metadata.shape
        );
        return Err(CheckpointError::damaged(checkpoint, reason));
    }
    Ok(metadata)
}

/// Decompresses exactly as many bytes as fit; the end of the stream holds its checksum.
fn decompress(
    source: Box<dyn Read + Send>,
    compressor: Compressor,
    place: &mut [u8],
) -> io::Result<()> {
    let source = io::BufReader::with_capacity(1 << 18, source);
    let mut stream: Box<dyn Read> = match compressor {
        Compressor::None => Box::new(source),
        // Not `MultiGzDecoder`: what follows the first member is no part of a chunk.
        Compressor::Gzip => Box::new(GzDecoder::new(source)),
        Compressor::Zlib => Box::new(ZlibDecoder::new(source)),
    };
    stream.read_exact(place)?;
    match stream.read(&mut [0])? {
        0 => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "it holds too many bytes")),
    }
}

fn scatter(chunk: &[u8], runs: &[Run], element_bytes: usize, data: &mut [u8]) {
    for run in runs {
        let [from, to, length] =
            [run.in_chunk, run.in_array, run.length].map(|elements| elements * element_bytes);
        data[to..to + length].copy_from_slice(&chunk[from..from + length]);
    }
}

/// Stands in for a chunk that a foreign writer left out because it holds only the fill value.
fn fill(
    checkpoint: &Path,
    file: &Path,
    metadata: &Metadata,
    runs: &[Run],
    data: &mut [u8],
) -> Result<(), CheckpointError> {
    let element = metadata.fill.as_ref().ok_or_else(|| missing(checkpoint, file))?;
    let element_bytes = element.len();
    for run in runs {
        let start = run.in_array * element_bytes;
        let place = &mut data[start..start + run.length * element_bytes];
        place.chunks_exact_mut(element_bytes).for_each(|bytes| bytes.copy_from_slice(element));
    }
    Ok(())
}

/// Decoders report damage as invalid input or an early end; the rest is the disk's fault.
fn chunk_error(checkpoint: &Path, file: &Path, error: io::Error) -> CheckpointError {
    let name = relative(checkpoint, file);
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            CheckpointError::damaged(checkpoint, format!("`{name}` is truncated"))
        }
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            CheckpointError::damaged(checkpoint, format!("`{name}` is corrupt: {error}"))
        }
        _ => StorageError::new("read", file, error).into(),
    }
}

fn missing(checkpoint: &Path, file: &Path) -> CheckpointError {
    CheckpointError::damaged(checkpoint, format!("`{}` is missing", relative(checkpoint, file)))
}

fn relative<'a>(checkpoint: &Path, file: &'a Path) -> &'a str {
    let name = file.as_str();
    name.strip_prefix(checkpoint.as_str()).map_or(name, |rest| rest.trim_start_matches('/'))
}
