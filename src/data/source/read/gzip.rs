//! Gzip files and zlib streams, and the places inside them where reading can begin again.
//!
//! Every few megabytes a [`Restart`] is noted: a bit of the file, what decompressing needs to go on
//! there, and the checksum so far. From the last one before a position that position is reached at
//! once, however far into the file it lies. Members one after the other are one text.

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
        self.inflate.decompress(&mut self.bits)?;
        let made = self.inflate.ready();
        self.sum.add(made);
        self.member_bytes += made.len() as u64;
        self.offset += made.len() as u64;
        Ok(())
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use proptest::prelude::*;

    use super::super::pause::Pause;
    use super::super::testing::gzip;
    use super::*;

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        Gzip::new(bytes, Wrapping::Gzip).read_to_end(&mut text).map(|_| text)
    }

    /// Lines that repeat here and there, as those of a text do.
    fn lines(count: u64) -> Vec<u8> {
        let line =
            |i: u64| format!("line {i} of {}\n", i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40);
        (0..count).map(line).collect::<String>().into_bytes()
    }

    #[test]
    fn what_others_compress_is_read() {
        let noise: Vec<u8> = (0..70_000_u32).map(|i| (i.wrapping_mul(i) >> 11) as u8).collect();
        for text in [Vec::new(), b"a".to_vec(), vec![b'x'; 300_000], lines(20_000), noise] {
            for level in 0..=9 {
                let bytes = gzip(&text, level);
                assert!(read(&bytes).unwrap() == text, "{} bytes, level {level}", text.len());
            }
        }
    }

    #[test]
    fn members_one_after_the_other_are_one_text() {
        let mut named = flate2::GzBuilder::new().filename("a").comment("b").extra(vec![1, 2, 3]);
        named = named.mtime(7);
        let mut encoder = named.write(Vec::new(), Compression::fast());
        encoder.write_all(b"two").unwrap();
        let bytes = [gzip(b"one", 6), gzip(b"", 6), encoder.finish().unwrap()].concat();
        assert_eq!(read(&bytes).unwrap(), b"onetwo");
        let error = read(&[&bytes[..], b"rest"].concat()).unwrap_err().to_string();
        assert!(error.contains("what follows is not a gzip member"), "{error}");
    }

    #[test]
    fn damage_is_never_read_as_data() {
        let text = lines(200);
        let bytes = gzip(&text, 6);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                // Some bits of a header, and those that fill the last byte, mean nothing.
                assert!(read(&damaged).map_or(true, |found| found == text), "byte {at}");
            }
            let error = read(&bytes[..at]);
            assert!(at == 0 || error.is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_header_is_compared_with_its_checksum() {
        // Text, an extra field, a name and a comment (RFC 1952).
        let mut header = b"\x1f\x8b\x08\x1f\0\0\0\0\0\xff\x03\0abca name\0a comment\0".to_vec();
        header.extend(&crc_of(&header).to_le_bytes()[..2]);
        let bytes = [&header[..], &gzip(b"text", 6)[10..]].concat();
        let by_flate2 = |bytes: &[u8]| {
            flate2::bufread::MultiGzDecoder::new(bytes).read_to_end(&mut Vec::new()).is_ok()
        };
        assert!(by_flate2(&bytes));
        assert_eq!(read(&bytes).unwrap(), b"text");
        for at in 4..header.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(!by_flate2(&damaged) && read(&damaged).is_err(), "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut with_header = gzip(b"", 6)[..10].to_vec();
            with_header.extend(bytes);
            let _ = read(&with_header);
        }
    }

    /// Takes all that is ready, once something is.
    fn pass(reader: &mut Gzip<&[u8]>) -> bool {
        let count = reader.fill_buf().unwrap().len();
        reader.consume(count);
        count > 0
    }

    /// The restarts noted while all of a file is read, as they come out of a saved position.
    fn restarts_of(bytes: &[u8], wrapping: Wrapping) -> Vec<Arc<Restart>> {
        let mut reader = Gzip::new(bytes, wrapping);
        let mut noted = Vec::new();
        while pass(&mut reader) {
            let last = reader.restarts().last();
            if last.as_ref() != noted.last() {
                noted.extend(last);
            }
        }
        let saved = serde_json::to_string(&noted).unwrap();
        assert!(saved.len() < noted.len() * (48 << 10), "{} bytes", saved.len());
        serde_json::from_str(&saved).unwrap()
    }

    /// That reading goes on from every restart, and still compares a member's checksum, of which the last
    /// byte is so far from the end.
    fn check_restarts(bytes: &[u8], wrapping: Wrapping, text: &[u8], sum: usize) {
        let restarts = restarts_of(bytes, wrapping);
        // Also where a block goes on and on, as those of level 1 do.
        assert_eq!(restarts.len() as u64, text.len() as u64 / SPACING);
        for restart in restarts {
            let (offset, byte) = (restart.offset() as usize, restart.byte() as usize);
            let mut found = Vec::new();
            let mut reader = Gzip::restart(&bytes[byte..], wrapping, &restart).unwrap().unwrap();
            reader.read_to_end(&mut found).unwrap();
            assert!(found == text[offset..], "from {offset} on");
            let mut damaged = bytes[byte..].to_vec();
            let end = damaged.len() - sum;
            damaged[end] ^= 1;
            let mut reader = Gzip::restart(&damaged[..], wrapping, &restart).unwrap().unwrap();
            let error = reader.read_to_end(&mut found).unwrap_err().to_string();
            assert!(error.contains("its checksum is"), "{error}");
        }
    }

    #[test]
    fn reading_begins_at_any_restart_and_still_checks_the_whole() {
        let text = lines(400_000);
        let (first, second) = text.split_at(text.len() / 3);
        check_restarts(&[gzip(first, 6), gzip(second, 1)].concat(), Wrapping::Gzip, &text, 8);
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(&text).unwrap();
        check_restarts(&zlib.finish().unwrap(), Wrapping::Zlib, &text, 4);
    }

    #[test]
    fn a_reader_keeps_its_last_restart_only() {
        let bytes = gzip(&lines(400_000), 1);
        let mut reader = Gzip::new(&bytes[..], Wrapping::Gzip);
        while reader.restarts().last().is_none() {
            assert!(pass(&mut reader));
        }
        let first = reader.restarts().last().unwrap();
        while pass(&mut reader) {}
        assert!(reader.restarts().last().unwrap().offset() > first.offset());
        assert_eq!(Arc::strong_count(&first), 1);
    }

    #[test]
    fn codes_that_none_wrote_are_refused() {
        let bytes = gzip(&lines(400_000), 1);
        let restart = restarts_of(&bytes, Wrapping::Gzip).remove(0);
        for (literals, distances) in
            [(vec![200], vec![]), (vec![0; 289], vec![]), (vec![8], vec![16])]
        {
            let Inside::Deflate { member, pause } = restart.inside.clone() else { panic!("zstd") };
            let pause = Pause { codes: Some((literals, distances)), ..pause };
            let inside = Inside::Deflate { member, pause };
            let restart = Arc::new(Restart { inside, ..(*restart).clone() });
            let file = &bytes[restart.byte() as usize..];
            let error = Gzip::restart(file, Wrapping::Gzip, &restart).err().unwrap();
            assert!(error.to_string().contains("more symbols or longer ones"), "{error}");
        }
    }
}
