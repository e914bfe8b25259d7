//! The embedding of tokens before the stacks, and the logits of tokens after them, which it may give too.

mod learned_rows;
mod spec;

#[cfg(feature = "torch")]
mod tables;

pub use learned_rows::{LearnedRows, RowsKind, RowsPlace};
pub use spec::{EMBEDDING_INIT, LogitsKernel, TokenEmbedding};
