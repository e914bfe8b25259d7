//! TensorFlow's messages in the table of a tensor bundle, which describe the bundle and its
//! tensors; read and written.

use prost::Message;

use super::slices::Slice;
use crate::array::DType;

/// TensorFlow's type numbers.
const TYPES: [(i32, DType); 13] = [
    (1, DType::F32),
    (2, DType::F64),
    (3, DType::I32),
    (4, DType::U8),
    (5, DType::I16),
    (6, DType::I8),
    (9, DType::I64),
    (10, DType::Bool),
    (14, DType::Bf16),
    (17, DType::U16),
    (19, DType::F16),
    (22, DType::U32),
    (23, DType::U64),
];

/// The type with this number; `None` for types that arrays cannot have.
pub(super) fn numpy_type(number: i32) -> Option<DType> {
    TYPES.iter().find(|(known, _)| *known == number).map(|(_, dtype)| *dtype)
}

/// The number of a type.
pub(crate) fn type_number(dtype: DType) -> i32 {
    let found = TYPES.iter().find(|(_, known)| *known == dtype);
    found.expect("TensorFlow has every type of arrays").0
}

/// `tensorflow.BundleHeaderProto`, the value of the empty name.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Header {
    #[prost(int32, tag = "1")]
    pub num_shards: i32,
    /// 1 for big-endian.
    #[prost(int32, tag = "2")]
    pub endianness: i32,
    #[prost(message, optional, tag = "3")]
    pub version: Option<Version>,
}

/// `tensorflow.VersionDef`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Version {
    /// The format version that the writer follows.
    #[prost(int32, tag = "1")]
    pub producer: i32,
}

/// `tensorflow.BundleEntryProto`, the value of a tensor's name.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct BundleEntry {
    #[prost(int32, tag = "1")]
    pub dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<Shape>,
    #[prost(int32, tag = "3")]
    pub shard_id: i32,
    #[prost(int64, tag = "4")]
    pub offset: i64,
    #[prost(int64, tag = "5")]
    pub size: i64,
    /// Masked CRC-32C.
    #[prost(fixed32, tag = "6")]
    pub crc32c: u32,
    /// The slices of a sliced tensor, each with a separate entry.
    #[prost(message, repeated, tag = "7")]
    pub slices: Vec<Slice>,
}

/// `tensorflow.TensorShapeProto`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Shape {
    #[prost(message, repeated, tag = "2")]
    pub dim: Vec<Dim>,
    #[prost(bool, tag = "3")]
    pub unknown_rank: bool,
}

/// A dimension of a shape.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Dim {
    #[prost(int64, tag = "1")]
    pub size: i64,
}
