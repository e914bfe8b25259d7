//! The head that predicts a token at each position of a stack: its loss, and the scores of its targets.

use tch::{Kind, Tensor};

use super::cross_entropy::{Targets, cross_entropy, log_likelihoods};
use super::head::Head;
use super::likeliest::ScoredTokens;
use super::spec::{Divisors, LossSpec};
use super::sums::HeadLoss;
use super::weights::{NormalizedWeights, normalize};
use crate::metrics::sum;
use crate::models::{Batch, feature};
use crate::nn::profiler::{Activity, part};

/// The features of such a head, each `[batch, length]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLogits {
    /// The tokens to predict, int64.
    pub tokens: &'static str,
    /// The weight of each in the loss, float32.
    pub weights: &'static str,
    /// The example of each position of a packed row, int64.
    pub segment_ids: &'static str,
}

impl TokenLogits {
    /// The targets of a decoder.
    pub const TARGETS: Self = Self {
        tokens: feature::DECODER_TARGET_TOKENS,
        weights: feature::DECODER_LOSS_WEIGHTS,
        segment_ids: feature::DECODER_SEGMENT_IDS,
    };

    /// The tokens that an encoder's inputs mask.
    pub const MASKED: Self = Self {
        tokens: feature::ENCODER_TARGET_TOKENS,
        weights: feature::ENCODER_LOSS_WEIGHTS,
        segment_ids: feature::ENCODER_SEGMENT_IDS,
    };

    /// The loss of a batch's targets, whose logits `head` computes, and the sums for its metrics.
    pub fn loss(&self, head: &Head, batch: &Batch, spec: &LossSpec) -> HeadLoss {
        self.loss_at(None, head, batch, spec)
    }

    /// The places of targets with a weight, int64 `[positions]` in the batch as one row.
    pub fn weighted(&self, batch: &Batch) -> Tensor {
        batch.tensor(self.weights).reshape(-1).nonzero().reshape(-1)
    }

    /// The same where `head` computes the logits of some positions alone, int64 `[positions]` in the batch as one row; the
    /// others have no weight.
    pub fn loss_at(
        &self,
        positions: Option<&Tensor>,
        head: &Head,
        batch: &Batch,
        spec: &LossSpec,
    ) -> HeadLoss {
        let _part = part(Activity::Loss);
        let normalized = self.normalized(batch, spec);
        let some = |all: &Tensor| {
            let all = all.reshape(-1);
            positions.map_or_else(|| all.shallow_clone(), |places| all.index_select(0, places))
        };
        let weights = some(&normalized.weights);
        let coefficients = match (spec.divisors.get(self.tokens), &normalized.factor) {
            (Some(divisor), _) => &weights / *divisor,
            (None, Some(factor)) => &weights / factor,
            (None, None) => weights.shallow_clone(),
        };
        let all = batch.tensor(self.tokens);
        let (tokens, num_targets) = (some(all), all.numel() as u64);
        let targets = Targets { tokens, coefficients };
        let (losses, scalar) = cross_entropy(head, &targets, spec);
        let value = losses.loss.dot(&targets.coefficients);
        // T5X's metrics count targets with any weight, independently of its size.
        let counted = weights.ne(0).to_kind(Kind::Float);
        let sums = vec![
            (sum::Z_LOSS, losses.z_loss.dot(&targets.coefficients)),
            (sum::CORRECT, losses.correct.dot(&counted)),
            (sum::NUM_WEIGHTED_TOKENS, counted.sum(Kind::Float)),
            (sum::WEIGHT_SUM, weights.sum(Kind::Float)),
        ];
        // The value of the loss with the gradient of the scalar.
        let loss = &scalar + (&value - scalar.detach());
        HeadLoss { loss, value, sums, num_targets }
    }

    /// Log-likelihood of each target, weighted, without smoothing or z-loss: float32 `[batch, length]`.
    pub fn scores(&self, head: &Head, batch: &Batch) -> Tensor {
        let (tokens, weights) = (batch.tensor(self.tokens), batch.tensor(self.weights));
        log_likelihoods(head, &tokens.reshape(-1)).view_as(tokens) * weights
    }

    /// Log-likelihood of each target, whatever its weight, and of the `count` most probable tokens in its place. Rows are
    /// `batch * length`.
    pub fn scored(&self, head: &Head, batch: &Batch, count: i64) -> ScoredTokens {
        head.scored(&batch.tensor(self.tokens).reshape(-1), count)
    }

    /// The divisor of the loss over these rows, if it is divided.
    pub fn divisors(&self, batch: &Batch, spec: &LossSpec) -> Divisors {
        let factor = self.normalized(batch, spec).factor;
        factor.map(|factor| (self.tokens, factor.double_value(&[]))).into_iter().collect()
    }

    fn normalized(&self, batch: &Batch, spec: &LossSpec) -> NormalizedWeights {
        let weights = batch.tensor(self.weights).to_kind(Kind::Float);
        normalize(spec.loss_normalizing_factor, weights, batch.get(self.segment_ids))
    }
}
