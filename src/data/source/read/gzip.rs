//! Gzip files, and the places inside them where reading can begin again.
//!
//! Every few megabytes a [`Restart`] is noted: a bit of the file, what decompressing needs to go on
//! there, and the checksum so far. From the last one before a position that position is reached at
//! once, however far into the file it lies. Members one after the other are one text.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read};
use std::sync::{Arc, Mutex, PoisonError};

use flate2::Crc;
use serde::{Deserialize, Serialize};

use super::bits::Bits;
use super::inflate::{Inflate, corrupt};
use super::pause::Pause;

/// Decompressed bytes from one restart to the next: a few hundredths of a second.
const SPACING: u64 = 4 << 20;
const DEFLATE: u32 = 8;
/// Flags of a member's header.
const HAS_CHECKSUM: u32 = 2;
const HAS_EXTRA: u32 = 4;
const HAS_NAME: u32 = 8;
const HAS_COMMENT: u32 = 16;

/// A place inside a gzip file where decompressing can begin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Restart {
    /// Decompressed bytes before it.
    offset: u64,
    /// Bits of the file before it.
    bit: u64,
    /// Decompressed bytes of its member before it, and their checksum.
    member: (u64, u32),
    /// The state of its member's data.
    pause: Pause,
}

impl Restart {
    /// Decompressed bytes before it.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The byte of the file that it lies in.
    pub(super) fn byte(&self) -> u64 {
        self.bit / 8
    }
}

/// The restarts that a reader noted: the last one before the position asked for last, and all after.
#[derive(Clone, Default)]
pub(super) struct Restarts(Arc<Mutex<VecDeque<Arc<Restart>>>>);

impl Restarts {
    fn note(&self, restart: Arc<Restart>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(restart);
    }

    /// The last one before a position, none of which lies before the one asked for last.
    pub(super) fn before(&self, bytes: u64) -> Option<Arc<Restart>> {
        let mut restarts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while restarts.get(1).is_some_and(|next| next.offset <= bytes) {
            restarts.pop_front();
        }
        restarts.front().filter(|first| first.offset <= bytes).cloned()
    }
}

/// Where a reader is.
enum Place {
    /// Before a member, or at the end of the file.
    Member,
    /// In a member's data.
    Data,
}

/// Decompresses a gzip file.
pub(super) struct Gzip<R> {
    bits: Bits<R>,
    place: Place,
    inflate: Inflate,
    /// Of the member's bytes since the reader began, which is behind the `before` ones.
    crc: Crc,
    before: (u64, u32),
    member_bytes: u64,
    /// Bytes decompressed, with those before a restart, and as many at the last one.
    offset: u64,
    noted: u64,
    restarts: Restarts,
}

impl<R: Read> Gzip<R> {
    /// Reads from a file's beginning.
    pub(super) fn new(file: R) -> Self {
        Self {
            bits: Bits::new(file, 0),
            place: Place::Member,
            inflate: Inflate::default(),
            crc: Crc::new(),
            before: (0, 0),
            member_bytes: 0,
            offset: 0,
            noted: 0,
            restarts: Restarts::default(),
        }
    }

    /// Reads on from a restart, with the file open at the byte that it lies in.
    pub(super) fn restart(file: R, from: &Arc<Restart>) -> io::Result<Self> {
        let mut bits = Bits::new(file, from.byte());
        bits.take((from.bit % 8) as u32)?;
        let reader = Self {
            bits,
            place: Place::Data,
            inflate: Inflate::resume(&from.pause)?,
            crc: Crc::new(),
            before: from.member,
            member_bytes: from.member.0,
            offset: from.offset,
            noted: from.offset,
            restarts: Restarts::default(),
        };
        reader.restarts.note(from.clone());
        Ok(reader)
    }

    /// The restarts that are noted from here on.
    pub(super) fn restarts(&self) -> Restarts {
        self.restarts.clone()
    }

