//! Reads sorted tables of keys and values in the format of LevelDB and TensorFlow: blocks of
//! entries that share prefixes, each with a checksum, optionally compressed; a block that lists
//! them; a footer.

use super::super::sums::mask;
use crate::error::CheckpointError;
use gimlet_storage::RangeFile;

/// The last bytes of the footer.
pub(crate) const MAGIC: u64 = 0xdb47_7524_8b80_fb57;

/// Length of the footer in bytes.
pub(crate) const FOOTER: u64 = 48;

/// Number of bytes after a block: the kind of compression and the checksum.
const TRAILER: u64 = 5;

/// Maximum size in bytes of a table: the table of a model of 10,000 arrays has half a megabyte.
const MAX_TABLE: u64 = 64 << 20;

/// Maximum bytes of all keys and values together, which can exceed the file's size because of
/// shared prefixes.
const MAX_ENTRIES: usize = 256 << 20;

/// A key with its value.
pub(crate) type KeyValue = (Vec<u8>, Vec<u8>);

/// The position of a block in the file.
#[derive(Clone, Copy)]
struct Handle {
    offset: u64,
    length: u64,
}

/// Returns every entry of a table, sorted by key.
///
/// # Errors
/// The table is truncated, or its bytes changed.
pub(crate) fn read_table(file: &RangeFile) -> Result<Vec<KeyValue>, CheckpointError> {
    let damaged = |reason: String| CheckpointError::damaged(file.path(), reason);
    if file.size() > MAX_TABLE || file.size() < FOOTER {
        let reason = "an index has 48 bytes at least and 64 MiB at most";
        return Err(damaged(format!("it has {} bytes; {reason}", file.size())));
    }
    let bytes = file.read(0..file.size())?;
    let (unused, index) = handles(&bytes).ok_or_else(|| {
        damaged(
            "its end is not that of a table: it is truncated, or not a TensorFlow index"
                .to_string(),
        )
    })?;
    block(&bytes, unused).map_err(damaged)?;
    let mut table = Reader { entries: Vec::new(), size: 0 };
    table.add(&block(&bytes, index).map_err(damaged)?).map_err(damaged)?;
    let handles = std::mem::take(&mut table.entries);
    for (_, value) in handles {
        let handle = handle(&mut &value[..]);
        let handle =
            handle.ok_or_else(|| damaged("it lists a block without a valid place".to_string()))?;
        table.add(&block(&bytes, handle).map_err(damaged)?).map_err(damaged)?;
    }
    let is_sorted = table.entries.windows(2).all(|pair| pair[0].0 < pair[1].0);
    match is_sorted {
        true => Ok(table.entries),
        false => Err(damaged("its names are not in order".to_string())),
    }
}

/// Returns the blocks that the footer names: one that TensorFlow leaves empty, and the one that
/// lists the others.
fn handles(bytes: &[u8]) -> Option<(Handle, Handle)> {
    let footer = &bytes[bytes.len() - FOOTER as usize..];
    let (mut handles, magic) = footer.split_at(40);
    if u64::from_le_bytes(magic.try_into().expect("eight bytes")) != MAGIC {
        return None;
    }
    Some((handle(&mut handles)?, handle(&mut handles)?))
}

fn handle(bytes: &mut &[u8]) -> Option<Handle> {
    Some(Handle { offset: varint(bytes)?, length: varint(bytes)? })
}

/// Returns a block, verified and decompressed.
fn block(bytes: &[u8], handle: Handle) -> Result<Vec<u8>, String> {
    let Handle { offset, length } = handle;
    let outside = || format!("a block of {length} bytes from {offset} on lies outside of it");
    let data_end = offset.checked_add(length).ok_or_else(outside)?;
    let end = data_end.checked_add(TRAILER).filter(|end| *end <= bytes.len() as u64);
    let whole = &bytes[offset as usize..end.ok_or_else(outside)? as usize];
    let (summed, sum) = whole.split_at(length as usize + 1);
    let sum = u32::from_le_bytes(sum.try_into().expect("four bytes"));
    if masked_crc32c(summed) != sum {
        return Err(format!("the block at byte {offset} has another checksum than it says"));
    }
    let (data, kind) = summed.split_at(length as usize);
    match kind[0] {
        0 => Ok(data.to_vec()),
        1 => decompress(data)
            .ok_or_else(|| format!("the block at byte {offset} is not valid snappy data")),
        other => Err(format!("the block at byte {offset} has the unknown compression {other}")),
    }
}

