//! Checkpoints for other programs, written array by array from any that can be read.

mod hugging_face;
mod safetensors;
mod tokenizer;

pub use hugging_face::{HuggingFaceOptions, export_hugging_face};
