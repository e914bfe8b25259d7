//! Reads and writes checkpoints of Orbax, T5X's default: a tree of names in `_METADATA` (older: in
//! a msgpack file `checkpoint`), and arrays in zarr's version 2 or 3, each in a separate folder or
//! all in one OCDBT database. T5X stores everything in the folder `state` of a checkpoint.

mod item;
mod metadata;
mod ocdbt;
mod reader;
mod written_format;

pub(super) use reader::open;
pub(super) use written_format::ORBAX;
