//! The embedding of tokens before the stacks, and the logits of tokens after them, which it may give too.

mod memory;
mod spec;

#[cfg(feature = "torch")]
mod tables;

pub use memory::MemoryTokens;
pub use spec::{EMBEDDING_INIT, LogitsKernel, TokenEmbedding};
