//! Writes a sorted table of keys and values like LevelDB and TensorFlow, byte for byte: blocks of entries that
//! share prefixes, a block that lists them, a footer. The reader is `foreign/tensorflow/table.rs`.

use crate::foreign::{FOOTER, MAGIC, masked_crc32c};

/// Size in bytes at which a block ends, as in TensorFlow.
const BLOCK_SIZE: usize = 256 << 10;

/// One in this many entries of a block has its full key; in the block that lists the others, every
/// entry has.
const RESTART_INTERVAL: usize = 16;

/// A table that is being written.
pub(super) struct TableBuilder {
    out: Vec<u8>,
    block: Block,
    index: Block,
    last_key: Vec<u8>,
    /// The place of the last complete block, until the first key after it is known.
    ended: Option<[u64; 2]>,
    block_size: usize,
}

impl Default for TableBuilder {
    fn default() -> Self {
        Self::with_blocks_of(BLOCK_SIZE)
    }
}

impl TableBuilder {
    fn with_blocks_of(block_size: usize) -> Self {
        let (block, index) = (Block::new(RESTART_INTERVAL), Block::new(1));
        Self { out: Vec::new(), block, index, last_key: Vec::new(), ended: None, block_size }
    }

    /// Adds an entry; its key must be greater than the last one.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) {
        if let Some(place) = self.ended.take() {
            self.index.add(&separator(&self.last_key, key), &handle(place));
        }
        self.block.add(key, value);
        self.last_key = key.to_vec();
        if self.block.size() >= self.block_size {
            self.end_block();
        }
    }

    /// The bytes of the table.
    pub(super) fn finish(mut self) -> Vec<u8> {
        if !self.block.is_empty() {
            self.end_block();
        }
        // LevelDB's block of filters; TensorFlow has none.
        let filters = self.put(Block::new(RESTART_INTERVAL));
        if let Some(place) = self.ended.take() {
            self.index.add(&successor(&self.last_key), &handle(place));
        }
        let index = std::mem::replace(&mut self.index, Block::new(1));
        let index = self.put(index);
        let mut footer = [handle(filters), handle(index)].concat();
        footer.resize(FOOTER as usize - 8, 0);
        self.out.extend(footer);
        self.out.extend(MAGIC.to_le_bytes());
        self.out
    }

    fn end_block(&mut self) {
        let block = std::mem::replace(&mut self.block, Block::new(RESTART_INTERVAL));
        self.ended = Some(self.put(block));
    }

    /// Writes a block with its trailer, and returns its offset and its length in bytes.
    fn put(&mut self, block: Block) -> [u64; 2] {
        let (start, mut bytes) = (self.out.len(), block.finish());
        let length = bytes.len();
        // Not compressed.
        bytes.push(0);
        let sum = masked_crc32c(&bytes);
        self.out.extend(bytes);
        self.out.extend(sum.to_le_bytes());
        [start as u64, length as u64]
    }
}

/// A block of entries; each entry stores how many bytes of its key it shares with the entry before.
struct Block {
    bytes: Vec<u8>,
    /// Offsets of the entries that share nothing.
    restarts: Vec<u32>,
    interval: usize,
    /// Number of entries since the last restart.
    count: usize,
    last_key: Vec<u8>,
}

impl Block {
    fn new(interval: usize) -> Self {
        Self { bytes: Vec::new(), restarts: vec![0], interval, count: 0, last_key: Vec::new() }
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size(&self) -> usize {
        self.bytes.len() + 4 * (self.restarts.len() + 1)
    }

    fn add(&mut self, key: &[u8], value: &[u8]) {
        if self.count == self.interval {
            self.restarts.push(self.bytes.len() as u32);
            self.count = 0;
            self.last_key.clear();
        }
        let shared = shared(&self.last_key, key);
        for number in [shared, key.len() - shared, value.len()] {
            put_varint(&mut self.bytes, number as u64);
        }
        self.bytes.extend_from_slice(&key[shared..]);
        self.bytes.extend_from_slice(value);
        self.last_key = key.to_vec();
        self.count += 1;
    }

    fn finish(mut self) -> Vec<u8> {
        let count = self.restarts.len() as u32;
        let numbers = self.restarts.iter().chain([&count]);
        self.bytes.extend(numbers.flat_map(|number| number.to_le_bytes()));
        self.bytes
    }
}

/// Number of leading bytes that two keys have in common.
fn shared(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Returns a short key that is at least the last key of a block and less than the first key of the
/// next.
fn separator(last: &[u8], next: &[u8]) -> Vec<u8> {
    let at = shared(last, next);
    match (last.get(at), next.get(at)) {
        (Some(low), Some(high)) if low.checked_add(1).is_some_and(|middle| middle < *high) => {
            [&last[..at], &[low + 1]].concat()
        }
        _ => last.to_vec(),
    }
}

/// Returns a short key that is at least the last key of the table.
fn successor(last: &[u8]) -> Vec<u8> {
    match last.iter().position(|byte| *byte != 0xff) {
        Some(at) => [&last[..at], &[last[at] + 1]].concat(),
        None => last.to_vec(),
    }
}

fn handle(place: [u64; 2]) -> Vec<u8> {
    let mut bytes = Vec::new();
    place.into_iter().for_each(|number| put_varint(&mut bytes, number));
    bytes
}

/// Appends a varint: seven bits per byte, the lowest first.
fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;
    use crate::foreign::read_table;
    use gimlet_storage::Path;

    /// Reads back a table of these entries.
    fn read(entries: &BTreeMap<Vec<u8>, Vec<u8>>, block_size: usize) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut table = TableBuilder::with_blocks_of(block_size);
        entries.iter().for_each(|(key, value)| table.add(key, value));
        let dir = tempfile::tempdir().unwrap();
        let file = Path::try_from(dir.path()).unwrap().join("model.ckpt-1.index");
        file.write_atomic(&table.finish()).unwrap();
        read_table(&file.open_ranges().unwrap()).unwrap().into_iter().collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_table_is_read_as_it_was_written(
            entries in btree_map(vec(prop_oneof![0..3_u8, 0xfd..=0xff_u8], 0..12), vec(any::<u8>(), 0..40), 0..60),
            block_size in 1..400_usize,
        ) {
            prop_assert_eq!(read(&entries, block_size), entries);
        }
    }

    #[test]
    fn many_names_and_one_longer_than_a_block_are_read_again() {
        let name = |number: u32| format!("encoder/block_{number:05}/layer_000/SelfAttention/q");
        let mut entries: BTreeMap<_, _> =
            (0..12_000).map(|number| (name(number).into_bytes(), vec![7; 40])).collect();
        entries.insert(vec![b'x'; BLOCK_SIZE + 1], vec![1]);
        entries.insert(Vec::new(), vec![8, 1]);
        assert!(read(&entries, BLOCK_SIZE) == entries);
    }

    #[test]
    fn what_lists_blocks_has_short_keys() {
        let check = |last: &str, next: &str, expected: &str| {
            assert_eq!(separator(last.as_bytes(), next.as_bytes()), expected.as_bytes());
        };
        check("decoder/x", "encoder/y", "decoder/x");
        check("decoder/x", "shared", "e");
        check("block_1", "block_10", "block_1");
        assert_eq!(successor(b"shared"), b"t");
        assert_eq!(successor(b"\xff\xffa"), b"\xff\xffb");
    }
}
