//! Reads the tree of a file, with limited memory whatever the file holds.

use std::io::{self, BufRead, Read};

use rmpv::Value;

use super::error::DecodeError;
use super::tree::{Entries, Node, RawArray, joined};
use super::{CHUNKED_KEY, EXT_ARRAY, EXT_SCALAR, MAX_BYTES, MAX_DEPTH, MAX_HEADS};
use crate::array::DType;
use crate::raw::RawInfo;

/// A file that is read from its start to its end, except for the elements of its arrays: a source
/// decides what becomes of these.
pub(crate) trait Source: Read {
    type Elements;

    /// Passes over the next bytes, which are the elements of an array.
    fn elements(&mut self, length: u64) -> io::Result<Self::Elements>;
}

/// Keeps the elements in memory.
impl<R: BufRead> Source for R {
    type Elements = Vec<u8>;

    fn elements(&mut self, length: u64) -> io::Result<Vec<u8>> {
        // No capacity is reserved, because the length in the file may be false.
        let mut bytes = Vec::new();
        match self.take(length).read_to_end(&mut bytes)? as u64 == length {
            true => Ok(bytes),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Reads a file, which holds a map.
///
/// # Errors
/// The file is truncated or holds something else, or it cannot be read.
pub(crate) fn read<S: Source>(source: S) -> Result<Entries<S::Elements>, DecodeError> {
    let mut tree = TreeReader::new(source);
    let root = tree.node(MAX_DEPTH).map_err(|error| error.in_leaf(&tree.name))?;
    if tree.source.read(&mut [0])? != 0 {
        return Err(DecodeError::damaged("has more bytes after the end of its map").in_leaf(""));
    }
    match root {
        Node::Map(entries) => Ok(entries),
        _ => Err(DecodeError::NotACheckpoint("expected a msgpack map at the root".to_string())),
    }
}

struct TreeReader<S> {
    source: S,
    /// The path of keys to the value that is read.
    name: String,
    /// Number of bytes so far.
    at: u64,
    heads_left: usize,
    bytes_left: usize,
}

impl<S: Read> Read for TreeReader<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // rmpv has no limits, but reads each header byte separately.
        let heads = usize::from(buffer.len() == 1);
        let read = self.source.read(buffer)?;
        let too_many = |what: String| {
            io::Error::new(io::ErrorKind::InvalidData, format!("holds more than {what}"))
        };
        self.heads_left = (self.heads_left.checked_sub(heads))
            .ok_or_else(|| too_many(format!("{MAX_HEADS} values")))?;
        self.bytes_left = (self.bytes_left.checked_sub(read))
            .ok_or_else(|| too_many(format!("{MAX_BYTES} bytes besides its arrays")))?;
        self.at += read as u64;
        Ok(read)
    }
}

impl<S: Source> TreeReader<S> {
    fn new(source: S) -> Self {
        let (heads_left, bytes_left) = (MAX_HEADS, MAX_BYTES);
        Self { source, name: String::new(), at: 0, heads_left, bytes_left }
    }

    fn byte(&mut self) -> io::Result<u8> {
        Ok(self.number(1)? as u8)
    }

    /// Reads a big-endian number of `length` bytes.
    fn number(&mut self, length: usize) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read_exact(&mut bytes[8 - length..])?;
        Ok(u64::from_be_bytes(bytes))
    }

    /// Reads a plain value whose first bytes have been read.
    fn plain(&mut self, head: &[u8], depth: usize) -> Result<Value, DecodeError> {
        Ok(rmpv::decode::read_value_with_max_depth(&mut head.chain(self), depth)?)
    }

    fn node(&mut self, depth: usize) -> Result<Node<S::Elements>, DecodeError> {
        let depth = depth.checked_sub(1).ok_or(rmpv::decode::Error::DepthLimitExceeded)?;
        match self.byte()? {
            head @ 0x80..=0x8f => self.map(u64::from(head & 0x0f), depth),
            head @ 0xde..=0xdf => {
                let length = self.number(2 << (head - 0xde))?;
                self.map(length, depth)
            }
            head @ 0xd4..=0xd8 => self.extension(1 << (head - 0xd4), depth),
            head @ 0xc7..=0xc9 => {
                let length = self.number(1 << (head - 0xc7))?;
                self.extension(length, depth)
            }
            head => Ok(Node::Plain(self.plain(&[head], depth)?)),
        }
    }

