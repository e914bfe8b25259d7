//! Attentions: to a stack's own positions, all of them or neighbours, or to an encoding.

mod cdq;
mod pairs;
mod reach;
mod spec;

#[cfg(feature = "torch")]
mod block;
#[cfg(feature = "torch")]
mod cdq_queries;

pub use pairs::{Kernels, LearnedBias, Pairs};
pub use reach::Reach;
pub use spec::{Attention, AttentionSpec};

#[cfg(feature = "torch")]
pub use block::AttentionBlock;
