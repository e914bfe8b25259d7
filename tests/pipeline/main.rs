//! From files to batches, and from training states to files and back.

mod checkpoint;
mod data;
mod storage;
mod tools;