    /// Decompresses on until something is ready; `false` at the end of the file.
    fn advance(&mut self) -> io::Result<bool> {
        while self.inflate.ready().is_empty() {
            match self.place {
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
            let member = (self.member_bytes, self.member_crc());
            self.restarts.note(Arc::new(Restart { offset, bit, member, pause }));
            self.noted = offset;
        }
        self.inflate.decompress(&mut self.bits)?;
        let made = self.inflate.ready();
        self.crc.update(made);
        self.member_bytes += made.len() as u64;
        self.offset += made.len() as u64;
        Ok(())
    }

    /// Reads a member's header (RFC 1952).
    fn begin_member(&mut self) -> io::Result<()> {
        let bits = &mut self.bits;
        let (magic, method, flags) = (bits.take(16)?, bits.take(8)?, bits.take(8)?);
        if (magic, method) != (0x8b1f, DEFLATE) || flags > 31 {
            return Err(corrupt("what follows is not a gzip member"));
        }
        // The time and the system of whoever made it.
        bits.take(32)?;
        bits.take(16)?;
        if flags & HAS_EXTRA != 0 {
            for _ in 0..bits.take(16)? {
                bits.take(8)?;
            }
        }
        for text in [HAS_NAME, HAS_COMMENT] {
            while flags & text != 0 && bits.take(8)? != 0 {}
        }
        if flags & HAS_CHECKSUM != 0 {
            bits.take(16)?;
        }
        self.inflate = Inflate::default();
        self.crc.reset();
        (self.before, self.member_bytes) = ((0, 0), 0);
        self.place = Place::Data;
        Ok(())
    }

    /// Checks a member against the checksum and the length behind it.
    fn end_member(&mut self) -> io::Result<()> {
        self.bits.align();
        let (crc, length) = (self.bits.take(32)?, self.bits.take(32)?);
        let found = self.member_crc();
        if crc != found {
            let reason = format!("its checksum is {found:08x}, and {crc:08x} is written there");
            return Err(corrupt(&reason));
        }
        if length != self.member_bytes as u32 {
            return Err(corrupt("it is not as long as is written there"));
        }
        self.place = Place::Member;
        Ok(())
    }

    /// The checksum of the member's bytes so far.
    fn member_crc(&self) -> u32 {
        let (bytes, crc) = self.before;
        crc_before(crc, self.member_bytes - bytes) ^ self.crc.sum()
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

/// What a text's CRC-32 contributes to that of the text with `bytes` more behind it: the CRC times
/// x^(8 bytes), as polynomials modulo CRC-32's, whose highest power is the lowest bit.
fn crc_before(crc: u32, bytes: u64) -> u32 {
    let (mut product, mut power, mut left) = (crc, 1 << (31 - 8), bytes);
    while left > 0 {
        if left & 1 == 1 {
            product = times(product, power);
        }
        power = times(power, power);
        left >>= 1;
    }
    product
}

/// The product of two polynomials modulo CRC-32's.
fn times(one: u32, mut other: u32) -> u32 {
    let mut product = 0;
    for power in (0..32).rev() {
        if one >> power & 1 == 1 {
            product ^= other;
        }
        // Times x.
        other = (other >> 1) ^ if other & 1 == 1 { 0xedb8_8320 } else { 0 };
    }
    product
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::*;

    fn gzip(text: &[u8], level: u32) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        Gzip::new(bytes).read_to_end(&mut text).map(|_| text)
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

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut with_header = gzip(b"", 6)[..10].to_vec();
            with_header.extend(bytes);
            let _ = read(&with_header);
        }

        #[test]
        fn crcs_of_parts_make_that_of_the_whole(
            one in prop::collection::vec(any::<u8>(), 0..50),
            other in prop::collection::vec(any::<u8>(), 0..400),
        ) {
            let crc = |bytes: &[u8]| {
                let mut crc = Crc::new();
                crc.update(bytes);
                crc.sum()
            };
            let joined = crc_before(crc(&one), other.len() as u64) ^ crc(&other);
            prop_assert_eq!(joined, crc(&[one, other].concat()));
        }
    }

    /// The restarts noted while all of a file is read, as they come out of a saved position.
    fn restarts_of(bytes: &[u8]) -> Vec<Arc<Restart>> {
        let mut reader = Gzip::new(bytes);
        io::copy(&mut reader, &mut io::sink()).unwrap();
        let noted = reader.restarts().0.lock().unwrap().clone();
        let saved = serde_json::to_string(&noted).unwrap();
        assert!(saved.len() < noted.len() * (48 << 10), "{} bytes", saved.len());
        serde_json::from_str(&saved).unwrap()
    }

    #[test]
    fn reading_begins_at_any_restart_and_still_checks_the_whole() {
        let text = lines(400_000);
        let (first, second) = text.split_at(text.len() / 3);
        let bytes = [gzip(first, 6), gzip(second, 1)].concat();
        let restarts = restarts_of(&bytes);
        // Also where a block goes on and on, as those of level 1 do.
        assert_eq!(restarts.len() as u64, text.len() as u64 / SPACING);
        for restart in restarts {
            let (offset, byte) = (restart.offset() as usize, restart.byte() as usize);
            let mut found = Vec::new();
            Gzip::restart(&bytes[byte..], &restart).unwrap().read_to_end(&mut found).unwrap();
            assert!(found == text[offset..], "from {offset} on");
            let mut damaged = bytes[byte..].to_vec();
            let end = damaged.len() - 8;
            damaged[end] ^= 1;
            let read = Gzip::restart(&damaged[..], &restart).unwrap().read_to_end(&mut found);
            assert!(read.unwrap_err().to_string().contains("its checksum is"));
        }
    }

    #[test]
    fn a_position_asks_for_the_last_restart_before_it() {
        let restart = |offset| {
            let pause = Inflate::default().pause().expect("it is before a block");
            Arc::new(Restart { offset, bit: 0, member: (0, 0), pause })
        };
        let restarts = Restarts::default();
        assert_eq!(restarts.before(100), None);
        [10, 20, 30].into_iter().for_each(|offset| restarts.note(restart(offset)));
        for (bytes, expected) in [(5, None), (10, Some(10)), (25, Some(20)), (90, Some(30))] {
            assert_eq!(restarts.before(bytes).map(|found| found.offset), expected, "{bytes}");
        }
    }
}
