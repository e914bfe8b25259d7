//! The training loss: cross entropy with label smoothing and z-loss, and the counts for metrics.
//!
//! Source: T5X `losses.py` and `models.py`.

mod spec;

#[cfg(feature = "torch")]
mod cross_entropy;
#[cfg(feature = "torch")]
mod head;
#[cfg(feature = "torch")]
mod routing;
#[cfg(feature = "torch")]
mod sums;
#[cfg(feature = "torch")]
mod targets;
#[cfg(feature = "torch")]
mod weights;

pub use spec::{LossNormalizingFactor, LossSpec, RoutingLosses};

#[cfg(feature = "torch")]
pub use cross_entropy::{Targets, TokenLosses, cross_entropy, log_likelihoods};
#[cfg(feature = "torch")]
pub use head::{Head, Vocabulary};
#[cfg(feature = "torch")]
pub use sums::{LossOutput, UnreadSums};
#[cfg(feature = "torch")]
pub use targets::{target_loss, target_scores};
#[cfg(feature = "torch")]
pub use weights::{NormalizedWeights, normalize};
