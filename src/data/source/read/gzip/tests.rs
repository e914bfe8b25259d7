//! Tests of gzip files and zlib streams by other writers, read completely and from every restart.

#![cfg(test)]

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

/// Lines with some repetitions, as in text.
fn lines(count: u64) -> Vec<u8> {
    let line = |i: u64| format!("line {i} of {}\n", i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40);
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
            // Some bits of a header, and the bits that fill the last byte, have no meaning.
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

/// Takes all ready bytes, after waiting for some.
fn pass(reader: &mut Gzip<&[u8]>) -> bool {
    let count = reader.fill_buf().unwrap().len();
    reader.consume(count);
    count > 0
}

/// The restarts recorded while a whole file is read, as restored from a saved position.
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

/// Checks that reading continues from every restart, and still verifies a member's checksum, whose
/// last byte is `sum` bytes before the end.
fn check_restarts(bytes: &[u8], wrapping: Wrapping, text: &[u8], sum: usize) {
    let restarts = restarts_of(bytes, wrapping);
    // This includes very long blocks, such as those of level 1.
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
    for (literals, distances) in [(vec![200], vec![]), (vec![0; 289], vec![]), (vec![8], vec![16])]
    {
        let Inside::Deflate { member, pause } = restart.inside.clone() else { panic!("zstd") };
        let pause = Pause { codes: Some((literals, distances)), ..pause };
        let inside = Inside::Deflate { member, pause };
        let restart = Arc::new(Restart { inside, ..(*restart).clone() });
        let file = &bytes[restart.byte() as usize..];
        let error = Gzip::restart(file, Wrapping::Gzip, &restart).err().unwrap();
        assert!(error.to_string().contains("too many symbols or too long ones"), "{error}");
    }
}
