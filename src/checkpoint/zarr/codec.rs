//! Packs and unpacks the bytes of a chunk.

use std::io::{self, Cursor, Read, Write};

use flate2::read::{GzDecoder, ZlibDecoder};
use flate2::write::GzEncoder;

use super::blosc;
use super::error::invalid;

/// Maximum window of a zstd frame as a power of two: 2 GiB, as `zstd --long=31` writes.
const ZSTD_WINDOW_LOG: u32 = 31;

/// Maximum bytes by which packed data may exceed the unpacked data, when they are held as a whole.
const OVERHEAD_BYTES: u64 = 1 << 20;

/// One encoding step from a chunk to the bytes of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    Gzip,
    Zlib,
    Zstd,
    /// The frames of c-blosc 1.
    Blosc,
    /// Four bytes of CRC-32C at the end.
    Crc32c,
}

/// The compression of chunks in a written checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// No compression.
    None,
    /// gzip, at a level from 0 to 9.
    Gzip(u32),
    /// zstd, at a level from 1 to 22.
    Zstd(i32),
}

impl Default for Compression {
    /// T5X's compression.
    fn default() -> Self {
        Self::Gzip(1)
    }
}

/// Undoes the steps, last first. The output is not checked to have `max_bytes`; an intermediate
/// result that must be held as a whole is refused if it is larger.
pub fn decoded(
    source: Box<dyn Read + Send>,
    codecs: &[Codec],
    max_bytes: usize,
) -> io::Result<Box<dyn Read + Send>> {
    codecs.iter().rev().try_fold(source, |source, codec| undo(source, *codec, max_bytes))
}

fn undo(
    source: Box<dyn Read + Send>,
    codec: Codec,
    max_bytes: usize,
) -> io::Result<Box<dyn Read + Send>> {
    Ok(match codec {
        // Not `MultiGzDecoder`: bytes after the first gzip member are not part of a chunk.
        Codec::Gzip => Box::new(GzDecoder::new(source)),
        Codec::Zlib => Box::new(ZlibDecoder::new(source)),
        Codec::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::new(source)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            Box::new(ZstdReader(decoder))
        }
        Codec::Blosc => {
            Box::new(Cursor::new(blosc::decode(&bounded(source, max_bytes)?, max_bytes)?))
        }
        Codec::Crc32c => {
            let mut bytes = bounded(source, max_bytes)?;
            let split = bytes.len().checked_sub(4).ok_or(io::ErrorKind::UnexpectedEof)?;
            let expected = bytes.split_off(split);
            if crc32c::crc32c(&bytes).to_le_bytes()[..] != expected[..] {
                return Err(invalid("its checksum does not match"));
            }
            Box::new(Cursor::new(bytes))
        }
    })
}

fn bounded(source: Box<dyn Read + Send>, max_bytes: usize) -> io::Result<Vec<u8>> {
    let limit = max_bytes as u64 + max_bytes as u64 / 8 + OVERHEAD_BYTES;
    let mut bytes = Vec::new();
    source.take(limit + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(invalid("it holds too many bytes")),
        false => Ok(bytes),
    }
}

/// A zstd reader that reports damage as invalid data; zstd itself reports it as another error.
struct ZstdReader<R: io::BufRead>(zstd::stream::read::Decoder<'static, R>);

impl<R: io::BufRead> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::Other if error.raw_os_error().is_none() => invalid(error),
            _ => error,
        })
    }
}

impl Compression {
    /// Writes the bytes from `write`, compressed.
    pub(super) fn encode(
        self,
        out: &mut dyn Write,
        write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        match self {
            Self::None => write(out),
            Self::Gzip(level) => {
                let mut encoder = GzEncoder::new(out, flate2::Compression::new(level));
                write(&mut encoder)?;
                encoder.finish().map(drop)
            }
            Self::Zstd(level) => {
                let mut encoder = zstd::stream::write::Encoder::new(out, level)?;
                write(&mut encoder)?;
                encoder.finish().map(drop)
            }
        }
    }

    /// numcodecs' name and the level; `None` for no compression.
    pub(crate) fn id_and_level(self) -> Option<(&'static str, i64)> {
        match self {
            Self::None => None,
            Self::Gzip(level) => Some(("gzip", level.into())),
            Self::Zstd(level) => Some(("zstd", level.into())),
        }
    }
}