/// Decompresses Snappy data; a length that is impossible for the data is refused before memory is
/// allocated.
fn decompress(data: &[u8]) -> Option<Vec<u8>> {
    // Three bytes encode a copy of at most 64 bytes.
    let length = snap::raw::decompress_len(data).ok()?;
    let possible = data.len().saturating_mul(22) + 64;
    (length <= possible).then(|| snap::raw::Decoder::new().decompress_vec(data).ok())?
}

/// CRC-32C as LevelDB stores it: rotated and shifted, since checksums of checksums are weak.
pub(crate) fn masked_crc32c(bytes: &[u8]) -> u32 {
    mask(crc32c::crc32c(bytes))
}

/// The entries that were read so far.
struct Reader {
    entries: Vec<KeyValue>,
    size: usize,
}

impl Reader {
    /// Reads the entries of a block.
    fn add(&mut self, block: &[u8]) -> Result<(), String> {
        let cut = || "a block's entries are cut".to_string();
        let count_at = block.len().checked_sub(4).ok_or_else(cut)?;
        let restarts = u32::from_le_bytes(block[count_at..].try_into().expect("four bytes"));
        let restarts_size = (restarts as usize).checked_mul(4).ok_or_else(cut)?;
        let mut rest = &block[..count_at.checked_sub(restarts_size).ok_or_else(cut)?];
        let mut key: Vec<u8> = Vec::new();
        while !rest.is_empty() {
            let mut length = || -> Option<usize> { varint(&mut rest)?.try_into().ok() };
            let (shared, own, value) = (length(), length(), length());
            let (Some(shared), Some(own), Some(value)) = (shared, own, value) else {
                return Err(cut());
            };
            let (own, after) = rest.split_at_checked(own).ok_or_else(cut)?;
            let (value, after) = after.split_at_checked(value).ok_or_else(cut)?;
            if shared > key.len() {
                return Err(
                    "a name shares more bytes with the one before than that one has".to_string()
                );
            }
            key.truncate(shared);
            key.extend_from_slice(own);
            rest = after;
            self.size += key.len() + value.len() + size_of::<KeyValue>();
            if self.size > MAX_ENTRIES {
                return Err("its entries take over 256 MiB".to_string());
            }
            self.entries.push((key.clone(), value.to_vec()));
        }
        Ok(())
    }
}

/// Reads a varint: seven bits per byte, the lowest first.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_that_snappy_cannot_keep_is_refused() {
        let honest = snap::raw::Encoder::new().compress_vec(&[7; 10_000]).unwrap();
        assert_eq!(decompress(&honest).unwrap(), [7; 10_000]);
        // A claimed length of 2^32 - 1 before one literal byte.
        assert_eq!(decompress(&[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 7]), None);
    }

    #[test]
    fn names_that_grow_without_end_are_refused() {
        // Each entry shares the whole previous name and adds bytes; no entry has a value.
        let mut block = Vec::new();
        let mut length = 0u32;
        while length < 1 << 16 {
            let mut left = length;
            while left > 0x7f {
                block.push(left as u8 | 0x80);
                left >>= 7;
            }
            block.extend([left as u8, 8, 0]);
            block.extend([b'a'; 8]);
            length += 8;
        }
        block.extend(0u32.to_le_bytes());
        let mut table = Reader { entries: Vec::new(), size: 0 };
        assert!(table.add(&block).unwrap_err().contains("256 MiB"));
    }
}
