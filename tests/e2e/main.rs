//! `gimlet train` as users type it: what it computes, what it leaves behind, how it fails.

mod arrays;
mod command;
mod events;
mod t5x;
