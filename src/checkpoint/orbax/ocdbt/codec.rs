//! The encoding that manifests and nodes of OCDBT share: a frame with a checksum around a
//! compressed body of variable-length numbers.

use std::io::Read;

/// Maximum size of a decompressed body: Orbax writes nodes of at most 100 MB.
const MAX_BODY_BYTES: u64 = 256 << 20;

/// Maximum total size of the names of one node.
pub const MAX_TEXT_BYTES: usize = 64 << 20;

/// Maximum number of entries of one body. An entry may need less than a bit in a compressed file,
/// but hundreds of bytes in memory.
const MAX_ENTRIES: usize = 2 << 20;

const HEADER_BYTES: usize = 12;
const CHECKSUM_BYTES: usize = 4;

/// Returns the body of a frame: magic number, length, version, compression, body, CRC-32C.
pub fn unframe(frame: &[u8], magic: u32) -> Result<Vec<u8>, String> {
    if frame.len() < HEADER_BYTES + CHECKSUM_BYTES {
        return Err("is truncated".to_string());
    }
    let (content, checksum) = frame.split_at(frame.len() - CHECKSUM_BYTES);
    let (head, rest) = content.split_at(HEADER_BYTES);
    if head[..4] != magic.to_be_bytes() {
        return Err(format!("begins with {:02x?}, expected the mark of OCDBT", &head[..4]));
    }
    let length = u64::from_le_bytes(head[4..].try_into().expect("eight bytes"));
    if length != frame.len() as u64 {
        return Err(format!("has {} bytes, expected {length}", frame.len()));
    }
    if crc32c::crc32c(content).to_le_bytes() != checksum {
        return Err("is corrupt: its checksum does not match".to_string());
    }
    let mut fields = Fields::new(rest);
    match (fields.number()?, fields.number()?) {
        (0, 0) => Ok(fields.rest.to_vec()),
        (0, 1) => decompress(fields.rest),
        (0, other) => Err(format!("is compressed by the unknown method {other}")),
        (other, _) => Err(format!("is of version {other}, expected 0")),
    }
}

fn decompress(packed: &[u8]) -> Result<Vec<u8>, String> {
    let damaged = |error: std::io::Error| format!("is corrupt: {error}");
    let decoder = zstd::stream::read::Decoder::with_buffer(packed).map_err(damaged)?;
    let mut body = Vec::new();
    decoder.take(MAX_BODY_BYTES + 1).read_to_end(&mut body).map_err(damaged)?;
    match body.len() as u64 > MAX_BODY_BYTES {
        true => Err(format!("unpacks to more than {MAX_BODY_BYTES} bytes")),
        false => Ok(body),
    }
}

/// Reads a body field by field.
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or("ends early")?;
        self.rest = rest;
        Ok(taken)
    }

    pub fn byte(&mut self) -> Result<u8, String> {
        Ok(self.bytes(1)?[0])
    }

    /// Reads a number: seven bits per byte, the lowest first; the highest bit says that more bytes
    /// follow.
    pub fn number(&mut self) -> Result<u64, String> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err("has a number beyond 64 bits".to_string())
    }

    pub fn size(&mut self) -> Result<usize, String> {
        self.number()?.try_into().map_err(|_| "has a size beyond memory".to_string())
    }

    /// Reads a number of entries that follow; each entry needs at least one byte.
    pub fn count(&mut self) -> Result<usize, String> {
        let count = self.size()?;
        if count > self.rest.len() {
            return Err(format!("claims {count} entries in {} bytes", self.rest.len()));
        }
        match count > MAX_ENTRIES {
            true => Err(format!("has {count} entries, expected {MAX_ENTRIES} at most")),
            false => Ok(count),
        }
    }

    pub fn numbers(&mut self, count: usize) -> Result<Vec<u64>, String> {
        (0..count).map(|_| self.number()).collect()
    }

    pub fn sizes(&mut self, count: usize) -> Result<Vec<usize>, String> {
        (0..count).map(|_| self.size()).collect()
    }

    pub fn finish(self) -> Result<(), String> {
        match self.rest.is_empty() {
            true => Ok(()),
            false => Err(format!("has {} bytes after its end", self.rest.len())),
        }
    }
}

