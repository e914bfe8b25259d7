//! Zarr arrays: those of version 2 that TensorStore writes for T5X, a folder with `.zarray` and one
//! file a chunk, and those of version 3 that newer Orbax writes.
//!
//! Reads any chunking, also padded edge chunks and shards, the common compressors, and parts of
//! arrays, by several threads. Writes version 2 in chunks that divide the shape evenly. Beside what was asked
//! for, buffers are held alone, however large the chunks; only blosc, a checksum of the whole chunk and
//! other orders than C need the chunk, and share a budget (`room.rs`). (The crate `zarrs` cannot open
//! TensorStore's bfloat16.)

mod blosc;
mod chunk;
mod chunks;
mod codec;
mod error;
mod files;
mod metadata;
mod read;
mod room;
mod stream;
mod v2;
mod v3;
mod versions;
mod write;

pub(super) use chunks::{choose_chunks, indices, parts};
pub use codec::Compression;
pub(super) use files::{Files, Folder, Place};
pub(super) use metadata::Metadata;
pub(super) use read::{Zarr, metadata};
pub(super) use stream::Begun;
pub(super) use write::{Layout, ReadPart, Sink, write, write_parts};
