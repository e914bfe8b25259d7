//! Attentions: to a stack's own positions, all of them or neighbours, or to an encoding.

mod pairs;
mod reach;
mod spec;

#[cfg(feature = "torch")]
mod block;

pub use pairs::{Kernels, LearnedBias, Pairs};
pub use reach::Reach;
pub use spec::{Attention, AttentionSpec};

#[cfg(feature = "torch")]
pub use block::AttentionBlock;
