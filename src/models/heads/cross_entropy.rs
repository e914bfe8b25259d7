//! Cross entropy of a linear head, computed a slice of rows at a time.
//!
//! Logits of a whole batch are the largest tensor of a T5 step (rows x vocabulary, float32), and
//! autograd would keep two more of that size. Here each slice's gradient is written over its logits
//! and multiplied into the gradients of the head's inputs at once; those gradients then enter the
//! graph through a scalar with these derivatives.

use tch::{Device, Kind, Tensor};

use super::head::{Head, HeadGradients, HeadProducts, Vocabulary};
use super::spec::LossSpec;
use crate::nn::fused::kernels::{self, Kernel};

/// Bytes of logits that are computed at once; larger slices make matrix products faster.
const SLICE_BYTES: i64 = 128 << 20;
/// Smallest number of rows of a slice: the weight's gradient is read and written once per slice.
const MIN_SLICE_ROWS: i64 = 256;

/// Targets and their weights.
#[derive(Debug)]
pub struct Targets {
    /// int64 `[rows]`
    pub tokens: Tensor,
    /// float32 `[rows]`: the factor of each row's loss.
    pub coefficients: Tensor,
}

/// The values of each row, detached and not multiplied by its coefficient.
#[derive(Debug)]
pub struct TokenLosses {
    /// Cross entropy plus z-loss, minus the smallest cross entropy that label smoothing allows.
    /// `[rows]`
    pub loss: Tensor,
    /// The z-loss in it. `[rows]`
    pub z_loss: Tensor,
    /// 1 where the target is the most probable token, else 0. `[rows]`
    pub correct: Tensor,
}

/// Losses by row, and a scalar whose gradient is that of `sum(coefficients * loss)`. The scalar's own
/// value has no meaning.
pub fn cross_entropy(head: &Head, targets: &Targets, spec: &LossSpec) -> (TokenLosses, Tensor) {
    let smoothing = Smoothing::new(spec.label_smoothing, head.vocabulary.size);
    let products = tch::no_grad(|| HeadProducts::new(head));
    let gradients = HeadGradients::new(head);
    let rows = head.hidden.size()[0];
    let slice_rows = slice_rows(&head.vocabulary);
    let mut losses = Vec::new();
    tch::no_grad(|| {
        for start in (0..rows).step_by(slice_rows as usize) {
            let logits = products.logits(start, slice_rows.min(rows - start));
            let slice = Slice::new(&head.vocabulary, logits, targets, start);
            let (slice_losses, logits_gradient) = slice.losses(spec.z_loss, &smoothing);
            if let Some(gradients) = &gradients {
                gradients.add(&products, start, &logits_gradient);
            }
            losses.push(slice_losses);
        }
    });
    let scalar = match gradients {
        Some(gradients) => gradients.into_scalar(&products),
        None => Tensor::zeros([], (Kind::Float, head.hidden.device())),
    };
    (TokenLosses::concat(&losses, head.hidden.device()), scalar)
}

/// Number of rows whose logits are computed at once.
pub(super) fn slice_rows(vocabulary: &Vocabulary) -> i64 {
    let Vocabulary { axis, size, .. } = vocabulary;
    (SLICE_BYTES * axis.size() as i64 / (4 * size)).max(MIN_SLICE_ROWS)
}

/// `log p(target)` of each row, detached. `[rows]`
pub fn log_likelihoods(head: &Head, tokens: &Tensor) -> Tensor {
    let targets = Targets {
        tokens: tokens.shallow_clone(),
        coefficients: Tensor::zeros(tokens.size(), (Kind::Float, tokens.device())),
    };
    let (losses, _) = tch::no_grad(|| cross_entropy(head, &targets, &LossSpec::default()));
    losses.loss.neg()
}

/// Target distributions with some mass spread over the other tokens.
struct Smoothing {
    /// Mass of the target.
    confidence: f64,
    /// Mass of each other token.
    low: f64,
    /// Entropy of such a distribution: the smallest possible cross entropy.
    least: f64,
}

impl Smoothing {
    fn new(label_smoothing: f64, vocab_size: i64) -> Self {
        let confidence = 1.0 - label_smoothing;
        let others = (vocab_size - 1) as f64;
        let low = label_smoothing / others.max(1.0);
        let least = -(confidence * confidence.ln() + others * low * (low + 1e-20).ln());
        Self { confidence, low, least }
    }
}

/// The part of the computation for some rows.
struct Slice<'a> {
    vocabulary: &'a Vocabulary,
    logits: Tensor,       // [slice, vocab]
    tokens: Tensor,       // [slice, 1]
    coefficients: Tensor, // [slice, 1]
}

impl<'a> Slice<'a> {
    fn new(vocabulary: &'a Vocabulary, logits: Tensor, targets: &Targets, start: i64) -> Self {
        let rows = logits.size()[0];
        Self {
            vocabulary,
            logits,
            tokens: targets.tokens.narrow(0, start, rows).unsqueeze(-1),
            coefficients: targets.coefficients.narrow(0, start, rows).unsqueeze(-1),
        }
    }

