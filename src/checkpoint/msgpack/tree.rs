//! The tree of a file, and the names of its leaves.

use std::collections::BTreeMap;

use rmpv::Value;

use super::MAX_BYTES;
use super::error::DecodeError;
use crate::raw::RawInfo;

/// A value of the tree; `E` stands for the elements of an array, or for their place in the file.
pub(crate) enum Node<E> {
    Map(Entries<E>),
    Array(RawArray<E>),
    /// A value that is not an array, such as a number, a text or a list.
    Plain(Value),
}

/// The values of a map by their keys, in the file's order.
pub(crate) type Entries<E> = Vec<(String, Node<E>)>;

/// An array with its elements in C order: in one part, or in several if flax cut the array.
pub(crate) struct RawArray<E> {
    pub info: RawInfo,
    pub parts: Vec<E>,
}

impl<E> Node<E> {
    /// Returns the plain value, if it is a size.
    pub fn to_size(&self) -> Option<usize> {
        let Self::Plain(value) = self else { return None };
        value.as_u64()?.try_into().ok()
    }

    /// Returns a tree without arrays as one value; an array becomes nil.
    pub fn into_value(self) -> Value {
        match self {
            Self::Map(entries) => {
                let entry = |(key, node): (String, Self)| (key.into(), node.into_value());
                Value::Map(entries.into_iter().map(entry).collect())
            }
            Self::Array(_) => Value::Nil,
            Self::Plain(value) => value,
        }
    }
}

/// Joins an array that flax cut into pieces: `{shape: {"0": ..}, chunks: {"0": array, ..}}`.
pub(super) fn joined<E>(entries: Entries<E>) -> Option<RawArray<E>> {
    let (mut shape, mut chunks) = (Vec::new(), Vec::new());
    for (key, node) in entries {
        match (&key[..], node) {
            ("shape", Node::Map(sizes)) => shape = numbered(sizes)?,
            ("chunks", Node::Map(pieces)) => chunks = numbered(pieces)?,
            _ => {}
        }
    }
    let shape: Vec<usize> = shape.iter().map(Node::to_size).collect::<Option<_>>()?;
    let (mut dtype, mut parts, mut bytes) = (None, Vec::new(), 0);
    for piece in chunks {
        let Node::Array(piece) = piece else { return None };
        if *dtype.get_or_insert(piece.info.dtype) != piece.info.dtype {
            return None;
        }
        bytes += piece.info.num_bytes()?;
        parts.extend(piece.parts);
    }
    let info = RawInfo { dtype: dtype?, shape };
    (info.num_bytes() == Some(bytes)).then_some(RawArray { info, parts })
}

/// Returns the values of a map from `"0"`, `"1"`, ..., which flax writes for a tuple.
fn numbered<E>(entries: Entries<E>) -> Option<Vec<Node<E>>> {
    let mut numbered = BTreeMap::new();
    for (key, node) in entries {
        numbered.insert(key.parse::<usize>().ok()?, node);
    }
    let is_whole = numbered.keys().copied().eq(0..numbered.len());
    is_whole.then(|| numbered.into_values().collect())
}

/// Returns the leaves below a node under their paths of keys: `target/encoder/encoder_norm/scale`.
/// A map is a leaf if it is empty, or the TensorStore spec of an array that lies elsewhere.
pub(crate) fn leaves<E>(root: Node<E>) -> Result<BTreeMap<String, Node<E>>, DecodeError> {
    let (mut found, mut name_bytes) = (BTreeMap::new(), 0);
    let mut open = vec![(String::new(), root)];
    while let Some((name, node)) = open.pop() {
        let entries = match node {
            Node::Map(entries) if !is_leaf(&entries) => entries,
            leaf => {
                // The last of equal names comes first here, and counts, as in Python.
                found.entry(name).or_insert(leaf);
                continue;
            }
        };
        for (key, node) in entries {
            let child = if name.is_empty() { key } else { format!("{name}/{key}") };
            name_bytes += child.len();
            if name_bytes > MAX_BYTES {
                let reason = format!("holds names of more than {MAX_BYTES} bytes together");
                return Err(DecodeError::Damaged(reason).in_leaf(""));
            }
            open.push((child, node));
        }
    }
    Ok(found)
}

fn is_leaf<E>(entries: &[(String, Node<E>)]) -> bool {
    let has = |name: &&str| entries.iter().any(|(key, _)| key == name);
    entries.is_empty() || ["driver", "kvstore", "metadata"].iter().all(has)
}
