//! `gimlet train` as users type it: what it computes, what it leaves behind, how it fails.

mod arrays;
mod bad_input;
mod cache;
mod command;
mod events;
mod finetune;
mod folder;
mod microbatches;
mod resume;
mod t5x;
