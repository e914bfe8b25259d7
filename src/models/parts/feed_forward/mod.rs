//! Feed-forward blocks: projections, activations that are multiplied, and a projection back. Each expert is one.

mod spec;

#[cfg(feature = "torch")]
mod block;

pub use spec::{FeedForward, FeedForwardDropout, FeedForwardSpec};

#[cfg(feature = "torch")]
pub use block::FeedForwardBlock;
