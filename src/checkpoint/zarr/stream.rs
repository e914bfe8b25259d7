//! Streams the unpacked bytes of one chunk from start to end with only a buffer in memory: a chunk
//! of Orbax may be a whole array of gigabytes.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::sync::Mutex;

use super::error::invalid;

/// Number of bytes unpacked at a time when runs are short.
const BUFFER_BYTES: usize = 1 << 18;

/// Maximum number of chunks left open: each has an open file and the state of its decoder.
const MAX_BEGUN: usize = 16;

/// A chunk that is being unpacked.
pub(super) struct ChunkStream {
    source: BufReader<Box<dyn Read + Send>>,
    /// Number of bytes returned or skipped so far.
    at: usize,
}

impl ChunkStream {
    pub(super) fn new(source: Box<dyn Read + Send>) -> Self {
        Self { source: BufReader::with_capacity(BUFFER_BYTES, source), at: 0 }
    }

    /// Fills `out` with the bytes from `start` on, which must not lie before the bytes already
    /// read.
    pub(super) fn read_at(&mut self, start: usize, out: &mut [u8]) -> io::Result<()> {
        self.pass_to(start)?;
        self.source.read_exact(out)?;
        self.at += out.len();
        Ok(())
    }

    /// Skips the rest of a chunk of `chunk_bytes` bytes. The end of a stream contains its checksum.
    pub(super) fn finish(mut self, chunk_bytes: usize) -> io::Result<()> {
        self.pass_to(chunk_bytes)?;
        match self.source.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(invalid("it holds too many bytes")),
        }
    }

    /// Number of bytes read so far.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    fn pass_to(&mut self, to: usize) -> io::Result<()> {
        let bytes = to.checked_sub(self.at).expect("runs of a chunk come in its order") as u64;
        if bytes > 0 && io::copy(&mut self.source.by_ref().take(bytes), &mut io::sink())? < bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at = to;
        Ok(())
    }
}

/// Partly read large chunks, by name. Blocks of an array usually follow each other, and the next block
/// continues where the last one ended: otherwise each block would unpack the chunk from its start.
pub struct Begun {
    /// Smaller chunks are not kept: a part of one reads, and so verifies, the whole chunk.
    min_bytes: usize,
    streams: Mutex<BTreeMap<String, ChunkStream>>,
}

impl Begun {
    /// Keeps chunks of at least `min_bytes` bytes.
    pub fn new(min_bytes: usize) -> Self {
        Self { min_bytes, streams: Mutex::default() }
    }

    /// Takes the stream of a chunk, unless it has already passed `start`.
    pub(super) fn take(&self, chunk: &str, start: usize) -> Option<ChunkStream> {
        let mut streams = self.streams.lock().expect("no holder of the streams panics");
        streams.remove(chunk).filter(|stream| stream.at() <= start)
    }

    /// Keeps the stream of a chunk of `chunk_bytes` bytes for the next part; returns a stream that
    /// is not kept.
    pub(super) fn keep(
        &self,
        chunk: String,
        stream: ChunkStream,
        chunk_bytes: usize,
    ) -> Option<ChunkStream> {
        let mut streams = self.streams.lock().expect("no holder of the streams panics");
        if chunk_bytes < self.min_bytes || streams.len() >= MAX_BEGUN {
            return Some(stream);
        }
        streams.insert(chunk, stream);
        None
    }
}

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Begun({} bytes and more)", self.min_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(bytes: &'static [u8]) -> ChunkStream {
        ChunkStream::new(Box::new(bytes))
    }

    #[test]
    fn runs_are_read_in_order_and_the_end_is_checked() {
        let mut chunk = stream(b"0123456789");
        let mut out = [0; 2];
        chunk.read_at(1, &mut out).unwrap();
        assert_eq!(&out, b"12");
        chunk.read_at(7, &mut out).unwrap();
        assert_eq!((&out, chunk.at()), (b"78", 9));
        chunk.finish(10).unwrap();
        let kind = |bytes, expected| stream(bytes).finish(expected).map_err(|error| error.kind());
        assert_eq!(kind(b"0123", 5), Err(io::ErrorKind::UnexpectedEof));
        assert_eq!(kind(b"0123", 3), Err(io::ErrorKind::InvalidData));
    }

    #[test]
    fn a_large_chunk_is_kept_for_what_lies_behind_it() {
        let begun = Begun::new(10);
        let mut chunk = stream(b"0123456789");
        chunk.read_at(0, &mut [0; 4]).unwrap();
        assert!(begun.keep("a/0".to_string(), chunk, 10).is_none());
        assert_eq!(begun.take("a/0", 4).unwrap().at(), 4);
        assert!(begun.take("a/0", 4).is_none(), "it is taken");
        let mut chunk = stream(b"0123456789");
        chunk.read_at(0, &mut [0; 4]).unwrap();
        assert!(begun.keep("a/0".to_string(), chunk, 10).is_none());
        assert!(begun.take("a/0", 3).is_none(), "it has passed that");
        assert!(begun.keep("a/0".to_string(), stream(b""), 9).is_some(), "it is small");
    }
}
