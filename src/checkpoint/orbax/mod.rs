//! Reads and writes checkpoints of Orbax, T5X's default: a tree of names in `_METADATA` (older: in
//! a msgpack file `checkpoint`), and arrays in zarr's version 2 or 3, each in a separate folder or
//! all in one OCDBT database. T5X stores everything in the folder `state` of a checkpoint.

mod dialect;
mod item;
mod metadata;
mod ocdbt;
mod reader;

pub(super) use dialect::ORBAX;
pub(super) use reader::open;
