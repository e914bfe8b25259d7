//! The bytes of a file, decompressed as its first bytes say: gzip, zstd, and zlib for TFRecords.

use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;

use super::gzip::{Gzip, Restart, Restarts};
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

/// The bytes of a file, decompressed.
pub(super) struct Decoded {
    reader: Box<dyn BufRead + Send>,
    restarts: Restarts,
}

impl Decoded {
    fn new(reader: impl BufRead + Send + 'static) -> Self {
        Self { reader: Box::new(reader), restarts: Restarts::default() }
    }

    /// Where decompressing can begin to reach a position, none of which lies before the one asked
    /// for last; `None` where it has to begin at the beginning, or nothing is compressed.
    pub(super) fn restart(&self, position: RecordPosition) -> Option<Arc<Restart>> {
        self.restarts.before(position.bytes)
    }
}

impl Read for Decoded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

impl BufRead for Decoded {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.reader.consume(count);
    }
}

/// Opens a file at a position in its uncompressed bytes, which may lie behind a restart.
pub(super) fn open_decoded(
    path: &Path,
    position: RecordPosition,
    restart: Option<&Arc<Restart>>,
    compression_of: fn(&[u8]) -> Compression,
) -> Result<Decoded, DataError> {
    let broken = |source| read_error(path, position, source);
    // Remote files are checked for changes by storage, and asking for a size costs a request.
    let size = path.local().is_ok().then(|| path.size()).transpose()?;
    let first = (position.bytes > 0).then(|| path.read_range(0..PROBE as u64).ok()).flatten();
    // Opening a remote file at its beginning would fetch more of it than these few bytes.
    match (first.map(|first| compression_of(&first)), restart) {
        (Some(Compression::Plain), _) => {
            return Ok(Decoded::new(buffered(open_behind(path, size, position.bytes)?)));
        }
        (Some(Compression::Gzip), Some(restart)) if restart.offset() <= position.bytes => {
            let file = open_behind(path, size, restart.byte())?;
            let gzip = Gzip::restart(file, restart).map_err(broken)?;
            let restarts = gzip.restarts();
            let reader = Decoded { reader: Box::new(gzip), restarts };
            return skipped(path, reader, position, position.bytes - restart.offset());
        }
        _ => {}
    }
    let mut file: Box<dyn Read + Send> = path.open()?;
    let mut first = Vec::with_capacity(PROBE);
    file.by_ref().take(PROBE as u64).read_to_end(&mut first).map_err(broken)?;
    let compression = compression_of(&first);
    let whole = Whole { inner: Box::new(Cursor::new(first).chain(file)), left: size };
    let reader = match compression {
        Compression::Plain => Decoded::new(buffered(whole)),
        Compression::Gzip => {
            let gzip = Gzip::new(whole);
            let restarts = gzip.restarts();
            Decoded { reader: Box::new(gzip), restarts }
        }
        Compression::Zlib => Decoded::new(buffered(ZlibReader::new(buffered(whole)))),
        Compression::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(buffered(whole));
            let mut decoder = decoder.map_err(broken)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(broken)?;
            Decoded::new(buffered(decoder))
        }
    };
    skipped(path, reader, position, position.bytes)
}

/// Opens a file behind so many of its bytes.
fn open_behind(path: &Path, size: Option<u64>, bytes: u64) -> Result<Whole, DataError> {
    if size.is_some_and(|size| size < bytes) {
        return Err(shorter(path));
    }
    Ok(Whole { inner: path.open_at(bytes)?, left: size.map(|size| size - bytes) })
}

/// Passes over the bytes before a position.
fn skipped(
    path: &Path,
    mut reader: Decoded,
    position: RecordPosition,
    count: u64,
) -> Result<Decoded, DataError> {
    let passed = io::copy(&mut reader.by_ref().take(count), &mut io::sink());
    match passed.map_err(|source| read_error(path, position, source))? < count {
        true => Err(shorter(path)),
        false => Ok(reader),
    }
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

fn buffered<R: Read>(reader: R) -> BufReader<R> {
    BufReader::with_capacity(BUFFER_SIZE, reader)
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
