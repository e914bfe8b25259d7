//! Zlib streams, checked to be whole: `flate2`'s own reader takes a cut one for its end.

use std::io::{self, BufRead, Read};

use flate2::{Decompress, FlushDecompress, Status};

/// Decompresses one stream.
pub(super) struct ZlibReader<R> {
    inner: R,
    decompress: Decompress,
    ended: bool,
}

impl<R: BufRead> ZlibReader<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, decompress: Decompress::new(true), ended: false }
    }
}

impl<R: BufRead> Read for ZlibReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ended || buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let input = self.inner.fill_buf()?;
            let at_end = input.is_empty();
            let (before_in, before_out) = (self.decompress.total_in(), self.decompress.total_out());
            let status = self.decompress.decompress(input, buffer, FlushDecompress::None);
            let status = status.map_err(|error| {
                io::Error::new(io::ErrorKind::InvalidData, format!("corrupt zlib stream: {error}"))
            })?;
            self.inner.consume((self.decompress.total_in() - before_in) as usize);
            let found = (self.decompress.total_out() - before_out) as usize;
            self.ended = status == Status::StreamEnd;
            if found > 0 || self.ended {
                return Ok(found);
            }
            if at_end {
                let reason = "the zlib stream breaks off";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason));
            }
        }
    }
}