    /// The rows' losses, and the gradient of their weighted sum, written over the logits.
    fn losses(&self, z_loss: f64, smoothing: &Smoothing) -> (TokenLosses, Tensor) {
        if self.vocabulary.axis.is_alone()
            && kernels::suit(Kernel::CrossEntropy, &self.logits, i64::MAX)
        {
            return self.losses_by_kernel(z_loss, smoothing);
        }
        let Vocabulary { axis, first, size: vocab_size } = self.vocabulary;
        let mut logits = self.logits.shallow_clone();
        let (own_largest, predicted) = logits.max_dim(-1, true);
        let largest =
            if axis.is_alone() { own_largest.shallow_clone() } else { own_largest.copy() };
        axis.max_in_place(&largest);
        // The target's place among the tokens here, and whether it is one of them.
        let places = &self.tokens - *first;
        let own = places.ge(0).logical_and(&places.lt(logits.size()[1]));
        let places = places * &own;
        let is_largest = own_largest.eq_tensor(&largest);
        let is_predicted = predicted.eq_tensor(&places).logical_and(&own);
        // Of equal logits the first counts, also where another process has it: there the sum is not positive.
        let is_preceded = (&predicted + *first).lt_tensor(&self.tokens);
        let correct = is_predicted.to_kind(Kind::Float) - is_preceded.to_kind(Kind::Float);
        let correct = correct * is_largest;
        let _ = logits.g_sub_(&largest);
        let target_logit = logits.gather(-1, &places, false) * &own;
        let logit_sum = (smoothing.low > 0.0).then(|| row_sums(&logits));
        let mut exponentials = logits.exp_();
        let normalizer = row_sums(&exponentials);
        let sums = [Some(correct), Some(target_logit), Some(normalizer), logit_sum];
        let sums = Tensor::stack(&sums.into_iter().flatten().collect::<Vec<_>>(), 0);
        axis.sum_in_place(&sums);
        let [correct, target_logit, normalizer] = [0, 1, 2].map(|place| sums.get(place));
        let correct = correct.clamp_min(0.0);
        let logit_sum = (smoothing.low > 0.0).then(|| sums.get(3));
        let log_normalizer = normalizer.log();
        let log_z = &log_normalizer + &largest;
        let mut cross_entropy =
            (&log_normalizer - &target_logit) * (smoothing.confidence - smoothing.low);
        if let Some(logit_sum) = logit_sum {
            cross_entropy += (&log_normalizer * *vocab_size as f64 - logit_sum) * smoothing.low;
        }
        let z_losses = log_z.square() * z_loss;
        let losses = TokenLosses {
            loss: (cross_entropy + &z_losses - smoothing.least).squeeze_dim(-1),
            z_loss: z_losses.squeeze_dim(-1),
            correct: correct.squeeze_dim(-1),
        };
        // (1 + 2 z log Z) softmax - target, T5X `losses.py`.
        let softmax_factor = (log_z * (2.0 * z_loss) + 1.0) / normalizer * &self.coefficients;
        let _ = exponentials.g_mul_(&softmax_factor);
        if smoothing.low > 0.0 {
            let _ = exponentials.g_sub_(&(&self.coefficients * smoothing.low));
        }
        let target_gradient = &self.coefficients * (smoothing.low - smoothing.confidence) * own;
        let _ = exponentials.scatter_add_(-1, &places, &target_gradient);
        (losses, exponentials)
    }

    /// Computes the same in two passes over the logits.
    fn losses_by_kernel(&self, z_loss: f64, smoothing: &Smoothing) -> (TokenLosses, Tensor) {
        let empty = || self.coefficients.squeeze_dim(-1).empty_like();
        let losses = TokenLosses { loss: empty(), z_loss: empty(), correct: empty() };
        let TokenLosses { loss, z_loss: z_losses, correct } = &losses;
        let tensors = [&self.logits, &self.tokens, &self.coefficients, loss, z_losses, correct];
        let Smoothing { confidence, low, least } = *smoothing;
        kernels::launch(c"cross_entropy", &tensors, &[z_loss, confidence, low, least]);
        (losses, self.logits.shallow_clone())
    }
}

fn row_sums(values: &Tensor) -> Tensor {
    values.sum_dim_intlist(-1, true, Kind::Float)
}

impl TokenLosses {
    /// Joins the losses of slices, of which there is none if there are no rows.
    fn concat(slices: &[TokenLosses], device: Device) -> Self {
        let concat = |read: fn(&TokenLosses) -> &Tensor| match slices {
            [] => Tensor::zeros([0], (Kind::Float, device)),
            _ => Tensor::cat(&slices.iter().map(read).collect::<Vec<_>>(), 0),
        };
        Self {
            loss: concat(|slice| &slice.loss),
            z_loss: concat(|slice| &slice.z_loss),
            correct: concat(|slice| &slice.correct),
        }
    }
}
