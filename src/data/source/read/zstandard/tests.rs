//! Tests of zstd files by the library and by other writers, read completely and from every restart.

#![cfg(test)]

use proptest::prelude::*;
use zstd::stream::raw::CParameter;

use super::*;

/// A restart at every block, and every frame.
const ALL: Spacing = Spacing { bytes: 1, windows: 0 };

fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    Zstd::new(bytes)?.read_to_end(&mut text).map(|_| text)
}

/// Lines with some repetitions, as in text.
fn lines(count: u64) -> Vec<u8> {
    let line = |i: u64| {
        let mixed = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let word = ["the", "of the", "and", "in a", "is to", "was"][mixed as usize % 6];
        format!("line {i} {word} {} {word}\n", mixed >> (24 + i % 30))
    };
    (0..count).map(line).collect::<String>().into_bytes()
}

fn compress(text: &[u8], level: i32, window_log: u32) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), level).unwrap();
    encoder.set_parameter(CParameter::WindowLog(window_log)).unwrap();
    encoder.include_checksum(level % 2 == 0).unwrap();
    io::copy(&mut &text[..], &mut encoder).unwrap();
    encoder.finish().unwrap()
}

/// The restarts recorded while a whole file is read, as restored from a saved position.
fn restarts_of(bytes: &[u8], spacing: Spacing) -> Vec<Arc<Restart>> {
    let mut reader = Zstd { spacing, ..Zstd::new(bytes).unwrap() };
    let mut noted = Vec::new();
    loop {
        let count = reader.fill_buf().unwrap().len();
        reader.consume(count);
        let last = reader.restarts().last();
        if last.as_ref() != noted.last() {
            noted.extend(last);
        }
        if count == 0 {
            break;
        }
    }
    let saved = serde_json::to_string(&noted).unwrap();
    serde_json::from_str(&saved).unwrap()
}

fn read_from(bytes: &[u8], restart: &Arc<Restart>) -> io::Result<Option<Vec<u8>>> {
    let mut text = Vec::new();
    let reader = Zstd::restart(&bytes[restart.byte() as usize..], restart)?;
    let read = |mut reader: Zstd<&[u8]>| reader.read_to_end(&mut text).map(|_| text);
    reader.map(read).transpose()
}

/// Checks that reading continues from every restart, and that there are at least `at_least`
/// restarts.
fn check(bytes: &[u8], text: &[u8], spacing: Spacing, at_least: usize) {
    assert!(read(bytes).unwrap() == text);
    let restarts = restarts_of(bytes, spacing);
    assert!(restarts.len() >= at_least, "{} of {} bytes", restarts.len(), text.len());
    for restart in restarts {
        let found = read_from(bytes, &restart).unwrap().unwrap();
        assert!(found == text[restart.offset() as usize..], "from {} on", restart.offset());
    }
}

#[test]
fn reading_begins_at_any_block() {
    let text = lines(20_000);
    for (level, window_log) in [(-5, 14), (1, 12), (2, 14), (3, 17), (9, 15), (19, 16)] {
        // Some blocks have no restart after them.
        let at_least = (text.len() >> window_log) - 1 - (text.len() >> (window_log + 4));
        check(&compress(&text, level, window_log), &text, ALL, at_least);
    }
}

#[test]
fn reading_begins_at_any_frame() {
    let text = lines(3000);
    let mut bytes = Vec::new();
    for (i, part) in text.chunks(10_000).enumerate() {
        // Frames that are not data lie between them, as in pzstd's files.
        bytes.extend([0x50 + i as u8 % 16, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4]);
        bytes.extend(zstd::encode_all(part, 3).unwrap());
        bytes.extend(zstd::encode_all(&b""[..], 3).unwrap());
    }
    assert!(is_zstd(&bytes));
    check(&bytes, &text, ALL, text.len() / 10_000);
}

/// The text of the committed files, which other programs wrote; `testdata/make.py` has the same
/// text.
fn committed_text() -> Vec<u8> {
    let line = |i: u64| {
        let mixed = i * 2_654_435_761 % (1 << 32);
        let word = ["the", "of the", "and", "in a", "is to", "was"][mixed as usize % 6];
        format!("line {i} {word} {} {word}\n", mixed >> (12 + i % 16))
    };
    (0..1500).map(line).collect::<String>().into_bytes()
}

