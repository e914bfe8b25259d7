//! Encodes leaves to the bytes that T5X would write.

use std::collections::BTreeMap;
use std::io::{self, Write};

use rmp::encode::{write_bin_len, write_ext_meta, write_map_len};
use rmpv::Value;
use rmpv::encode::write_value;

use super::{Leaf, Leaves, VERSION, ZarrLeaf};
use crate::array::{Array, DType, num_elements};
use crate::msgpack::{CHUNKED_KEY, EXT_ARRAY};

/// flax cuts larger arrays into pieces of this many bytes.
const MAX_INLINE_BYTES: usize = 1 << 30;

/// Writes the file. Leaves are streamed, without a second copy of the inline arrays.
pub fn encode(leaves: &Leaves, mut out: &mut dyn Write) -> io::Result<()> {
    Encoder { out: &mut out, max_inline_bytes: MAX_INLINE_BYTES }.file(leaves)
}

/// Checks that the names form a tree.
pub fn check_tree(leaves: &Leaves) -> io::Result<()> {
    Node::tree(leaves).map(drop)
}

/// A node of the tree; maps sort their keys, as in JAX.
#[derive(Default)]
struct Node<'a> {
    children: BTreeMap<&'a str, Node<'a>>,
    leaf: Option<&'a Leaf>,
}

impl<'a> Node<'a> {
    fn tree(leaves: &'a Leaves) -> io::Result<Self> {
        let mut root = Self::default();
        for (name, leaf) in leaves {
            let node = name.split('/').try_fold(&mut root, |node, key| match node.leaf {
                None => Ok(node.children.entry(key).or_default()),
                Some(_) => {
                    let reason = format!("the array `{name}` lies below another array");
                    Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
                }
            })?;
            node.leaf = Some(leaf);
        }
        Ok(root)
    }
}

struct Encoder<'w, W> {
    out: &'w mut W,
    max_inline_bytes: usize,
}

impl<W: Write> Encoder<'_, W> {
    fn file(&mut self, leaves: &Leaves) -> io::Result<()> {
        self.map(2)?;
        self.value(&"version".into())?;
        self.value(&VERSION.into())?;
        self.value(&"optimizer".into())?;
        self.node(&Node::tree(leaves)?)
    }

    fn node(&mut self, node: &Node<'_>) -> io::Result<()> {
        match node.leaf {
            Some(Leaf::Inline(array)) => self.array(array),
            Some(Leaf::Zarr(zarr)) => self.value(&spec(zarr)),
            Some(Leaf::Empty) => self.map(0),
            Some(Leaf::Other(value)) => self.value(value),
            None => {
                self.map(node.children.len())?;
                node.children.iter().try_for_each(|(key, child)| {
                    self.value(&(*key).into())?;
                    self.node(child)
                })
            }
        }
    }

    fn array(&mut self, array: &Array) -> io::Result<()> {
        let mut pieces =
            Pieces::begin(self.out, (array.dtype, &array.shape), self.max_inline_bytes)?;
        pieces.write_all(&array.data)
    }

    fn map(&mut self, length: usize) -> io::Result<()> {
        write_map_head(self.out, length)
    }

    fn value(&mut self, value: &Value) -> io::Result<()> {
        Ok(write_value(self.out, value)?)
    }
}

/// An array that is being written; its elements follow in C order. Like flax, it cuts a large array
/// into flat pieces, because msgpack's lengths have 32 bits.
pub struct Pieces<'w> {
    out: &'w mut dyn Write,
    dtype: DType,
    /// Number of bytes of each piece except the last.
    piece_bytes: usize,
    /// Number of bytes missing from the current piece.
    missing: usize,
    /// Number of bytes after the current piece.
    rest: usize,
    num_pieces: usize,
}

impl<'w> Pieces<'w> {
    /// Writes everything before the elements.
    pub fn new(out: &'w mut dyn Write, dtype: DType, shape: &[usize]) -> io::Result<Self> {
        Self::begin(out, (dtype, shape), MAX_INLINE_BYTES)
    }

