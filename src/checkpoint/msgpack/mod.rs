//! Reads flax's msgpack: a tree of maps whose leaves are arrays and plain values. One reader serves
//! files whose arrays are kept, and files whose arrays are only found, to be read later.

mod error;
mod read;
mod tree;

pub(super) use error::DecodeError;
pub(super) use read::{Source, read, sizes, unknown_type};
pub(super) use tree::{Entries, Node, RawArray, leaves};

/// flax's extension types. Scalars of numpy are arrays without dimensions.
pub(super) const EXT_ARRAY: i8 = 1;
pub(super) const EXT_SCALAR: i8 = 3;

/// The key that marks an array cut into pieces, because msgpack's lengths have 32 bits.
pub(super) const CHUNKED_KEY: &str = "__msgpack_chunked_array__";

/// Maximum depth of the tree: models have about ten levels, and each level uses some of the stack.
const MAX_DEPTH: usize = 100;

/// Maximum number of bytes of a file that are read singly: each value has one such header byte, and
/// few others, but takes forty bytes and more in memory. It is enough for a hundred thousand arrays.
const MAX_HEADS: usize = 4 << 20;

/// Maximum number of bytes of everything in a file but the elements of arrays, and of the names of
/// all leaves: one long name is repeated in every short name below it.
const MAX_BYTES: usize = 256 << 20;
