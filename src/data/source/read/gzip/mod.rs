//! Gzip files and zlib streams, and the places inside them at which reading can start.
//!
//! Every few megabytes a [`Restart`] is recorded: a bit of the file, the state with which
//! decompression continues there, and the checksum so far. A position is reached quickly from the
//! last restart before it, anywhere in the file. Consecutive members are one text.

mod tests;

use std::io::{self, BufRead, Read};
use std::sync::Arc;

use flate2::Crc;

use super::bits::Bits;
use super::checksum::{adler_behind, crc_before, crc_of};
use super::inflate::{Inflate, corrupt};
use super::restart::{Inside, Restart, Restarts};

/// Decompressed bytes between two restarts, which take a few hundredths of a second.
const SPACING: u64 = 4 << 20;
/// Bytes of the file after a restart, which identify the file.
const AHEAD: usize = 4 << 10;
const DEFLATE: u8 = 8;
/// Flags of a member's header.
const HAS_CHECKSUM: u8 = 2;
const HAS_EXTRA: u8 = 4;
const HAS_NAME: u8 = 8;
const HAS_COMMENT: u8 = 16;
/// Flag of a zlib stream's header.
const HAS_DICTIONARY: u32 = 32;

/// The format around the deflated data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrapping {
    /// Consecutive members (RFC 1952).
    Gzip,
    /// One stream, at whose end the file ends (RFC 1950).
    Zlib,
}

/// The position of a reader.
enum Place {
    /// Before a member, or at the end of the file.
    Member,
    /// In a member's data.
    Data,
    /// After the last member.
    End,
}

/// Decompresses a file.
pub(super) struct Gzip<R> {
    bits: Bits<R>,
    wrapping: Wrapping,
    place: Place,
    inflate: Inflate,
    /// The error that follows the ready bytes.
    broken: Option<io::Error>,
    /// The checksum of the member's bytes.
    sum: Sum,
    member_bytes: u64,
    /// Number of decompressed bytes, including those before a restart, and the same number at the
    /// last restart.
    offset: u64,
    noted: u64,
    restarts: Restarts,
}

impl<R: Read> Gzip<R> {
    /// Reads from the beginning of a file.
    pub(super) fn new(file: R, wrapping: Wrapping) -> Self {
        Self {
            bits: Bits::new(file, 0),
            wrapping,
            place: Place::Member,
            inflate: Inflate::default(),
            broken: None,
            sum: Sum::new(wrapping),
            member_bytes: 0,
            offset: 0,
            noted: 0,
            restarts: Restarts::default(),
        }
    }

    /// Continues from a restart, with the file open at the byte of the restart; `None` if the
    /// file's bytes after it have changed.
    pub(super) fn restart(
        file: R,
        wrapping: Wrapping,
        from: &Arc<Restart>,
    ) -> io::Result<Option<Self>> {
        let Inside::Deflate { member, pause } = &from.inside else { return Ok(None) };
        let mut bits = Bits::new(file, from.byte());
        if bits.at_end()? {
            return Ok(None);
        }
        bits.take((from.bit % 8) as u32)?;
        if from.ahead != Some(crc_of(&bits.next_bytes(AHEAD)?)) {
            return Ok(None);
        }
        let reader = Self {
            bits,
            wrapping,
            place: Place::Data,
            inflate: Inflate::resume(pause)?,
            broken: None,
            sum: Sum::behind(wrapping, *member),
            member_bytes: member.0,
            offset: from.offset,
            noted: from.offset,
            restarts: Restarts::default(),
        };
        reader.restarts.note(from.clone());
        Ok(Some(reader))
    }

    /// The restarts that are recorded from now on.
    pub(super) fn restarts(&self) -> Restarts {
        self.restarts.clone()
    }

    /// Decompresses until bytes are ready; `false` at the end of the file.
    fn advance(&mut self) -> io::Result<bool> {
        while self.inflate.ready().is_empty() {
            if let Some(error) = self.broken.take() {
                return Err(error);
            }
            match self.place {
                Place::End if self.bits.at_end()? => return Ok(false),
                // TensorFlow writes and reads one stream in each file.
                Place::End => return Err(corrupt("other bytes follow the end of the zlib stream")),
                Place::Member if self.wrapping == Wrapping::Zlib => self.begin_stream()?,
                Place::Member if self.bits.at_end()? => return Ok(false),
                Place::Member => self.begin_member()?,
                Place::Data if self.inflate.has_ended() => self.end_member()?,
                Place::Data => self.decompress()?,
            }
        }
        Ok(true)
    }

