//! The file `checkpoint`: a tree of named leaves in flax's msgpack, each an array or the TensorStore
//! spec of a zarr folder beside the file.
//!
//! Encoding decoded leaves gives the same bytes that T5X wrote.

mod decode;
mod encode;

use std::collections::BTreeMap;

use crate::array::{Array, DType};
use crate::zarr::Compression;

pub(super) use decode::decode;
pub(crate) use decode::{PLACEHOLDER, decode_tree};
pub(crate) use encode::{Pieces, write_map_head};
pub(super) use encode::{check_tree, encode};

/// T5X's version of the layout; version 2 differs in how bfloat16 was written.
const VERSION: u64 = 3;

/// A leaf of the tree.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Leaf {
    /// An array in the file itself.
    Inline(Array),
    /// An array in a folder beside the file.
    Zarr(ZarrLeaf),
    /// A subtree without leaves, such as the state of an optimizer without state.
    Empty,
    /// A value that is not an array (None, a text, a complex number); kept so that it can be
    /// written again.
    Other(rmpv::Value),
}

/// The relevant part of a TensorStore spec.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ZarrLeaf {
    /// The folder's name, relative to the checkpoint.
    pub dir: String,
    pub dtype: DType,
    pub shape: Vec<usize>,
    pub chunks: Vec<usize>,
    pub compression: Compression,
}

/// Leaves by name: `target/encoder/encoder_norm/scale`.
pub(crate) type Leaves = BTreeMap<String, Leaf>;
