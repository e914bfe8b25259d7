//! Files with wrong claims about their content.

use std::io::Write;
use std::slice::from_ref;

use gimlet::checkpoint::{CheckpointError, Stored};
use gimlet::models::open;

use crate::checkpoint::scratch;

fn opened(files: &[(&str, &[u8])]) -> Result<Box<dyn Stored>, CheckpointError> {
    let (_dir, dir) = scratch();
    for (name, bytes) in files {
        dir.join(name).write_atomic(bytes).unwrap();
    }
    open(&dir.join(files[0].0))
}

fn check(files: &[(&str, &[u8])], expected: &str) {
    let message = opened(files).unwrap_err().to_string();
    assert!(message.contains(expected), "{message}");
}

fn safetensors(header: &str, data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; data]].concat()
}

#[test]
fn safetensors_hold_what_their_header_says() {
    let name = "x.safetensors";
    let headed = |header: &str, data, expected: &str| {
        check(&[(name, &safetensors(header, data))], expected);
    };
    let tensor = |shape: &str, from: u64, to: u64| {
        format!(r#"{{"dtype":"F32","shape":{shape},"data_offsets":[{from},{to}]}}"#)
    };
    let one = |shape, from, to| format!(r#"{{"a":{}}}"#, tensor(shape, from, to));
    assert!(opened(&[(name, &safetensors(&one("[2]", 0, 8), 8))]).is_ok());
    headed(&one("[2]", 0, 8), 7, "its tensors take 8 bytes, but it holds 7");
    headed(&one("[2]", 0, 8), 9, "its tensors take 8 bytes, but it holds 9");
    headed(&one("[1152921504606846976]", 0, 8), 8, "its header: overflow computing buffer size");
    headed(&one("[4294967296,4294967296,2]", 0, 0), 0, "its header: overflow");
    headed(&one("[0,1099511627777]", 0, 0), 0, "`a`: no machine holds float32 of shape");
    headed(&one("[3]", 0, 8), 8, "its header: invalid shape, data type, or offset");
    headed(&one("[2]", 8, 0), 8, "its header: invalid offset for tensor `a`");
    headed(&one("[2]", 4, 12), 12, "invalid offset for tensor `a`");
    let two = format!(r#"{{"a":{},"b":{}}}"#, tensor("[2]", 0, 8), tensor("[2]", 4, 12));
    headed(&two, 12, "invalid offset for tensor `b`");
    let last = u64::MAX;
    headed(&one("[0]", last, last), 0, "invalid offset for tensor `a`");
    headed(&"[".repeat(100_000), 0, "its header");
    let twice = two.replace("\"b\"", "\"a\"").replace("[4,12]", "[8,16]");
    headed(&twice, 16, "invalid offset for tensor `a`");
    headed(r#"{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}}"#, 0, "invalid value");
    headed(r#"{"__metadata__":{"format":"pt"}}"#, 0, "it holds no tensors");
    headed(r#"{"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}}"#, 1, "of type F8_E4M3");
    let claim = u64::MAX.to_le_bytes();
    check(&[(name, &claim)], "its header claims 18446744073709551615 bytes");
    check(&[(name, b"ab")], "it ends within its header");
}

#[test]
fn an_index_names_files_beside_it_only() {
    let index = |file: &str| format!(r#"{{"weight_map": {{"shared.weight": "{file}"}}}}"#);
    let open_folder = |text: &str| {
        let (_dir, dir) = scratch();
        dir.join("model.safetensors.index.json").write_atomic(text.as_bytes()).unwrap();
        open(&dir).unwrap_err().to_string()
    };
    for file in ["../x.safetensors", "/x.safetensors", "..", ".", "", "x\\u0000y"] {
        let message = open_folder(&index(file));
        assert!(message.contains("is not the name of a file beside it"), "{message}");
    }
    let message = open_folder("{}");
    assert!(message.contains("it is not an index of files"), "{message}");
    let message = open_folder(r#"{"weight_map": {}}"#);
    assert!(message.contains("it holds no tensors"), "{message}");
}

/// Makes a zip archive of one entry; `claimed` is its stated length after unpacking.
fn zip(name: &str, method: u16, stored: &[u8], claimed: u32) -> Vec<u8> {
    let mut fields = Vec::new();
    fields.extend([20, 0, 0, 0]);
    fields.extend(method.to_le_bytes());
    fields.extend([0; 8]);
    fields.extend((stored.len() as u32).to_le_bytes());
    fields.extend(claimed.to_le_bytes());
    fields.extend((name.len() as u16).to_le_bytes());
    fields.extend([0; 2]);
    let local = [b"PK\x03\x04", &fields[..], name.as_bytes(), stored].concat();
    let directory = [b"PK\x01\x02\x14\x00", &fields[..], &[0; 14], name.as_bytes()].concat();
    let mut end = b"PK\x05\x06\0\0\0\0\x01\0\x01\0".to_vec();
    end.extend((directory.len() as u32).to_le_bytes());
    end.extend((local.len() as u32).to_le_bytes());
    end.extend([0; 2]);
    [local, directory, end].concat()
}

#[test]
fn zip_bombs_are_not_unpacked() {
    let mut packed = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(&vec![b'N'; 1 << 24]).unwrap();
    let bomb = zip("archive/data.pkl", 8, &packed.finish().unwrap(), 1 << 24);
    check(&[("x.pt", &bomb)], "is compressed, which torch.save never does");
    let claims = zip("archive/data.pkl", 0, b"N.", 1 << 30);
    check(&[("x.pt", &claims)], "is compressed, which torch.save never does");
    let other = zip("readme.txt", 0, b"hello", 5);
    check(&[("x.pt", &other)], "a zip archive without a `data.pkl`");
    let cut = zip("archive/data.pkl", 0, b"N.", 2);
    check(&[("x.pt", &cut[..cut.len() - 8])], "its end is missing");
    check(&[("x.pt", &cut)], "it holds None, expected a dict of tensors");
}

/// A field of a protocol buffer: a number, or bytes.
fn number(tag: u8, value: u64) -> Vec<u8> {
    [vec![tag << 3], varint(value)].concat()
}

fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    [&[tag << 3 | 2], &varint(bytes.len() as u64)[..], bytes].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// An entry of a tensor bundle: floats of one dimension at some bytes.
fn entry(elements: u64, offset: u64, size: u64) -> Vec<u8> {
    entry_of(&[elements], offset, size)
}

/// Makes an entry of floats of any shape.
fn entry_of(shape: &[u64], offset: u64, size: u64) -> Vec<u8> {
    let shape: Vec<u8> = shape.iter().flat_map(|size| field(2, &number(1, *size))).collect();
    let place = [number(4, offset), number(5, size)].concat();
    [number(1, 1), field(2, &shape), place].concat()
}

/// A table of LevelDB with one block.
fn table(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let block = |entries: &[(&str, Vec<u8>)]| {
        let mut block = Vec::new();
        for (key, value) in entries {
            // One byte a character, since the keys of slices are not text.
            let key: Vec<u8> = key.chars().map(|c| c as u8).collect();
            block.push(0);
            block.extend(varint(key.len() as u64));
            block.extend(varint(value.len() as u64));
            block.extend([&key, &value[..]].concat());
        }
        block.extend([0u32.to_le_bytes(), 1u32.to_le_bytes()].concat());
        block.push(0);
        let sum = crc32c::crc32c(&block).rotate_right(15).wrapping_add(0xa282_ead8);
        [block, sum.to_le_bytes().to_vec()].concat()
    };
    let handle =
        |at: usize, block: &[u8]| [varint(at as u64), varint(block.len() as u64 - 5)].concat();
    let data = block(entries);
    let index = block(&[("z", handle(0, &data))]);
    let mut footer = [handle(0, &data), handle(data.len(), &index)].concat();
    footer.resize(40, 0);
    footer.extend(0xdb47_7524_8b80_fb57_u64.to_le_bytes());
    [data, index, footer].concat()
}

#[test]
fn a_checksum_covers_a_tensor_that_is_read_in_parts() {
    let (_dir, dir) = scratch();
    let size = (64 << 20) + 8;
    let data = dir.join("m.data-00000-of-00001");
    data.set_size(size).unwrap();
    let sum = crc32c::crc32c(&vec![0; size as usize]).rotate_right(15).wrapping_add(0xa282_ead8);
    let with_sum = |sum: u32| [entry(size / 4, 0, size), vec![0x35], sum.to_le_bytes().to_vec()];
    let index = |sum| table(&[("", number(1, 1)), ("a", with_sum(sum).concat())]);
    let file = dir.join("m.index");
    file.write_atomic(&index(sum)).unwrap();
    let stored = open(&file).unwrap();
    stored.verify().unwrap();
    assert!(stored.has_checksums() && stored.damages(&mut |_| ()).unwrap().is_empty());
    assert_eq!(open(&file).unwrap().read_part("target/a", from_ref(&(2..4))).unwrap().data, [0; 8]);
    file.write_atomic(&index(sum ^ 1)).unwrap();
    let stored = open(&file).unwrap();
    let error = stored.read_part("target/a", from_ref(&(2..4))).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("another checksum"), "{error}");
    assert!(stored.verify().unwrap_err().to_string().contains("`a`: its bytes have another"));
    let mut done = 0;
    assert_eq!(stored.damages(&mut |bytes| done += bytes).unwrap().len(), 1);
    assert_eq!(done, size);
}

/// Makes the entry of a variable of floats in slices: for each dimension its start and its length.
fn sliced(shape: &[u64], slices: &[&[(u8, u8)]]) -> Vec<u8> {
    let extent = |(start, length): &(u8, u8)| {
        field(1, &[number(1, (*start).into()), number(2, (*length).into())].concat())
    };
    let slice = |slice: &&[(u8, u8)]| field(7, &slice.iter().flat_map(extent).collect::<Vec<u8>>());
    let listed: Vec<u8> = slices.iter().flat_map(slice).collect();
    [entry_of(shape, 0, 0), listed].concat()
}

/// The key of such a slice's entry.
fn key(slice: &[(u8, u8)]) -> String {
    let mut code = vec![0, b'a', 0, 1, 1, slice.len() as u8];
    slice.iter().for_each(|(start, length)| code.extend([0x80 + start, 0x80 + length]));
    code.iter().map(|byte| char::from(*byte)).collect()
}

/// Checks that a bundle with that table and 12 bytes of data is read if no error is expected, else
/// refused with it.
fn check_bundle(entries: &[(&str, Vec<u8>)], expected: &str) {
    let table = table(entries);
    let files = [("m.index", &table[..]), ("m.data-00000-of-00001", &[0; 12][..])];
    match opened(&files) {
        Ok(_) => assert_eq!(expected, "", "it was read"),
        Err(error) => {
            let message = error.to_string();
            assert!(!expected.is_empty() && message.contains(expected), "{message}");
        }
    }
}

#[test]
fn slices_hold_each_element_once() {
    let check = |slices: &[(u8, u8)], entries: Vec<(String, Vec<u8>)>, expected: &str| {
        let mut all = vec![(String::new(), number(1, 1))];
        all.extend(entries);
        let slices: Vec<_> = slices.iter().map(std::slice::from_ref).collect();
        all.push(("a".to_string(), sliced(&[3], &slices)));
        let all: Vec<_> = all.iter().map(|(key, entry)| (&key[..], entry.clone())).collect();
        check_bundle(&all, expected);
    };
    let held = |start, length, offset| {
        let size = 4 * u64::from(length);
        (key(&[(start, length)]), entry(length.into(), offset, size))
    };
    check(&[(0, 1), (1, 2)], vec![held(0, 1, 0), held(1, 2, 4)], "");
    check(&[(0, 1), (1, 2)], vec![held(0, 1, 0)], "its slice [1..3] has no entry");
    check(&[(0, 2), (1, 2)], vec![held(0, 2, 0), held(1, 2, 4)], "hold the same elements");
    check(&[(0, 1), (2, 1)], vec![held(0, 1, 0), held(2, 1, 4)], "hold 2 of its 3 elements");
    check(&[(0, 1), (1, 3)], vec![held(0, 1, 0), held(1, 3, 0)], "outside of its shape [3]");
    check(&[(0, 1), (1, 2)], vec![held(0, 1, 4), held(1, 2, 4)], "lie on the same bytes");
    let wrong = (key(&[(1, 2)]), entry(1, 4, 4));
    check(&[(0, 1), (1, 2)], vec![held(0, 1, 0), wrong], "is of another type or shape");
    check(&[(0, 1); 5000], vec![], "it lies in 5000 slices, and 4096 are read at most");
}

#[test]
fn slices_without_elements_are_read() {
    let check = |shape: &[u64], slices: &[&[(u8, u8)]], expected: &[u8]| {
        let mut all = vec![(String::new(), number(1, 1))];
        let mut offset = 0;
        for slice in slices {
            let sizes: Vec<u64> = slice.iter().map(|(_, length)| u64::from(*length)).collect();
            let size = 4 * sizes.iter().product::<u64>();
            let held = &expected[offset as usize..(offset + size) as usize];
            let sum = crc32c::crc32c(held).rotate_right(15).wrapping_add(0xa282_ead8);
            let entry = [&entry_of(&sizes, offset, size)[..], &[0x35], &sum.to_le_bytes()].concat();
            all.push((key(slice), entry));
            offset += size;
        }
        all.push(("a".to_string(), sliced(shape, slices)));
        let all: Vec<_> = all.iter().map(|(key, entry)| (&key[..], entry.clone())).collect();
        let (_dir, dir) = scratch();
        dir.join("m.index").write_atomic(&table(&all)).unwrap();
        dir.join("m.data-00000-of-00001").write_atomic(expected).unwrap();
        let stored = open(&dir.join("m.index")).unwrap();
        let name = stored.leaves()[0].name.to_string();
        assert_eq!(stored.read(&name).unwrap().data, expected, "{slices:?}");
    };
    let bytes: Vec<u8> = (0..96).collect();
    check(&[4, 6], &[&[(0, 4), (0, 6)], &[(0, 4), (3, 0)]], &bytes);
    check(&[4, 6], &[&[(0, 2), (0, 6)], &[(0, 4), (3, 0)], &[(2, 2), (0, 6)]], &bytes);
    check(&[4, 0], &[&[(0, 2), (0, 0)], &[(2, 2), (0, 0)]], &[]);
}

#[test]
fn bundles_hold_what_their_table_says() {
    let header = || number(1, 1);
    check_bundle(&[("", header()), ("a", entry(1, 0, 4)), ("b", entry(2, 4, 8))], "");
    check_bundle(
        &[("", header()), ("a", entry(2, 0, 8)), ("b", entry(2, 4, 8))],
        "`a` and `b` lie on the same bytes",
    );
    check_bundle(&[("", header()), ("a", entry(4, 0, 16))], "`a` ends at byte 16");
    check_bundle(&[("", header()), ("a", entry(1 << 40, 0, 1 << 42))], "`a` ends at byte");
    check_bundle(&[("", header()), ("a", entry(1 << 60, 0, 1 << 62))], "do not hold float32");
    check_bundle(&[("", header()), ("a", entry(1 << 62, 0, 8))], "do not hold float32");
    check_bundle(&[("", header()), ("a", entry(u64::MAX, 0, 8))], "it has no shape");
    check_bundle(&[("", header()), ("a", entry(1, u64::MAX, 4))], "it lies before the file");
    let elsewhere = [entry(1, 0, 4), number(3, 7)].concat();
    check_bundle(&[("", header()), ("a", elsewhere)], "it lies in file 7 of 1");
    check_bundle(&[("", number(2, 1)), ("a", entry(1, 0, 4))], "big-endian");
    check_bundle(&[("", number(1, 1 << 30)), ("a", entry(1, 0, 4))], "files of data");
    check_bundle(&[("a", entry(1, 0, 4))], "it has no header");
    check_bundle(&[("", header()), ("b", entry(1, 0, 4)), ("a", entry(1, 4, 4))], "not in order");
    check_bundle(&[("", header()), ("a", b"\xff\xff".to_vec())], "`a`: ");
}
