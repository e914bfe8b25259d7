//! The decompressed bytes of a file, with the format found from its first bytes: gzip, zstd, and
//! zlib for TFRecords.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use super::error::{read_error, shorter};
use super::frames::Frames;
use super::position::{FrameStart, RecordPosition};
use crate::error::DataError;
use gimlet_storage::Path;

const BUFFER_SIZE: usize = 256 << 10;
/// Number of bytes from which the compression ratio is estimated.
const EXPANSION_PROBE: u64 = 1 << 20;
/// Number of bytes that identify the compression.
pub(super) const PROBE: usize = 12;

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
        match first {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // A frame of data, or one that is skipped, with which pzstd's files begin.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ => Self::Plain,
        }
    }
}

/// The bytes of a file, decompressed.
pub(super) struct Decoded {
    file: BufReader<Box<dyn Read + Send>>,
    /// `None` if the file is not compressed.
    frames: Option<Frames>,
}

impl Decoded {
    pub(super) fn new(file: impl Read + Send + 'static, frames: Option<Frames>) -> Self {
        Self { file: BufReader::with_capacity(BUFFER_SIZE, Box::new(file)), frames }
    }

    /// A position with the start of the frame that is being read.
    pub(super) fn with_frame(&self, position: RecordPosition) -> RecordPosition {
        let frame = self.frames.as_ref().map_or_else(FrameStart::default, Frames::start);
        RecordPosition { frame, ..position }
    }
}

impl Read for Decoded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let found = self.fill_buf()?.read(buffer)?;
        self.consume(found);
        Ok(found)
    }
}

impl BufRead for Decoded {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match &mut self.frames {
            Some(frames) => frames.fill_buf(&mut self.file),
            None => self.file.fill_buf(),
        }
    }

    fn consume(&mut self, count: usize) {
        match &mut self.frames {
            Some(frames) => frames.consume(count),
            None => self.file.consume(count),
        }
    }
}

/// Opens a file at a position in its uncompressed bytes. A compressed file is decompressed from the
/// start of the position's frame.
pub(super) fn open_decoded(
    path: &Path,
    position: RecordPosition,
    compression_of: fn(&[u8]) -> Compression,
) -> Result<Decoded, DataError> {
    // Storage checks remote files for changes, and getting their size costs a request.
    let size = path.local().is_ok().then(|| path.size()).transpose()?;
    let first = (position.bytes > 0).then(|| path.read_range(0..PROBE as u64).ok()).flatten();
    // Opening a remote file at its beginning would fetch more of it than these few bytes.
    if first.is_some_and(|first| compression_of(&first) == Compression::Plain) {
        return Ok(Decoded::new(open_behind(path, size, position.bytes)?, None));
    }
    let frame = position.frame;
    let open = |start| open_frame(path, size, position, (start, compression_of));
    let is_inside = frame.byte > 0 && frame.offset <= position.bytes;
    let at_frame = is_inside.then(|| open(frame)).transpose()?;
    // A file that was compressed again has no frame there.
    match at_frame.filter(|decoded| decoded.frames.is_some()) {
        Some(decoded) => skipped(path, decoded, position, position.bytes - frame.offset),
        None => skipped(path, open(FrameStart::default())?, position, position.bytes),
    }
}

