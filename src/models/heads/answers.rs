//! The losses of all answers of an example, each of which has the score of its tokens. Source: prompt-tuning
//! `extended/perceptron/train/models.py`.

use tch::{Kind, Tensor};

use super::cross_entropy::{Targets, cross_entropy};
use super::head::{Head, Vocabulary};
use super::spec::LossSpec;
use super::sums::HeadLoss;
use super::token_logits::TokenLogits;
use crate::metrics::sum;
use crate::models::{Batch, feature};
use crate::nn::autograd::records_gradients;
use crate::nn::profiler::{Activity, part};

/// The scores of answers, and their loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answers {
    /// Whether a score is the mean of the log-likelihoods of an answer's tokens instead of their sum.
    pub length_normalize: bool,
    /// The loss.
    pub loss: AnswerLoss,
}

/// A loss of the scores of an example's answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AnswerLoss {
    /// Cross entropy, with the scores as logits and the first right answer as the target.
    CrossEntropy,
    /// The greatest score minus those of right answers, plus this margin, and at least 0.
    Perceptron {
        /// The margin.
        hinge: f64,
    },
}

/// The sums of a loss over examples, and a scalar to differentiate.
struct OfScores {
    scalar: Tensor,
    value: Tensor,
    correct: Tensor, // float32 [examples]
    z_loss: Option<Tensor>,
}

impl Answers {
    /// The features of a batch of answers.
    pub const FEATURES: &'static [&'static str] = &[
        feature::ENCODER_INPUT_TOKENS,
        feature::DECODER_INPUT_TOKENS,
        feature::DECODER_TARGET_TOKENS,
        feature::DECODER_LOSS_WEIGHTS,
        feature::IS_CORRECT,
    ];

    /// The batch with a row for each answer.
    pub fn rows(batch: &Batch) -> Batch {
        let rows = batch.num_rows() * batch.length(feature::IS_CORRECT);
        let texts = Self::FEATURES.iter().filter(|name| **name != feature::IS_CORRECT);
        Batch::new(texts.map(|name| (*name, batch.tensor(name).reshape([rows, -1]))))
    }

    /// The scores of `count` answers of each example, whose logits `head` computes; 0 for padding: float32 `[examples, count]`.
    pub fn scores(&self, head: &Head, rows: &Batch, count: i64) -> Tensor {
        let scores = TokenLogits::TARGETS.scores(head, rows);
        let sums = scores.sum_dim_intlist(-1, false, Kind::Float);
        let scores = match self.length_normalize {
            true => sums / num_tokens(rows),
            false => sums,
        };
        scores.view([-1, count])
    }

    /// The loss of the answers in [rows](Self::rows), of which those are right, int64 `[examples, count]`, and the sums for its
    /// metrics. Each example counts once, but padding does not.
    pub fn loss(
        &self,
        head: &Head,
        rows: &Batch,
        is_correct: &Tensor,
        spec: &LossSpec,
    ) -> HeadLoss {
        let _part = part(Activity::Loss);
        let scores = self.scores(head, rows, is_correct.size()[1]);
        let is_recorded = records_gradients();
        let scores = scores.set_requires_grad(is_recorded);
        let counted = is_correct.any_dim(-1, false).to_kind(Kind::Float);
        let OfScores { scalar, value, correct, z_loss } = match self.loss {
            AnswerLoss::CrossEntropy => of_cross_entropy(&scores, is_correct, &counted, spec),
            AnswerLoss::Perceptron { hinge } => of_perceptron(&scores, is_correct, &counted, hinge),
        };
        let loss = match is_recorded {
            true => self.with_gradient(&value, (&scalar, &scores), head, rows),
            false => value.shallow_clone(),
        };
        let examples = counted.sum(Kind::Float);
        let sums = [
            z_loss.map(|z_loss| (sum::Z_LOSS, z_loss)),
            Some((sum::CORRECT, correct.dot(&counted))),
            Some((sum::NUM_WEIGHTED_TOKENS, examples.shallow_clone())),
            Some((sum::WEIGHT_SUM, examples)),
        ];
        let num_targets = is_correct.size()[0] as u64;
        HeadLoss { loss, value, sums: sums.into_iter().flatten().collect(), num_targets }
    }

    /// The value of a loss with its gradient of the logits. Its gradient of the scores says how much each token counts in it, so that
    /// the logits of all tokens need not be kept.
    fn with_gradient(
        &self,
        value: &Tensor,
        (scalar, scores): (&Tensor, &Tensor),
        head: &Head,
        rows: &Batch,
    ) -> Tensor {
        let of_scores = Tensor::run_backward(&[scalar], &[scores], false, false).remove(0);
        let of_answers = of_scores.reshape(-1).neg();
        let of_answers = match self.length_normalize {
            true => of_answers / num_tokens(rows),
            false => of_answers,
        };
        let weights = rows.tensor(feature::DECODER_LOSS_WEIGHTS);
        let targets = Targets {
            tokens: rows.tensor(feature::DECODER_TARGET_TOKENS).reshape(-1),
            coefficients: (weights * of_answers.unsqueeze(-1)).reshape(-1),
        };
        let (_, scalar) = cross_entropy(head, &targets, &LossSpec::default());
        &scalar + (value - scalar.detach())
    }
}

/// The number of an answer's tokens, and 1 for padding: float32 `[rows]`.
fn num_tokens(rows: &Batch) -> Tensor {
    let weights = rows.tensor(feature::DECODER_LOSS_WEIGHTS);
    let counts = weights.sum_dim_intlist(-1, false, Kind::Float);
    &counts + counts.eq(0.0)
}

fn of_cross_entropy(
    scores: &Tensor,
    is_correct: &Tensor,
    counted: &Tensor,
    spec: &LossSpec,
) -> OfScores {
    // The scores are logits as they are.
    let count = scores.size()[1];
    let head = Head {
        hidden: scores.shallow_clone(),
        kernel: Tensor::eye(count, (Kind::Float, scores.device())),
        bias: None,
        scale: 1.0,
        vocabulary: Vocabulary::whole(count),
    };
    let targets =
        Targets { tokens: is_correct.argmax(-1, false), coefficients: counted.shallow_clone() };
    let (losses, scalar) = cross_entropy(&head, &targets, spec);
    OfScores {
        scalar,
        value: losses.loss.dot(counted),
        correct: losses.correct,
        z_loss: Some(losses.z_loss.dot(counted)),
    }
}

fn of_perceptron(scores: &Tensor, is_correct: &Tensor, counted: &Tensor, hinge: f64) -> OfScores {
    let best = scores.amax([-1].as_slice(), false);
    let right = (scores * is_correct).sum_dim_intlist(-1, false, Kind::Float);
    let missing = best - right + hinge;
    let losses = missing.maximum(&missing.zeros_like());
    let scalar = losses.dot(counted);
    let correct = scores.argmax(-1, false).eq_tensor(&is_correct.argmax(-1, false));
    OfScores { value: scalar.detach(), scalar, correct: correct.to_kind(Kind::Float), z_loss: None }
}
