//! From files to batches, and from training states to files and back.

#[path = "../e2e/bert_folder.rs"]
mod bert_folder;
mod checkpoint;
mod child;
mod command_line;
mod data;
mod fill;
mod megatron_index;
mod more_pieces;
mod predictions;
mod report;
mod storage;
mod sweep;
mod table;
mod tools;