/// Opens a file at the start of a frame, whose first bytes say how it is compressed.
fn open_frame(
    path: &Path,
    size: Option<u64>,
    position: RecordPosition,
    (start, compression_of): (FrameStart, fn(&[u8]) -> Compression),
) -> Result<Decoded, DataError> {
    let mut file = path.open_at(start.byte)?;
    let mut first = Vec::with_capacity(PROBE);
    let probed = file.by_ref().take(PROBE as u64).read_to_end(&mut first);
    probed.map_err(|source| read_error(path, position, source))?;
    let frames = Frames::new(compression_of(&first), start);
    let left = size.map(|size| size.saturating_sub(start.byte));
    let inner = Box::new(Cursor::new(first).chain(file));
    Ok(Decoded::new(Whole { inner, left }, frames))
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
    let frames = Frames::new(Compression::of_text(&head), FrameStart::default());
    let mut decoder = Decoded::new(Cursor::new(head), frames);
    let mut decoded = 0;
    // Decompression ends, with or without an error, at the end of the probe.
    while let Ok(count @ 1..) = decoder.fill_buf().map(<[u8]>::len) {
        decoder.consume(count);
        decoded += count;
    }
    Ok((decoded as f64 / length).max(1.0))
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

    /// Lines with some repetitions, as in text.
    fn lines() -> Vec<u8> {
        let line = |i: u32| format!("line {i} of {}\n", i.wrapping_mul(0x9e37_79b9) >> 12);
        (0..40_000).map(line).collect::<String>().into_bytes()
    }

    fn zlib(text: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Level::new(1));
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        encoder.include_checksum(true).unwrap();
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// Zlib for files that begin like its streams.
    fn compression_of(first: &[u8]) -> Compression {
        match first {
            [0x78, ..] => Compression::Zlib,
            first => Compression::of_text(first),
        }
    }

    /// All bytes after a position.
    fn rest(path: &Path, position: RecordPosition) -> Result<Vec<u8>, String> {
        let mut reader =
            open_decoded(path, position, compression_of).map_err(|error| error.to_string())?;
        let mut text = Vec::new();
        reader.read_to_end(&mut text).map_err(|error| error.to_string())?;
        Ok(text)
    }

    /// The position after `bytes` decompressed bytes.
    fn position_at(path: &Path, bytes: usize) -> RecordPosition {
        let start = RecordPosition::default();
        let mut reader = open_decoded(path, start, compression_of).unwrap();
        io::copy(&mut reader.by_ref().take(bytes as u64), &mut io::sink()).unwrap();
        reader.with_frame(RecordPosition { bytes: bytes as u64, ..start })
    }

    #[test]
    fn a_file_of_any_frames_is_read_on_from_any_position() {
        let text = lines();
        let parts = || text.chunks(100_000);
        // Frames that zstd skips lie between those of data, as in pzstd's files.
        let skipped = |part: &[u8]| {
            let header = [0x5a, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 7, 7];
            [&header[..], &zstd(part), &zstd(b"")].concat()
        };
        let stored = flate2::GzBuilder::new().filename("a").comment("b").extra(vec![1, 2]);
        let mut stored = stored.write(Vec::new(), Level::none());
        stored.write_all(&text).unwrap();
        for bytes in [
            text.clone(),
            zlib(&text),
            stored.finish().unwrap(),
            gzip(&text, 9),
            parts().flat_map(|part| [gzip(part, 6), gzip(b"", 6)].concat()).collect(),
            zstd(&text),
            parts().flat_map(skipped).collect(),
        ] {
            let (_dir, path) = file(&bytes);
            for at in [0, 1, 99_999, 100_000, 100_001, 777_777, text.len() - 1, text.len()] {
                let found = rest(&path, position_at(&path, at)).unwrap();
                assert!(found == text[at..], "{:?} from {at} on", compression_of(&bytes));
            }
        }
    }

    #[test]
    fn reading_begins_at_the_frame_of_a_position() {
        let text = lines();
        for compress in [|text: &[u8]| gzip(text, 1), zstd] {
            let bytes: Vec<u8> = text.chunks(100_000).flat_map(compress).collect();
            let (_dir, path) = file(&bytes);
            let position = position_at(&path, 500_001);
            assert_eq!(position.frame.offset, 500_000);
            let mut damaged = bytes;
            damaged[500..600].fill(0);
            path.write_atomic(&damaged).unwrap();
            assert!(rest(&path, position).unwrap() == text[500_001..]);
            let from_beginning = RecordPosition { frame: FrameStart::default(), ..position };
            assert!(rest(&path, from_beginning).is_err());
            // The same text, compressed again, also to a file that ends before the frame.
            for bytes in [gzip(&text, 2), zstd::encode_all(&text[..], 5).unwrap()] {
                path.write_atomic(&bytes).unwrap();
                assert!(rest(&path, position).unwrap() == text[500_001..]);
            }
            path.write_atomic(&compress(&text[..9])).unwrap();
            assert!(rest(&path, position).unwrap_err().contains("is shorter than it was"));
        }
    }

    #[test]
    fn damage_is_never_read_as_data() {
        let text = &lines()[..4000];
        for bytes in [gzip(text, 6), zlib(text), zstd(text)] {
            let read = |bytes: &[u8]| {
                let frames = Frames::new(compression_of(bytes), FrameStart::default());
                let mut found = Vec::new();
                let mut reader = Decoded::new(Cursor::new(bytes.to_vec()), frames);
                reader.read_to_end(&mut found).map(|_| found)
            };
            for at in 4..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << (at % 8);
                // Some bits of a header have no meaning.
                assert!(read(&damaged).map_or(true, |found| found == text), "byte {at}");
                let cut = read(&bytes[..at]).unwrap_err();
                assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof, "cut at {at}");
            }
            let error = read(&[&bytes[..], b"rest"].concat()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
        }
    }
}
