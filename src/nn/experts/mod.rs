//! Feed-forward blocks with experts: a router gives each token places in the buffers of some experts, which compute
//! all their places at once; the token's result is the weighted sum of theirs, 0 without a place.
//!
//! Source: flaxformer `architectures/moe/{moe_layers,routing}.py`. Flaxformer moves tokens by products with masks of
//! `[tokens, experts, capacity]`, which suits TPUs; here they are moved by their numbers, with the same results.

mod spec;

#[cfg(feature = "torch")]
mod layer;
#[cfg(feature = "torch")]
mod routing;

pub use spec::{ExpertsSpec, IgnoredPadding, RouterSpec, Routing, RoutingMode, TokenGroups};

#[cfg(feature = "torch")]
pub use layer::{ExpertKernels, Experts};
#[cfg(feature = "torch")]
pub use routing::RoutingReport;
