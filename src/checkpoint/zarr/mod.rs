//! Zarr arrays: of version 2, which TensorStore writes for T5X as a folder with `.zarray` and one
//! file per chunk, and of version 3, which newer Orbax writes.
//!
//! Reads any chunking, also padded edge chunks and shards, the common compressors, and parts of
//! arrays, in several threads. Writes version 2, in chunks that divide the shape or parts of it evenly. Besides the
//! requested elements only buffers are in memory, however large the chunks are; only blosc, a
//! checksum of the whole chunk and orders other than C need the whole chunk, and share a budget
//! (`room.rs`). (The crate `zarrs` cannot open TensorStore's bfloat16.)

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

pub(super) use chunks::{choose_chunks, choose_uneven_chunks, indices, parts};
pub use codec::Compression;
pub(super) use files::{FileRange, Files, Folder};
pub(super) use metadata::Metadata;
pub(super) use read::{Zarr, metadata};
pub(super) use stream::Begun;
pub(super) use write::{ArrayLayout, ReadPart, Sink, write, write_parts};
