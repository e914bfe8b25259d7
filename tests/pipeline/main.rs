//! From files to batches, and from training states to files and back.

mod checkpoint;
mod child;
mod command_line;
mod data;
mod megatron_index;
mod predictions;
mod report;
mod storage;
mod tools;