/// Texts with shared prefixes, in columns: `count - 1` lengths of the prefixes shared with the
/// previous text, `count` lengths of the suffixes; the suffixes themselves follow later.
pub struct Prefixed {
    prefixes: Vec<usize>,
    suffixes: Vec<usize>,
}

impl Prefixed {
    pub fn read(fields: &mut Fields<'_>, count: usize) -> Result<Self, String> {
        let mut prefixes = vec![0; count.min(1)];
        prefixes.extend(fields.sizes(count.saturating_sub(1))?);
        Ok(Self { prefixes, suffixes: fields.sizes(count)? })
    }

    /// Returns the texts, each of at most `max_bytes`.
    pub fn texts(self, fields: &mut Fields<'_>, max_bytes: usize) -> Result<Vec<Vec<u8>>, String> {
        let mut texts: Vec<Vec<u8>> = Vec::new();
        let mut total = 0;
        for (prefix, suffix) in self.prefixes.into_iter().zip(self.suffixes) {
            let before = texts.last().map_or(&[][..], |text| text);
            let shared = before.get(..prefix).ok_or("shares more of a name than there is")?;
            let text = [shared, fields.bytes(suffix)?].concat();
            if text.len() > max_bytes {
                return Err(format!("has a name of {} bytes", text.len()));
            }
            // Shared prefixes expand few bytes to many.
            total += text.len();
            if total > MAX_TEXT_BYTES {
                return Err(format!("has names of more than {MAX_TEXT_BYTES} bytes together"));
            }
            texts.push(text);
        }
        Ok(texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_seven_bits_a_byte() {
        let number = |bytes: &[u8]| Fields::new(bytes).number();
        assert_eq!(number(&[0x05]), Ok(5));
        assert_eq!(number(&[0x80, 0x08]), Ok(1024));
        assert_eq!(
            number(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
            Ok(u64::MAX)
        );
        assert!(number(&[0xff; 10]).is_err());
        assert!(number(&[0x80]).is_err());
    }

    #[test]
    fn claims_beyond_the_bytes_are_errors() {
        let mut fields = Fields::new(&[0xff, 0xff, 0xff, 0x7f, 1, 2]);
        assert!(fields.count().unwrap_err().contains("in 2 bytes"));
        assert!(Fields::new(&[1, 2]).bytes(3).is_err());
        let mut fields = Fields::new(&[9, 1, 1, b'a', b'b']);
        let prefixed = Prefixed::read(&mut fields, 2).unwrap();
        assert!(prefixed.texts(&mut fields, 10).unwrap_err().contains("shares more"));
    }

    #[test]
    fn more_entries_than_a_body_has_are_refused_before_memory_is_taken() {
        // 2^21 entries and one more, with enough bytes.
        let body =
            |low: u8| [&[0x80 | low, 0x80, 0x80, 0x01][..], &vec![0; MAX_ENTRIES + 1]].concat();
        assert_eq!(Fields::new(&body(0)).count(), Ok(MAX_ENTRIES));
        let found = Fields::new(&body(1)).count().unwrap_err();
        assert_eq!(found, "has 2097153 entries, expected 2097152 at most");
    }

    #[test]
    fn shared_prefixes_do_not_make_gigabytes_of_kilobytes() {
        let long = 60_000;
        let prefixes = [vec![0], vec![long; 2_000]].concat();
        let prefixed = Prefixed { suffixes: [vec![long], vec![0; 2_000]].concat(), prefixes };
        let found = prefixed.texts(&mut Fields::new(&vec![b'a'; long]), 1 << 16);
        assert!(found.unwrap_err().contains("names of more than"));
    }
}
