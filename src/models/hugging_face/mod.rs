//! Hugging Face's transformers: the families of models that they have too, and the files of their folders as gin.

mod activations;
mod adapter;
mod families;
mod generation_config;
mod tokenizer;

pub use activations::feed_forward;
pub(super) use activations::{FeedForward, mlp_activations};
pub use families::{HUGGING_FACE, gin_of, open};
pub(super) use generation_config::generation_gin;
pub(super) use tokenizer::tokenizer_lines;