    fn decompress(&mut self) -> io::Result<()> {
        if self.offset - self.noted >= SPACING
            && let Some(pause) = self.inflate.pause()
        {
            let (offset, bit) = (self.offset, self.bits.position());
            let member = (self.member_bytes, self.sum.of(self.member_bytes));
            let ahead = Some(crc_of(&self.bits.next_bytes(AHEAD)?));
            let inside = Inside::Deflate { member, pause };
            self.restarts.note(Arc::new(Restart { offset, bit, inside, ahead }));
            self.noted = offset;
        }
        let decompressed = self.inflate.decompress(&mut self.bits);
        let made = self.inflate.ready();
        self.sum.add(made);
        self.member_bytes += made.len() as u64;
        self.offset += made.len() as u64;
        match decompressed {
            // The bytes before the point at which the file breaks off are returned first.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !made.is_empty() => {
                self.broken = Some(error);
                Ok(())
            }
            decompressed => decompressed,
        }
    }

    /// Reads a member's header (RFC 1952).
    fn begin_member(&mut self) -> io::Result<()> {
        let mut header = Header { bits: &mut self.bits, crc: Crc::new() };
        let [magic @ .., method, flags] = header.take::<4>()?;
        if (magic, method) != ([0x1f, 0x8b], DEFLATE) || flags > 31 {
            return Err(corrupt("what follows is not a gzip member"));
        }
        // The time and the operating system of the compressor.
        header.take::<6>()?;
        if flags & HAS_EXTRA != 0 {
            for _ in 0..u16::from_le_bytes(header.take()?) {
                header.take::<1>()?;
            }
        }
        for text in [HAS_NAME, HAS_COMMENT] {
            while flags & text != 0 && header.take()? != [0] {}
        }
        let found = header.crc.sum() as u16;
        if flags & HAS_CHECKSUM != 0 && u16::from_le_bytes(header.take()?) != found {
            return Err(corrupt("the checksum of a member's header is wrong"));
        }
        self.inflate = Inflate::default();
        (self.sum, self.member_bytes) = (Sum::new(self.wrapping), 0);
        self.place = Place::Data;
        Ok(())
    }

    /// Reads a zlib stream's header (RFC 1950).
    fn begin_stream(&mut self) -> io::Result<()> {
        let (method, flags) = (self.bits.take(8)?, self.bits.take(8)?);
        let is_zlib = method & 15 == u32::from(DEFLATE) && (method << 8 | flags).is_multiple_of(31);
        if !is_zlib || flags & HAS_DICTIONARY != 0 {
            return Err(corrupt("it does not begin as a zlib stream without a dictionary"));
        }
        self.place = Place::Data;
        Ok(())
    }

    /// Verifies a member with the checksum and the length after it.
    fn end_member(&mut self) -> io::Result<()> {
        self.bits.align();
        let (written, found) = (self.bits.take(32)?, self.sum.of(self.member_bytes));
        let is_zlib = self.wrapping == Wrapping::Zlib;
        let sum = if is_zlib { written.swap_bytes() } else { written };
        if sum != found {
            let reason = format!("its checksum is {found:08x}, expected {sum:08x}");
            return Err(corrupt(&reason));
        }
        if !is_zlib && self.bits.take(32)? != self.member_bytes as u32 {
            return Err(corrupt("its length differs from the stored length"));
        }
        self.place = if is_zlib { Place::End } else { Place::Member };
        Ok(())
    }
}

/// The checksum of a member's bytes.
enum Sum {
    /// The checksum of the bytes since the reader began, and the number and checksum of the bytes
    /// before.
    Crc { crc: Crc, before: (u64, u32) },
    /// The checksum of all bytes.
    Adler(u32),
}

impl Sum {
    /// The checksum of no bytes.
    fn new(wrapping: Wrapping) -> Self {
        Self::behind(wrapping, (0, if wrapping == Wrapping::Zlib { 1 } else { 0 }))
    }

    /// The checksum that continues that of earlier bytes.
    fn behind(wrapping: Wrapping, before: (u64, u32)) -> Self {
        match wrapping {
            Wrapping::Gzip => Self::Crc { crc: Crc::new(), before },
            Wrapping::Zlib => Self::Adler(before.1),
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        match self {
            Self::Crc { crc, .. } => crc.update(bytes),
            Self::Adler(sum) => *sum = adler_behind(*sum, bytes),
        }
    }

    /// The checksum of all `bytes` bytes.
    fn of(&self, bytes: u64) -> u32 {
        match self {
            Self::Crc { crc, before } => crc_before(before.1, bytes - before.0) ^ crc.sum(),
            Self::Adler(sum) => *sum,
        }
    }
}

/// A member's header, with the checksum of the bytes taken from it.
struct Header<'a, R> {
    bits: &'a mut Bits<R>,
    crc: Crc,
}

impl<R: Read> Header<'_, R> {
    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        for byte in &mut bytes {
            *byte = self.bits.take(8)? as u8;
        }
        self.crc.update(&bytes);
        Ok(bytes)
    }
}

impl<R: Read> Read for Gzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let found = self.fill_buf()?.read(buffer)?;
        self.consume(found);
        Ok(found)
    }
}

impl<R: Read> BufRead for Gzip<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.advance()?;
        Ok(self.inflate.ready())
    }

    fn consume(&mut self, count: usize) {
        self.inflate.take(count);
    }
}