    fn map(&mut self, length: u64, depth: usize) -> Result<Node<S::Elements>, DecodeError> {
        let mut entries = Vec::new();
        let outer = self.name.len();
        for _ in 0..length {
            let key = text(self.plain(&[], depth)?)
                .ok_or_else(|| DecodeError::damaged("has a key that is not text"))?;
            if outer > 0 {
                self.name.push('/');
            }
            self.name.push_str(&key);
            entries.push((key, self.node(depth)?));
            self.name.truncate(outer);
        }
        if !entries.iter().any(|(key, _)| key == CHUNKED_KEY) {
            return Ok(Node::Map(entries));
        }
        let array = joined(entries).ok_or_else(|| {
            DecodeError::damaged("is an array in pieces that do not make up its shape")
        })?;
        Ok(Node::Array(array))
    }

    fn extension(&mut self, length: u64, depth: usize) -> Result<Node<S::Elements>, DecodeError> {
        let kind = self.byte()?;
        if [EXT_ARRAY, EXT_SCALAR].contains(&kind.cast_signed()) {
            return self.array(length);
        }
        let [a, b, c, d] = (length as u32).to_be_bytes();
        Ok(Node::Plain(self.plain(&[0xc9, a, b, c, d, kind], depth)?))
    }

    /// Reads the packed list `[shape, dtype, bytes]` of an extension.
    fn array(&mut self, length: u64) -> Result<Node<S::Elements>, DecodeError> {
        let end = self.at + length;
        let not_packed = || DecodeError::damaged("is not a packed array of shape, type and bytes");
        if self.byte()? != 0x93 {
            return Err(not_packed());
        }
        let shape = sizes(&self.plain(&[], MAX_DEPTH)?).ok_or_else(not_packed)?;
        let name = text(self.plain(&[], MAX_DEPTH)?).ok_or_else(not_packed)?;
        let bytes = match self.byte()? {
            head @ 0xc4..=0xc6 => self.number(1 << (head - 0xc4))?,
            _ => return Err(not_packed()),
        };
        let dtype = DType::from_name(&name).filter(|dtype| *dtype != DType::U16);
        let info = RawInfo { dtype: dtype.ok_or_else(|| unknown_type(&name))?, shape };
        if self.at + bytes != end || info.num_bytes() != Some(bytes) {
            let reason = format!("has {bytes} bytes, but is {name} {:?}", info.shape);
            return Err(DecodeError::Damaged(reason));
        }
        let elements = self.source.elements(bytes)?;
        self.at = end;
        Ok(Node::Array(RawArray { info, parts: vec![elements] }))
    }
}

/// A text, or bytes that hold text: Python 2 and the earliest flax write type names so.
fn text(value: Value) -> Option<String> {
    match value {
        Value::Binary(bytes) => String::from_utf8(bytes).ok(),
        other => other.as_str().map(str::to_string),
    }
}

/// A list of sizes.
pub(crate) fn sizes(value: &Value) -> Option<Vec<usize>> {
    value.as_array()?.iter().map(|size| size.as_u64()?.try_into().ok()).collect()
}

pub(crate) fn unknown_type(name: &str) -> DecodeError {
    DecodeError::Unsupported(match name {
        "uint16" => "is uint16, which stood for bfloat16 before 2021: update it with T5X".into(),
        _ => format!(
            "has the type `{name}`, expected bool, an integer or a float of 16 bits or more"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_beyond_a_limit_is_refused_while_it_is_read() {
        let read = |bytes: &[u8], heads_left, bytes_left| {
            let mut tree = TreeReader { heads_left, bytes_left, ..TreeReader::new(bytes) };
            tree.node(MAX_DEPTH).map(drop).map_err(|error| format!("{error:?}"))
        };
        let list = |length: u16| [&[0xdc][..], &length.to_be_bytes(), &[0xc0; 1000]].concat();
        read(&list(99), 100, 200).unwrap();
        assert!(read(&list(100), 100, 200).unwrap_err().contains("values"));
        assert!(read(&list(99), 100, 101).unwrap_err().contains("bytes besides its arrays"));
        for head in [&[0x91][..], &[0x81, 0xa0]] {
            assert!(read(&head.repeat(101), 1000, 1000).unwrap_err().contains("deeply"));
        }
    }
}
