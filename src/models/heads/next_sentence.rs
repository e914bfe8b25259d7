//! The head that recognizes whether the second text of a row follows the first (Devlin et al. 2018, arXiv:1810.04805).

use tch::{Kind, Tensor};

use super::spec::{Divisors, LossSpec};
use super::sums::HeadLoss;
use super::weights::{NormalizedWeights, normalize};
use crate::metrics::sum;
use crate::models::{Batch, feature};
use crate::nn::profiler::{Activity, part};

/// The head of [`feature::NEXT_SENTENCE_LABEL`]. Rows count alike, but rows of padding do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextSentence;

impl NextSentence {
    const LABEL: &str = feature::NEXT_SENTENCE_LABEL;

    /// The loss of a batch with these logits, float32 `[batch, 2]`, and the sums for its metrics.
    pub fn loss(self, logits: &Tensor, batch: &Batch, spec: &LossSpec) -> HeadLoss {
        let _part = part(Activity::Loss);
        let NormalizedWeights { weights, factor } = self.normalized(batch, spec);
        let weights = weights.reshape(-1);
        // Of rows of padding alone the divisor is 0, and so are the weights.
        let coefficients = match (spec.divisors.get(Self::LABEL), &factor) {
            (Some(divisor), _) if *divisor == 0.0 => weights.shallow_clone(),
            (Some(divisor), _) => &weights / *divisor,
            (None, Some(factor)) => &weights / (factor + factor.eq(0)),
            (None, None) => weights.shallow_clone(),
        };
        let labels = batch.tensor(Self::LABEL).reshape(-1);
        let likelihoods = logits.log_softmax(-1, Kind::Float);
        let losses = likelihoods.gather(-1, &labels.unsqueeze(-1), false).reshape(-1).neg();
        let loss = losses.dot(&coefficients);
        let counted = weights.ne(0).to_kind(Kind::Float);
        let correct = logits.argmax(-1, false).eq_tensor(&labels).to_kind(Kind::Float);
        let value = loss.detach();
        let sums = vec![
            (sum::NEXT_SENTENCE_LOSS, value.shallow_clone()),
            (sum::NEXT_SENTENCE_CORRECT, correct.dot(&counted)),
            (sum::NUM_SENTENCE_PAIRS, counted.sum(Kind::Float)),
        ];
        HeadLoss { loss, value, sums, num_targets: 0 }
    }

    /// The divisor of the loss over these rows, if it is divided.
    pub fn divisors(self, batch: &Batch, spec: &LossSpec) -> Divisors {
        let factor = self.normalized(batch, spec).factor;
        factor.map(|factor| (Self::LABEL, factor.double_value(&[]))).into_iter().collect()
    }

    fn normalized(self, batch: &Batch, spec: &LossSpec) -> NormalizedWeights {
        let real = batch.tensor(feature::ENCODER_INPUT_TOKENS).ne(0).any_dim(1, true);
        normalize(spec.loss_normalizing_factor, real.to_kind(Kind::Float), None)
    }
}
