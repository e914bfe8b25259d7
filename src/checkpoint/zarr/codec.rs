//! How the bytes of a chunk are packed.

use std::io::{self, Cursor, Read, Write};

use flate2::read::{GzDecoder, ZlibDecoder};
use flate2::write::GzEncoder;

use super::blosc;
use super::error::invalid;

/// The largest window that a zstd frame may ask for: 2 GiB, what `zstd --long=31` writes.
const ZSTD_WINDOW_LOG: u32 = 31;

/// What packed bytes may take beyond the unpacked ones, where they are held as a whole.
const OVERHEAD_BYTES: u64 = 1 << 20;

/// One step from a chunk to the bytes of its file.
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

/// How the chunks of a checkpoint are compressed when it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, at a level from 0 to 9.
    Gzip(u32),
    /// zstd, at a level from 1 to 22.
    Zstd(i32),
}

impl Default for Compression {
    /// What T5X writes.
    fn default() -> Self {
        Self::Gzip(1)
    }
}

/// Undoes the steps, last first. What comes out is not checked to be of `max_bytes`; what must be
/// held as a whole on the way is refused beyond them.
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
        // Not `MultiGzDecoder`: what follows the first member is no part of a chunk.
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
                return Err(invalid("its checksum is another"));
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

/// zstd says of damage that something else went wrong.
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
    /// Writes what `write` yields, compressed.
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

    /// numcodecs' name and the level; `None` for none.
    pub(in crate::checkpoint) fn id_and_level(self) -> Option<(&'static str, i64)> {
        match self {
            Self::None => None,
            Self::Gzip(level) => Some(("gzip", level.into())),
            Self::Zstd(level) => Some(("zstd", level.into())),
        }
    }
}
