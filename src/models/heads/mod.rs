//! The heads of networks, which turn hidden states into a loss and the sums for its metrics. A loss is a sum over heads.
//!
//! Source: T5X `losses.py` and `models.py`.

mod slices;
mod spec;

#[cfg(feature = "torch")]
mod answers;
#[cfg(feature = "torch")]
mod cross_entropy;
#[cfg(feature = "torch")]
mod head;
#[cfg(feature = "torch")]
mod likeliest;
#[cfg(feature = "torch")]
mod next_sentence;
#[cfg(feature = "torch")]
mod routing;
#[cfg(feature = "torch")]
mod sums;
#[cfg(feature = "torch")]
mod token_logits;
#[cfg(feature = "torch")]
mod weights;

pub use slices::slice_rows;
pub use spec::{
    Divisors, LossNormalizingFactor, LossSpec, MeanOfMicrobatches, PartialBatches, RoutingLosses,
};

#[cfg(feature = "torch")]
pub use answers::{AnswerLoss, Answers};
#[cfg(feature = "torch")]
pub use cross_entropy::{Targets, TokenLosses, cross_entropy, log_likelihoods};
#[cfg(feature = "torch")]
pub use head::{Head, Vocabulary};
#[cfg(feature = "torch")]
pub use likeliest::{Likeliest, ScoredTokens};
#[cfg(feature = "torch")]
pub use next_sentence::NextSentence;
#[cfg(feature = "torch")]
pub use sums::{HeadLoss, LossOutput, UnreadSums};
#[cfg(feature = "torch")]
pub use token_logits::TokenLogits;
