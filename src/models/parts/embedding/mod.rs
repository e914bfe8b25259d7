//! The embedding of tokens before the stacks with learned rows among them, and the logits of tokens after them, which it may
//! give too.

mod layer_rows;
mod learned_rows;
mod spec;
mod task_rows;

#[cfg(feature = "torch")]
mod rows;
#[cfg(feature = "torch")]
mod tables;

pub use layer_rows::LayerRows;
pub use learned_rows::{GivenParam, LearnedRows, RowsKind, RowsPlace};
pub use spec::{EMBEDDING_INIT, LogitsKernel, TokenEmbedding};
pub use task_rows::{TaskNaming, TaskRows, TaskUnion};
