//! The bytes of a file, decompressed as its first bytes say: gzip, zstd, and zlib for TFRecords.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;

use super::zlib::ZlibReader;
use super::{RecordPosition, read_error, shorter};
use crate::data::error::DataError;
use crate::storage::Path;

const BUFFER_SIZE: usize = 256 << 10;
/// Bytes that tell how well a file is compressed.
const EXPANSION_PROBE: u64 = 1 << 20;
/// Bytes that tell the compression.
const PROBE: usize = 12;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The largest window that zstd's `--long` makes.
const ZSTD_WINDOW_LOG: u32 = 31;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Plain,
    Gzip,
    Zstd,
    Zlib,
}

impl Compression {
    /// What the first bytes of a file of text say.
    pub(super) fn of_text(first: &[u8]) -> Self {
        if first.starts_with(&GZIP_MAGIC) {
            Self::Gzip
        } else if first.starts_with(&ZSTD_MAGIC) {
            Self::Zstd
        } else {
            Self::Plain
        }
    }
}

/// Opens a file at a position in its uncompressed bytes.
pub(super) fn open_decoded(
    path: &Path,
    position: RecordPosition,
    compression_of: fn(&[u8]) -> Compression,
) -> Result<Box<dyn BufRead + Send>, DataError> {
    let broken = |source| read_error(path, position, source);
    // Remote files are checked for changes by storage, and asking for a size costs a request.
    let size = path.local().is_ok().then(|| path.size()).transpose()?;
    if position.bytes > 0
        && let Ok(first) = path.read_range(0..PROBE as u64)
        && compression_of(&first) == Compression::Plain
    {
        // Opening a remote file at its beginning would fetch more of it than these few bytes.
        if size.is_some_and(|size| size < position.bytes) {
            return Err(shorter(path));
        }
        let left = size.map(|size| size - position.bytes);
        return Ok(buffered(Whole { inner: path.open_at(position.bytes)?, left }));
    }
    let mut file: Box<dyn Read + Send> = path.open()?;
    let mut first = Vec::with_capacity(PROBE);
    file.by_ref().take(PROBE as u64).read_to_end(&mut first).map_err(broken)?;
    let compression = compression_of(&first);
    let whole = buffered(Whole { inner: Box::new(Cursor::new(first).chain(file)), left: size });
    let mut reader = match compression {
        Compression::Plain => whole,
        Compression::Gzip => buffered(MultiGzDecoder::new(whole)),
        Compression::Zlib => buffered(ZlibReader::new(whole)),
        Compression::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(whole).map_err(broken)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(broken)?;
            buffered(decoder)
        }
    };
    let skipped = io::copy(&mut reader.by_ref().take(position.bytes), &mut io::sink());
    if skipped.map_err(broken)? < position.bytes {
        return Err(shorter(path));
    }
    Ok(reader)
}

/// How many bytes a byte of the file becomes, judged by its beginning: 1 where it is not compressed.
pub(crate) fn expansion(path: &Path) -> Result<f64, DataError> {
    let head = path.read_range(0..path.size()?.min(EXPANSION_PROBE))?;
    let length = head.len() as f64;
    let mut decoder: Box<dyn Read> = match Compression::of_text(&head) {
        Compression::Plain | Compression::Zlib => return Ok(1.0),
        Compression::Gzip => Box::new(MultiGzDecoder::new(Cursor::new(head))),
        Compression::Zstd => match zstd::stream::read::Decoder::with_buffer(Cursor::new(head)) {
            Ok(decoder) => Box::new(decoder),
            Err(_) => return Ok(1.0),
        },
    };
    let mut buffer = vec![0; BUFFER_SIZE];
    let mut decoded = 0;
    // It ends, with or without an error, where the beginning is cut.
    while let Ok(count @ 1..) = decoder.read(&mut buffer) {
        decoded += count;
    }
    Ok((decoded as f64 / length).max(1.0))
}

fn buffered(reader: impl Read + Send + 'static) -> Box<dyn BufRead + Send> {
    Box::new(BufReader::with_capacity(BUFFER_SIZE, reader))
}

/// Notices a file that ends before its size when it was opened.
struct Whole {
    inner: Box<dyn Read + Send>,
    /// Bytes that must still come, where known.
    left: Option<u64>,
}

impl Read for Whole {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let found = self.inner.read(buffer)?;
        if let Some(left) = &mut self.left {
            if found == 0 && !buffer.is_empty() && *left > 0 {
                let reason = format!("the file shrank while it was read: {left} bytes are gone");
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason));
            }
            // A file that grows is read to its new end.
            *left = left.saturating_sub(found as u64);
        }
        Ok(found)
    }
}