    fn begin(
        out: &'w mut dyn Write,
        (dtype, shape): (DType, &[usize]),
        max_bytes: usize,
    ) -> io::Result<Self> {
        let size = dtype.size();
        let bytes = num_elements(shape) * size;
        if bytes <= max_bytes {
            write_array_head(out, dtype, shape)?;
            let (piece_bytes, missing) = (bytes, bytes);
            return Ok(Self { out, dtype, piece_bytes, missing, rest: 0, num_pieces: 1 });
        }
        let piece_bytes = (max_bytes / size).max(1) * size;
        let sizes = numbered(shape.iter().map(|&size| (size as u64).into()));
        write_map_head(out, 3)?;
        for value in [CHUNKED_KEY.into(), true.into(), "shape".into(), sizes, "chunks".into()] {
            write_value(&mut &mut *out, &value)?;
        }
        write_map_head(out, bytes.div_ceil(piece_bytes))?;
        Ok(Self { out, dtype, piece_bytes, missing: 0, rest: bytes, num_pieces: 0 })
    }

    fn next_piece(&mut self) -> io::Result<()> {
        self.missing = self.rest.min(self.piece_bytes);
        self.rest -= self.missing;
        write_value(&mut &mut *self.out, &self.num_pieces.to_string().into())?;
        self.num_pieces += 1;
        write_array_head(self.out, self.dtype, &[self.missing / self.dtype.size()])
    }
}

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.missing == 0 && self.rest > 0 {
            self.next_piece()?;
        }
        let length = self.out.write(&bytes[..bytes.len().min(self.missing)])?;
        self.missing -= length;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes extension 1: the packed list `[shape, dtype, bytes]`, up to the bytes.
fn write_array_head(mut out: &mut dyn Write, dtype: DType, shape: &[usize]) -> io::Result<()> {
    let mut head = vec![0x93];
    let sizes = shape.iter().map(|&size| (size as u64).into()).collect();
    write_value(&mut head, &Value::Array(sizes))?;
    write_value(&mut head, &dtype.name().into())?;
    let bytes = num_elements(shape) * dtype.size();
    write_bin_len(&mut head, length_u32(bytes)?)?;
    write_ext_meta(&mut out, length_u32(head.len() + bytes)?, EXT_ARRAY)?;
    out.write_all(&head)
}

/// Writes the header of a map with `length` keys.
pub fn write_map_head(mut out: &mut dyn Write, length: usize) -> io::Result<()> {
    write_map_len(&mut out, length_u32(length)?)?;
    Ok(())
}

/// The spec that T5X leaves in place of a zarr array; its path is relative, so that checkpoints can
/// be moved.
fn spec(zarr: &ZarrLeaf) -> Value {
    let numbers =
        |sizes: &[usize]| Value::Array(sizes.iter().map(|&size| (size as u64).into()).collect());
    let compressor = match zarr.compression.id_and_level() {
        Some((id, level)) => map([("id", id.into()), ("level", level.into())]),
        None => Value::Nil,
    };
    map([
        ("driver", "zarr".into()),
        ("dtype", zarr.dtype.name().into()),
        ("kvstore", map([("driver", "file".into()), ("path", format!("{}/", zarr.dir).into())])),
        (
            "metadata",
            map([
                ("chunks", numbers(&zarr.chunks)),
                ("compressor", compressor),
                ("shape", numbers(&zarr.shape)),
            ]),
        ),
    ])
}

fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Map(entries.map(|(key, value)| (key.into(), value)).to_vec())
}

/// Encodes a tuple as flax does, as a map from `"0"`, `"1"`, ...
fn numbered(values: impl Iterator<Item = Value>) -> Value {
    Value::Map(values.enumerate().map(|(i, value)| (i.to_string().into(), value)).collect())
}

fn length_u32(length: usize) -> io::Result<u32> {
    u32::try_from(length).map_err(|_| io::Error::other("more than msgpack's lengths can hold"))
}

#[cfg(test)]
mod tests {
    use super::super::{Leaf, decode};
    use super::*;

    #[test]
    fn a_large_array_is_cut_and_joined_again() {
        let array = Array::from_f32(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let leaves = Leaves::from([("target/x".to_string(), Leaf::Inline(array))]);
        let mut bytes = Vec::new();
        Encoder { out: &mut bytes, max_inline_bytes: 17 }.file(&leaves).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(text.contains(CHUNKED_KEY));
        assert_eq!(decode(&bytes[..]).unwrap(), leaves);
    }

    #[test]
    fn empty_subtrees_survive() {
        let leaves = Leaves::from([
            ("state/0/count".to_string(), Leaf::Inline(Array::scalar_i32(1))),
            ("state/1".to_string(), Leaf::Empty),
            ("state/2".to_string(), Leaf::Other(Value::Nil)),
        ]);
        let mut bytes = Vec::new();
        encode(&leaves, &mut bytes).unwrap();
        assert_eq!(decode(&bytes[..]).unwrap(), leaves);
    }
}
