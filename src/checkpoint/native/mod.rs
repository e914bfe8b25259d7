//! T5X's own format, version 3: a folder `checkpoint_N` with a msgpack file `checkpoint` (tree, small
//! arrays) and a zarr folder for every other array. Gimlet's own files lie in
//! `checkpoint_N/gimlet/`.

mod checksums;
mod msgpack;
mod procedure;
mod publication;
mod reader;
mod shard;
mod share;
mod sum;
mod writer;
mod written_format;

pub(super) use checksums::{Checked, Checksums, extras, read_extra};
pub(super) use msgpack::{Leaf, Leaves, PLACEHOLDER, Pieces, decode_tree, write_map_head};
pub use procedure::Procedure;
pub(super) use publication::create_temporary;
pub use reader::Reader;
pub use shard::Shard;
pub use share::Share;
pub use writer::{Writer, lies_in_tree, writes};
pub(super) use written_format::{Conversion, SmallFile, T5X, WrittenFormat};
