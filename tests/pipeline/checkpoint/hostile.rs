//! Files made to do harm end in an error, at once and in little memory.

use gimlet::models::open;
use gimlet::storage::Path;

use super::{copied, files, fixture, overwrite};

/// A frame of OCDBT around a body, with its checksum.
fn frame(magic: u32, body: &[u8], compression: u8) -> Vec<u8> {
    let mut bytes = magic.to_be_bytes().to_vec();
    bytes.extend((14 + body.len() as u64 + 4).to_le_bytes());
    bytes.extend([0, compression]);
    bytes.extend(body);
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

const NODE: u32 = 0x0cdb_20de;

/// A number in seven bits a byte.
fn number(number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = number;
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

/// A manifest whose newest tree begins with a node of this length and height at the start of `d/x`.
fn manifest(length: usize, height: u8) -> Vec<u8> {
    let mut body = vec![0; 16]; // identifier
    body.extend([0, 1, 1, 4, 0]); // kind, limits, arity, compression
    body.extend([1, 3, 0, b'd', b'/', b'x']); // one file
    body.extend([1, 1, height, 0, 0]);
    body.extend(number(length));
    body.extend([1, 1, 1]);
    body.extend([0; 8]); // time
    body.push(0); // older versions
    frame(0x0cdb_3a2a, &body, 0)
}

/// A node of one child, itself, under a prefix.
fn own_child(height: u8, length: u8) -> Vec<u8> {
    let mut body = vec![height, 1, 3, 0, b'd', b'/', b'x', 1];
    body.extend([1, 1, b'k', 0, 0, length, 1, 1, 1]);
    frame(NODE, &body, 0)
}

fn database(manifest: &[u8], data: &[u8]) -> (tempfile::TempDir, Path) {
    let (scratch, dir) = copied(&fixture("orbax/numbered/checkpoint_5/state"));
    overwrite(&dir.join("manifest.ocdbt"), manifest);
    overwrite(&dir.join("d/x"), data);
    (scratch, dir)
}

fn check_database(manifest: &[u8], data: &[u8], expected: &str) {
    let (_dir, dir) = database(manifest, data);
    let error = open(&dir).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains(expected), "{error}");
}

#[test]
fn a_tree_that_meets_itself_is_refused() {
    let node = own_child(200, 35);
    assert_eq!(node.len(), 35);
    check_database(&manifest(35, 200), &node, "lies below itself");
    check_database(&manifest(35, 201), &node, "is of height 200, expected 201");
}

#[test]
fn claims_of_nodes_are_checked_before_memory_is_taken() {
    check_database(&manifest(100, 0), b"short", "is truncated");
    check_database(&manifest(5, 0), b"short", "is truncated");
    let huge_count = frame(NODE, &[0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], 0);
    check_database(&manifest(huge_count.len(), 0), &huge_count, "claims 4398046511103 entries");
    let huge_value = frame(NODE, &[0, 0, 1, 1, b'k', 0xff, 0xff, 0xff, 0xff, 0x7f, 0], 0);
    check_database(&manifest(huge_value.len(), 0), &huge_value, "ends early");
    let other_magic = frame(1, &[0, 0, 0], 0);
    check_database(&manifest(other_magic.len(), 0), &other_magic, "expected the mark of OCDBT");
}

#[test]
fn a_zstd_bomb_is_not_unpacked() {
    // A frame of zeros: a block of one byte, repeated 128 KiB each, 10,000 times.
    let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
    for _ in 0..10_000 {
        let block: u32 = (128 << 10) << 3 | 1 << 1;
        bomb.extend(&block.to_le_bytes()[..3]);
        bomb.push(0);
    }
    bomb.extend([1, 0, 0]);
    let node = frame(NODE, &bomb, 1);
    check_database(&manifest(node.len(), 0), &node, "unpacks to more than");
}

/// A leaf of this many keys of four bytes, each a part of a file with a name of so many bytes.
fn leaf(num_keys: usize, name_length: usize) -> Vec<u8> {
    let name = format!("d/{}", "x".repeat(name_length - 2));
    let mut body = [&[0, 1][..], &number(name.len()), &[0], name.as_bytes()].concat();
    body.extend(number(num_keys));
    body.extend(vec![0; num_keys - 1]); // bytes shared with the key before
    body.extend(vec![4; num_keys]);
    body.extend((0..num_keys).flat_map(|key| format!("{key:04x}").into_bytes()));
    body.extend(vec![0; num_keys]); // lengths
    body.extend(vec![1; num_keys]); // kinds
    body.extend(vec![0; 2 * num_keys]); // files and offsets
    frame(NODE, &body, 0)
}

#[test]
fn a_tree_counts_what_it_takes_in_memory() {
    // A database without the arrays that the tree of the checkpoint names is refused later.
    let small = leaf(10_000, 100);
    let (_dir, dir) = database(&manifest(small.len(), 0), &small);
    let message = open(&dir).map_or_else(|error| error.to_string(), |_| String::new());
    assert!(!message.contains("in memory"), "{message}");
    // Its file names, one in each key, take 600 MB.
    let large = leaf(10_000, 60_000);
    check_database(&manifest(large.len(), 0), &large, "in memory, expected 536870912 at most");
}

#[test]
fn any_flipped_bit_of_a_tree_is_noticed() {
    let (_dir, dir) = copied(&fixture("orbax/deep/checkpoint_5/state"));
    let manifest = dir.join("manifest.ocdbt");
    let bytes = manifest.read().unwrap();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        overwrite(&manifest, &changed);
        let error = open(&dir).unwrap_err();
        assert!(error.is_damage() && error.to_string().contains("manifest.ocdbt"), "{error}");
    }
}

#[test]
fn no_flipped_bit_makes_reading_panic_or_take_long() {
    for name in ["orbax/deep/checkpoint_5", "orbax/codecs/checkpoint_5", "packed/checkpoint_5"] {
        let (_dir, dir) = copied(&fixture(name));
        for (number, file) in files(&dir).into_iter().enumerate() {
            let bytes = file.read().unwrap();
            for at in (number % 7..bytes.len()).step_by(bytes.len() / 2 + 1) {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << (number % 8);
                overwrite(&file, &changed);
                if let Err(error) = open(&dir).and_then(|stored| stored.verify()) {
                    assert!(error.is_damage() || error.is_users(), "{file}: {error}");
                }
            }
            overwrite(&file, &bytes);
        }
    }
}

#[test]
fn arrays_that_claim_more_than_memory_are_refused() {
    let (_dir, dir) = copied(&fixture("orbax/files/checkpoint_3/state"));
    let file = dir.join("target.encoder.norm.scale/.zarray");
    let text = file.read_to_string().unwrap();
    let check = |shape: &str, chunks: &str, fill: &str| {
        let text = text.replace("\"shape\":[6]", &format!("\"shape\":[{shape}]"));
        let text = text.replace("\"chunks\":[6]", &format!("\"chunks\":[{chunks}]"));
        overwrite(&file, text.replace("null", fill).as_bytes());
        let read = open(&dir).and_then(|stored| stored.read("target/encoder/norm/scale"));
        let error = read.unwrap_err();
        assert!(error.is_damage() || error.is_users(), "{error}");
    };
    let huge = (1_u64 << 60).to_string();
    check(&huge, &huge, "null");
    check(&huge, "1", "null");
    check(&(1_u64 << 63).to_string(), "6", "null");
    // Many chunks, of which only the first exists.
    check(&(1_u64 << 36).to_string(), "6", "null");
}
