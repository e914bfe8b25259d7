//! The decompressed bytes of a file, with the format found from its first bytes: gzip, zstd, and
//! zlib for TFRecords.

use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;

use super::gzip::{Gzip, Wrapping};
use super::restart::{Restart, Restarts};
use super::zstandard::{Zstd, is_zstd};
use super::{RecordPosition, read_error, shorter};
use crate::error::DataError;
use gimlet_storage::Path;

const BUFFER_SIZE: usize = 256 << 10;
/// Number of bytes from which the compression ratio is estimated.
const EXPANSION_PROBE: u64 = 1 << 20;
/// Number of bytes that identify the compression.
pub(super) const PROBE: usize = 12;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Plain,
    Gzip,
    Zstd,
    Zlib,
}

impl Compression {
    /// The compression of a file of text, found from its first bytes.
    pub(super) fn of_text(first: &[u8]) -> Self {
        if first.starts_with(&GZIP_MAGIC) {
            Self::Gzip
        } else if is_zstd(first) {
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
    pub(super) fn new(reader: impl BufRead + Send + 'static) -> Self {
        Self { reader: Box::new(reader), restarts: Restarts::default() }
    }

    fn of_gzip(gzip: Gzip<Whole>) -> Self {
        let restarts = gzip.restarts();
        Self { reader: Box::new(gzip), restarts }
    }

    fn of_zstd(zstd: Zstd<Whole>) -> Self {
        let restarts = zstd.restarts();
        Self { reader: Box::new(zstd), restarts }
    }

    /// The last restart from which decompression can reach a position after all bytes taken; `None`
    /// if decompression has to start at the beginning, or the file is not compressed.
    pub(super) fn restart(&self, position: RecordPosition) -> Option<Arc<Restart>> {
        self.restarts.last().filter(|restart| restart.offset() <= position.bytes)
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

/// Opens a file at a position in its uncompressed bytes, which may be after a restart.
pub(super) fn open_decoded(
    path: &Path,
    position: RecordPosition,
    restart: Option<&Arc<Restart>>,
    compression_of: fn(&[u8]) -> Compression,
) -> Result<Decoded, DataError> {
    let broken = |source| read_error(path, position, source);
    // Storage checks remote files for changes, and getting their size costs a request.
    let size = path.local().is_ok().then(|| path.size()).transpose()?;
    let first = (position.bytes > 0).then(|| path.read_range(0..PROBE as u64).ok()).flatten();
    // Opening a remote file at its beginning would fetch more of it than these few bytes.
    match first.map(|first| compression_of(&first)) {
        Some(Compression::Plain) => {
            return Ok(Decoded::new(buffered(open_behind(path, size, position.bytes)?)));
        }
        Some(compression) => {
            let reader = open_at_restart(path, size, position, (compression, restart))?;
            if let Some(reader) = reader {
                return Ok(reader);
            }
        }
        None => {}
    }
    let mut file: Box<dyn Read + Send> = path.open()?;
    let mut first = Vec::with_capacity(PROBE);
    file.by_ref().take(PROBE as u64).read_to_end(&mut first).map_err(broken)?;
    let compression = compression_of(&first);
    let whole = Whole { inner: Box::new(Cursor::new(first).chain(file)), left: size };
    let reader = match compression {
        Compression::Plain => Decoded::new(buffered(whole)),
        Compression::Gzip => Decoded::of_gzip(Gzip::new(whole, Wrapping::Gzip)),
        Compression::Zlib => Decoded::of_gzip(Gzip::new(whole, Wrapping::Zlib)),
        Compression::Zstd => Decoded::of_zstd(Zstd::new(whole).map_err(broken)?),
    };
    skipped(path, reader, position, position.bytes)
}

/// Opens a compressed file at a position after a restart; `None` if the restart cannot be used.
fn open_at_restart(
    path: &Path,
    size: Option<u64>,
    position: RecordPosition,
    (compression, restart): (Compression, Option<&Arc<Restart>>),
) -> Result<Option<Decoded>, DataError> {
    let within = |restart: &&Arc<Restart>| {
        restart.offset() <= position.bytes && size.is_none_or(|size| restart.byte() < size)
    };
    let Some(restart) = restart.filter(within) else { return Ok(None) };
    let file = open_behind(path, size, restart.byte())?;
    let gzip = |file, wrapping| {
        let gzip = Gzip::restart(file, wrapping, restart)?;
        Ok(gzip.map(Decoded::of_gzip))
    };
    let reader = match compression {
        Compression::Plain => return Ok(None),
        Compression::Gzip => gzip(file, Wrapping::Gzip),
        Compression::Zlib => gzip(file, Wrapping::Zlib),
        Compression::Zstd => Zstd::restart(file, restart).map(|zstd| zstd.map(Decoded::of_zstd)),
    };
    let reader = reader.map_err(|source| read_error(path, position, source))?;
    let count = position.bytes - restart.offset();
    reader.map(|reader| skipped(path, reader, position, count)).transpose()
}

/// Opens a file after its first `bytes` bytes.
fn open_behind(path: &Path, size: Option<u64>, bytes: u64) -> Result<Whole, DataError> {
    if size.is_some_and(|size| size < bytes) {
        return Err(shorter(path));
    }
    Ok(Whole { inner: path.open_at(bytes)?, left: size.map(|size| size - bytes) })
}

/// Skips the bytes before a position.
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

/// Number of decompressed bytes for each byte of the file, estimated from its beginning: 1 if the
/// file is not compressed.
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
    // Decompression ends, with or without an error, at the end of the probe.
    while let Ok(count @ 1..) = decoder.read(&mut buffer) {
        decoded += count;
    }
    Ok((decoded as f64 / length).max(1.0))
}

fn buffered<R: Read>(reader: R) -> BufReader<R> {
    BufReader::with_capacity(BUFFER_SIZE, reader)
}

/// Detects a file that ends before the size it had when it was opened.
struct Whole {
    inner: Box<dyn Read + Send>,
    /// Number of bytes that must follow, if known.
    left: Option<u64>,
}

impl Read for Whole {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let found = self.inner.read(buffer)?;
        if let Some(left) = &mut self.left {
            if found == 0 && !buffer.is_empty() && *left > 0 {
                let reason = format!("the file shrank while it was read: {left} bytes are gone");
                // The error is not of the kind for a partly written file: the file had these
                // records.
                return Err(io::Error::other(reason));
            }
            // A file that grows is read to its new end.
            *left = left.saturating_sub(found as u64);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression as Level;
    use flate2::write::ZlibEncoder;

    use super::super::testing::{file, gzip};
    use super::*;

    /// All bytes after a position.
    fn rest(path: &Path, bytes: u64, restart: Option<&Arc<Restart>>) -> Result<Vec<u8>, String> {
        let position = RecordPosition { bytes, ..RecordPosition::default() };
        let mut reader = open_decoded(path, position, restart, Compression::of_text)
            .map_err(|error| error.to_string())?;
        let mut text = Vec::new();
        reader.read_to_end(&mut text).map_err(|error| error.to_string())?;
        Ok(text)
    }

    #[test]
    fn each_compression_is_read_on_from_a_restart() {
        let line = |i: u32| format!("line {i} of {}\n", i.wrapping_mul(0x9e37_79b9) >> 12);
        let text = (0..600_000).map(line).collect::<String>().into_bytes();
        let mut zlib = ZlibEncoder::new(Vec::new(), Level::new(1));
        zlib.write_all(&text).unwrap();
        let taken = text.len() as u64 - 1000;
        let position = RecordPosition { bytes: taken, ..RecordPosition::default() };
        let of_text: fn(&[u8]) -> Compression = Compression::of_text;
        for (compression_of, bytes) in [
            (of_text, gzip(&text, 1)),
            (of_text, zstd::encode_all(&text[..], 1).unwrap()),
            (|_| Compression::Zlib, zlib.finish().unwrap()),
        ] {
            let (_dir, path) = file(&bytes);
            let open = |at, restart: Option<&Arc<Restart>>| {
                open_decoded(&path, at, restart, compression_of).unwrap()
            };
            let mut reader = open(RecordPosition::default(), None);
            io::copy(&mut reader.by_ref().take(taken), &mut io::sink()).unwrap();
            let restart = reader.restart(position).expect("one is noted every few megabytes");
            // The bytes before the restart are not read.
            let mut damaged = bytes.clone();
            damaged[500..600].fill(0);
            path.write_atomic(&damaged).unwrap();
            let mut found = Vec::new();
            open(position, Some(&restart)).read_to_end(&mut found).unwrap();
            assert!(found == text[taken as usize..], "{:?}", compression_of(&bytes));
        }
    }

    #[test]
    fn a_restart_serves_the_file_that_it_was_noted_in() {
        let line = |i: u32| format!("line {i} of {}\n", i.wrapping_mul(0x9e37_79b9) >> 12);
        let text = (0..400_000).map(line).collect::<String>().into_bytes();
        let bytes = gzip(&text, 1);
        let (_dir, path) = file(&bytes);
        let start = RecordPosition::default();
        let mut reader = open_decoded(&path, start, None, Compression::of_text).unwrap();
        let taken = text.len() as u64 - 1000;
        io::copy(&mut reader.by_ref().take(taken), &mut io::sink()).unwrap();
        let position = RecordPosition { bytes: taken, ..start };
        let restart = reader.restart(position).unwrap();
        let expected = &text[taken as usize..];
        assert!(rest(&path, taken, Some(&restart)).unwrap() == expected);
        // The bytes before the restart are not read.
        let mut damaged = bytes.clone();
        damaged[500..600].fill(0);
        path.write_atomic(&damaged).unwrap();
        assert!(rest(&path, taken, Some(&restart)).unwrap() == expected);
        assert!(rest(&path, taken, None).is_err());
        // The same text, compressed differently, also to a file that ends before the restart.
        let anew = [gzip(&text, 2), gzip(&text, 9), [gzip(b"", 6), bytes.clone()].concat()];
        assert!(anew[1].len() < restart.byte() as usize);
        for bytes in anew {
            path.write_atomic(&bytes).unwrap();
            assert!(rest(&path, taken, Some(&restart)).unwrap() == expected);
        }
        // A restart saved by an older version: without a checksum of the file, it is not used.
        path.write_atomic(&damaged).unwrap();
        let mut saved = serde_json::to_value(&*restart).unwrap();
        saved.as_object_mut().unwrap().remove("ahead").unwrap();
        let former = Arc::new(serde_json::from_value(saved).unwrap());
        assert!(rest(&path, taken, Some(&former)).is_err());
        path.write_atomic(&bytes).unwrap();
        assert!(rest(&path, taken, Some(&former)).unwrap() == expected);
    }
}
