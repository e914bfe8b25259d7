//! Blocks of experts: a router, and feed-forward blocks of which each computes the tokens that it gets. Source: flaxformer
//! `architectures/moe/{moe_layers,routing}.py`.

mod spec;

#[cfg(feature = "torch")]
mod load;

pub(super) use spec::ExpertsBlock;

#[cfg(feature = "torch")]
pub(super) use load::load_experts;
