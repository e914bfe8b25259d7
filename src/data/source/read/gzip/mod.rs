//! Gzip files and zlib streams, and the places inside them where reading can begin again.
//!
//! Every few megabytes a [`Restart`] is noted: a bit of the file, what decompressing needs to go on
//! there, and the checksum so far. From the last one before a position that position is reached at
//! once, however far into the file it lies. Members one after the other are one text.

mod tests;

use std::io::{self, BufRead, Read};
use std::sync::Arc;

use flate2::Crc;

use super::bits::Bits;
use super::checksum::{adler_behind, crc_before, crc_of};
use super::inflate::{Inflate, corrupt};
use super::restart::{Inside, Restart, Restarts};

/// Decompressed bytes from one restart to the next: a few hundredths of a second.
const SPACING: u64 = 4 << 20;
/// Bytes of the file behind a restart by which it is known again.
const AHEAD: usize = 4 << 10;
const DEFLATE: u8 = 8;
/// Flags of a member's header.
const HAS_CHECKSUM: u8 = 2;
const HAS_EXTRA: u8 = 4;
const HAS_NAME: u8 = 8;
const HAS_COMMENT: u8 = 16;
/// Flag of a zlib stream's header.
const HAS_DICTIONARY: u32 = 32;

/// What is around the deflated data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrapping {
    /// Members one after the other (RFC 1952).
    Gzip,
    /// One stream, behind which the file ends (RFC 1950).
    Zlib,
}

/// Where a reader is.
enum Place {
    /// Before a member, or at the end of the file.
    Member,
    /// In a member's data.
    Data,
    /// Behind the last member.
    End,
}

/// Decompresses a file.
pub(super) struct Gzip<R> {
    bits: Bits<R>,
    wrapping: Wrapping,
    place: Place,
    inflate: Inflate,
    /// Why nothing follows what is ready.
    broken: Option<io::Error>,
    /// Of the member's bytes.
    sum: Sum,
    member_bytes: u64,
    /// Bytes decompressed, with those before a restart, and as many at the last one.
    offset: u64,
    noted: u64,
    restarts: Restarts,
}

impl<R: Read> Gzip<R> {
    /// Reads from a file's beginning.
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

    /// Reads on from a restart, with the file open at the byte that it lies in; `None` where the file
    /// has other bytes there than it had.
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

    /// The restarts that are noted from here on.
    pub(super) fn restarts(&self) -> Restarts {
        self.restarts.clone()
    }

    /// Decompresses on until something is ready; `false` at the end of the file.
    fn advance(&mut self) -> io::Result<bool> {
        while self.inflate.ready().is_empty() {
            if let Some(error) = self.broken.take() {
                return Err(error);
            }
            match self.place {
                Place::End if self.bits.at_end()? => return Ok(false),
                // TensorFlow writes and reads one stream a file.
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
            // What comes before the place where the file breaks off is handed on first.
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
        // The time and the system of whoever made it.
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

    /// Checks a member against the checksum and the length behind it.
    fn end_member(&mut self) -> io::Result<()> {
        self.bits.align();
        let (written, found) = (self.bits.take(32)?, self.sum.of(self.member_bytes));
        let is_zlib = self.wrapping == Wrapping::Zlib;
        let sum = if is_zlib { written.swap_bytes() } else { written };
        if sum != found {
            let reason = format!("its checksum is {found:08x}, and {sum:08x} is written there");
            return Err(corrupt(&reason));
        }
        if !is_zlib && self.bits.take(32)? != self.member_bytes as u32 {
            return Err(corrupt("it is not as long as is written there"));
        }
        self.place = if is_zlib { Place::End } else { Place::Member };
        Ok(())
    }
}

/// The checksum of a member's bytes.
enum Sum {
    /// Of those since the reader began, which is behind the `before` ones with their checksum.
    Crc { crc: Crc, before: (u64, u32) },
    /// Of all.
    Adler(u32),
}

impl Sum {
    /// That of nothing.
    fn new(wrapping: Wrapping) -> Self {
        Self::behind(wrapping, (0, if wrapping == Wrapping::Zlib { 1 } else { 0 }))
    }

    /// That of so many bytes.
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

    /// That of all bytes, of which there are so many.
    fn of(&self, bytes: u64) -> u32 {
        match self {
            Self::Crc { crc, before } => crc_before(before.1, bytes - before.0) ^ crc.sum(),
            Self::Adler(sum) => *sum,
        }
    }
}

/// A member's header, with the checksum of what was taken of it.
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