#[test]
fn what_others_wrote_is_read_from_any_block() {
    let text = committed_text();
    check(include_bytes!("testdata/level1.zst"), &text, ALL, 17);
    check(include_bytes!("testdata/level3.zst"), &text, ALL, 8);
    check(include_bytes!("testdata/level19.zst"), &text, ALL, 4);
    check(include_bytes!("testdata/flushed.zst"), &text, ALL, 10);
    let pzstd = include_bytes!("testdata/pzstd.zst");
    assert!(is_zstd(pzstd) && !pzstd.starts_with(&MAGIC));
    check(pzstd, &text.repeat(3), ALL, 2);
}

#[test]
fn reading_begins_between_what_is_not_compressed() {
    let noise: Vec<u8> = (0..40_000_u32).map(|i| (i.wrapping_mul(i) >> 11) as u8).collect();
    let text = [&lines(3000)[..], &noise, &[b'x'; 70_000], &lines(2000)].concat();
    check(&compress(&text, 3, 13), &text, ALL, 10);
}

#[test]
fn restarts_are_some_windows_apart_and_their_window_is_saved() {
    let text = lines(700_000);
    let bytes = compress(&text, 1, 19);
    let restarts = restarts_of(&bytes, SPACING);
    assert_eq!(restarts.len(), text.len() >> 22);
    check(&bytes, &text, SPACING, 1);
    let saved = serde_json::to_string(&restarts[0]).unwrap();
    assert!(saved.len() < 400 << 10, "{} bytes", saved.len());
}

#[test]
fn large_windows_are_not_kept() {
    let text = lines(60_000);
    for window_log in [23, 24] {
        let restarts = restarts_of(&compress(&text, 1, window_log), ALL);
        assert_eq!(restarts.is_empty(), window_log == 24);
    }
}

#[test]
fn a_file_that_changed_is_not_read_from_a_restart() {
    let text = lines(6000);
    let bytes = compress(&text, 3, 14);
    let restart = restarts_of(&bytes, ALL).remove(3);
    let anew = compress(&text, 1, 14);
    assert!(read_from(&anew, &restart).unwrap().is_none());
    let mut damaged = bytes.clone();
    let place = restart.byte() as usize + AHEAD + 10;
    damaged[place..place + 20].fill(0xff);
    assert!(read_from(&damaged, &restart).is_err());
    // A dictionary that no reader recorded.
    let Inside::Zstd { frame: Some(pause) } = restart.inside.clone() else { panic!("in a frame") };
    for (length, descriptor) in [(0, 0), (9, 0), (100, 0), (pause.dictionary.len(), 255)] {
        let dictionary = pause.dictionary[..length].to_vec();
        let inside =
            Inside::Zstd { frame: Some(Pause { descriptor, dictionary, ..pause.clone() }) };
        let restart = Arc::new(Restart { inside, ..(*restart).clone() });
        assert!(read_from(&bytes, &restart).unwrap().is_none());
    }
}

#[test]
fn damage_is_never_read_as_data() {
    let text = lines(300);
    let bytes = compress(&text, 2, 12);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(read(&damaged).map_or(true, |found| found == text), "byte {at}");
        assert!(at == 0 || read(&bytes[..at]).is_err(), "cut at {at}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_text_is_read_from_any_block(
        words in prop::collection::vec("[a-e]{1,9}|[ -~]{1,30}", 1..60),
        order in prop::collection::vec((any::<prop::sample::Index>(), 1..40_usize), 1..300),
        level in 1..20,
        window_log in 10..15_u32,
    ) {
        let text: String =
            order.iter().map(|(word, times)| words[word.index(words.len())].repeat(*times)).collect();
        check(&compress(text.as_bytes(), level, window_log), text.as_bytes(), ALL, 0);
    }

    #[test]
    fn no_bytes_make_it_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        descriptor in 0..40_u8,
    ) {
        let with_header = [&MAGIC[..], &[0, descriptor], &bytes].concat();
        let _ = read(&with_header);
        // The bytes are read as a block, and as the dictionary of a position.
        if let Some(tables) = Tables::default().behind(&bytes) {
            let _ = tables.offsets_behind(&bytes);
        }
        let _ = Tables::of_dictionary(&bytes);
    }
}
