//! The bits of a file, in the order of deflate: the lowest bit of each byte first.

use std::io::{self, Read};

/// Bytes read from the file at once.
const BUFFER_SIZE: usize = 128 << 10;

/// Takes bits from a file, and counts them.
pub(super) struct Bits<R> {
    inner: R,
    /// Bytes of the file before `buffer`.
    base: u64,
    buffer: Box<[u8]>,
    /// The part of `buffer` that has not been taken.
    at: usize,
    end: usize,
    ended: bool,
    /// The next `count` bits. Bits above them belong to the file too, or are 0.
    bits: u64,
    count: u32,
}

impl<R: Read> Bits<R> {
    /// Reads the bits of a file that is open at byte `base`.
    pub(super) fn new(inner: R, base: u64) -> Self {
        let buffer = vec![0; BUFFER_SIZE].into_boxed_slice();
        Self { inner, base, buffer, at: 0, end: 0, ended: false, bits: 0, count: 0 }
    }

    /// Number of bits of the file before the next one.
    pub(super) fn position(&self) -> u64 {
        (self.base + self.at as u64) * 8 - u64::from(self.count)
    }

    /// Makes at least 56 bits available, or fewer at the end of the file.
    #[inline]
    pub(super) fn refill(&mut self) -> io::Result<()> {
        if self.end - self.at < 8 {
            return self.refill_slowly();
        }
        let next = &self.buffer[self.at..self.at + 8];
        self.bits |= u64::from_le_bytes(next.try_into().expect("eight bytes")) << self.count;
        self.at += ((63 - self.count) >> 3) as usize;
        self.count |= 56;
        Ok(())
    }

    #[cold]
    fn refill_slowly(&mut self) -> io::Result<()> {
        self.fetch(8)?;
        while self.count < 56 && self.at < self.end {
            self.bits |= u64::from(self.buffer[self.at]) << self.count;
            self.at += 1;
            self.count += 8;
        }
        Ok(())
    }

    /// Reads on until `least` bytes are available or the file ends.
    fn fetch(&mut self, least: usize) -> io::Result<()> {
        self.buffer.copy_within(self.at..self.end, 0);
        self.base += self.at as u64;
        self.end -= self.at;
        self.at = 0;
        while self.end < least && !self.ended {
            match self.inner.read(&mut self.buffer[self.end..]) {
                Ok(found) => {
                    self.end += found;
                    self.ended = found == 0;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The available bits, the next one lowest. After the end of the file they are 0.
    #[inline]
    pub(super) fn peek(&self) -> u64 {
        self.bits
    }

    /// Skips bits that were peeked at.
    #[inline]
    pub(super) fn skip(&mut self, count: u32) -> io::Result<()> {
        if count > self.count {
            return Err(cut());
        }
        self.bits >>= count;
        self.count -= count;
        Ok(())
    }

    /// The next bits as a number; at most 32.
    #[inline]
    pub(super) fn take(&mut self, count: u32) -> io::Result<u32> {
        if count > self.count {
            self.refill()?;
        }
        let found = self.bits & ((1 << count) - 1);
        self.skip(count)?;
        Ok(found as u32)
    }

    /// Skips the remaining bits of a byte.
    pub(super) fn align(&mut self) {
        let left = self.count % 8;
        self.bits >>= left;
        self.count -= left;
    }

    /// Whether the file has ended; called between bytes.
    pub(super) fn at_end(&mut self) -> io::Result<bool> {
        self.refill()?;
        Ok(self.count == 0)
    }

    /// The next `count` whole bytes, without taking them; fewer at the end of the file.
    pub(super) fn next_bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        self.fetch(count)?;
        let taken = (self.bits >> (self.count % 8)).to_le_bytes();
        let mut bytes = taken[..(self.count / 8) as usize].to_vec();
        bytes.extend_from_slice(&self.buffer[self.at..self.end]);
        bytes.truncate(count);
        Ok(bytes)
    }

    /// Appends at least one and at most `most` of the next bytes to `out`, and returns their
    /// number.
    pub(super) fn copy(&mut self, most: usize, out: &mut Vec<u8>) -> io::Result<usize> {
        if self.count > 0 {
            out.push(self.take(8)? as u8);
            return Ok(1);
        }
        // The bits above `count` belong to bytes that are skipped here.
        self.bits = 0;
        if self.at == self.end {
            self.fetch(1)?;
        }
        let found = most.min(self.end - self.at);
        if found == 0 {
            return Err(cut());
        }
        out.extend_from_slice(&self.buffer[self.at..self.at + found]);
        self.at += found;
        Ok(found)
    }
}

/// The error of a file that ends too early.
fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the compressed stream breaks off")
}
