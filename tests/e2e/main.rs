//! `gimlet train` as users type it: what it computes, what it leaves behind, how it fails.

mod adamw;
mod arrays;
mod bad_input;
mod bench;
mod buckets;
mod cache;
mod command;
mod events;
mod finetune;
mod folder;
mod fp8;
mod microbatches;
mod remat;
mod resume;
#[path = "../pipeline/storage/s3.rs"]
mod s3;
#[allow(dead_code, reason = "tests of storage use all of it")]
#[path = "../pipeline/storage/server.rs"]
mod server;
mod t5x;
