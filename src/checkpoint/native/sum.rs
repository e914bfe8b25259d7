//! Size and CRC-32C of a file.

use std::fmt;
use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

/// The expected size and checksum of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Checksum {
    pub bytes: u64,
    pub crc32c: Crc32c,
}

impl Checksum {
    /// Computes the checksum of a file with these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.len() as u64, crc32c: Crc32c::of(bytes) }
    }
}

/// A CRC-32C, written as eight hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Crc32c(pub u32);

impl Crc32c {
    pub fn of(bytes: &[u8]) -> Self {
        Self(crc32c::crc32c(bytes))
    }
}

impl fmt::Display for Crc32c {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl From<Crc32c> for String {
    fn from(sum: Crc32c) -> Self {
        sum.to_string()
    }
}

impl TryFrom<String> for Crc32c {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let sum = u32::from_str_radix(&text, 16).ok().map(Self);
        sum.filter(|sum| sum.to_string() == text)
            .ok_or_else(|| format!("`{text}` is not a checksum, expected eight hexadecimal digits"))
    }
}

/// Computes size and checksum of the rest of a source.
pub(super) fn sum(mut source: impl Read) -> io::Result<Checksum> {
    let mut buffer = vec![0; 1 << 18];
    let mut out = Summing::new(io::sink());
    loop {
        match source.read(&mut buffer)? {
            0 => return Ok(out.finish().1),
            length => out.write_all(&buffer[..length])?,
        }
    }
}

/// A writer that computes size and checksum of the bytes passed through.
pub(super) struct Summing<W> {
    inner: W,
    bytes: u64,
    crc: u32,
}

impl<W: Write> Summing<W> {
    pub fn new(inner: W) -> Self {
        Self { inner, bytes: 0, crc: 0 }
    }

    pub fn finish(self) -> (W, Checksum) {
        let checksum = Checksum { bytes: self.bytes, crc32c: Crc32c(self.crc) };
        (self.inner, checksum)
    }
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The bytes are summed while they are still in the processor's cache.
        let bytes = &bytes[..bytes.len().min(1 << 20)];
        let length = self.inner.write(bytes)?;
        self.crc = crc32c::crc32c_append(self.crc, &bytes[..length]);
        self.bytes += length as u64;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
