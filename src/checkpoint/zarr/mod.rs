//! Zarr v2 arrays, as TensorStore writes them for T5X: a folder with `.zarray` and one file a chunk.
//!
//! Reads any chunking, also padded edge chunks, and the compressors gzip, zlib and none. Writes
//! gzip level 1 in chunks that divide the shape evenly. No more than one chunk is held beside the
//! array itself. (The crate `zarrs` cannot open TensorStore's bfloat16.)

mod chunks;
mod metadata;
mod read;
mod write;

pub(super) use chunks::{choose_chunks, parts};
pub(super) use read::read;
pub(super) use write::{Sink, write, write_parts};
