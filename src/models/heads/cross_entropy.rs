//! Cross entropy of a linear head, computed a slice of rows at a time.
//!
//! Logits of a whole batch are the largest tensor of a T5 step (rows x vocabulary, float32), and
//! autograd would keep two more of that size. Here each slice's gradient is written over its logits,
//! or in bfloat16 beside them, and multiplied into the gradients of the head's inputs at once; those
//! gradients then enter the graph through a scalar with these derivatives.

use tch::{Device, Kind, Tensor};

use super::head::{Head, HeadGradients, HeadProducts, Vocabulary};
use super::spec::LossSpec;
use crate::nn::fused::kernels::{self, Kernel};

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
    let products = tch::no_grad(|| HeadProducts::new(head));
    in_slices(&products, targets, spec, head.vocabulary.slice_rows())
}

/// Computes the losses and the scalar, `slice_rows` rows at once.
fn in_slices(
    products: &HeadProducts,
    targets: &Targets,
    spec: &LossSpec,
    slice_rows: i64,
) -> (TokenLosses, Tensor) {
    let head = products.head;
    let smoothing = Smoothing::new(spec.label_smoothing, head.vocabulary.size);
    let gradients = HeadGradients::new(head);
    let kind = gradients.as_ref().map_or(Kind::Float, |_| products.gradient_kind());
    let rows = head.hidden.size()[0];
    let mut losses = Vec::new();
    tch::no_grad(|| {
        for start in (0..rows).step_by(slice_rows as usize) {
            let logits = products.logits(start, slice_rows.min(rows - start));
            let slice = Slice::new(&head.vocabulary, logits, targets, start);
            let (slice_losses, logits_gradient) = slice.losses(spec.z_loss, &smoothing, kind);
            if let Some(gradients) = &gradients {
                gradients.add(products, start, &logits_gradient);
            }
            losses.push(slice_losses);
        }
    });
    let scalar = match gradients {
        Some(gradients) => gradients.into_scalar(products),
        None => Tensor::zeros([], (Kind::Float, head.hidden.device())),
    };
    (TokenLosses::concat(&losses, head.hidden.device()), scalar)
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

    /// The rows' losses, and the gradient of their weighted sum: float32 and written over the logits, or in the format `kind`
    /// where a kernel writes that.
    fn losses(&self, z_loss: f64, smoothing: &Smoothing, kind: Kind) -> (TokenLosses, Tensor) {
        if self.vocabulary.axis.is_alone()
            && kernels::suit(Kernel::CrossEntropy, &self.logits, i64::MAX)
        {
            return self.losses_by_kernel(z_loss, smoothing, kind);
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
    fn losses_by_kernel(
        &self,
        z_loss: f64,
        smoothing: &Smoothing,
        kind: Kind,
    ) -> (TokenLosses, Tensor) {
        let device = self.logits.device();
        let narrow = match kind {
            Kind::BFloat16 if device.is_cuda() => Tensor::empty(self.logits.size(), (kind, device)),
            _ => Tensor::new(),
        };
        let empty = || self.coefficients.squeeze_dim(-1).empty_like();
        let losses = TokenLosses { loss: empty(), z_loss: empty(), correct: empty() };
        let TokenLosses { loss, z_loss: z_losses, correct } = &losses;
        let Self { logits, tokens, coefficients, .. } = self;
        let tensors = [logits, tokens, coefficients, loss, z_losses, correct, &narrow];
        let Smoothing { confidence, low, least } = *smoothing;
        kernels::launch(c"cross_entropy", &tensors, &[z_loss, confidence, low, least]);
        (losses, if narrow.defined() { narrow } else { logits.shallow_clone() })
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Case {
        transposed: bool,
        bias: bool,
        scale: f64,
        vocab: i64,
        spec: LossSpec,
    }

    /// Leaves of bfloat16 hidden states, a kernel, and a bias if there is one.
    fn leaves(case: &Case) -> Vec<Tensor> {
        let numbers = |size: [i64; 2], step: f64| {
            let count = size[0] * size[1];
            (Tensor::arange(count, (Kind::Float, Device::Cpu)) * step).sin().view(size)
        };
        let hidden = numbers([300, 16], 0.7).to_kind(Kind::BFloat16);
        let size = if case.transposed { [case.vocab, 16] } else { [16, case.vocab] };
        let mut all = vec![hidden, numbers(size, 1.3)];
        all.extend(case.bias.then(|| numbers([1, case.vocab], 2.1).squeeze_dim(0)));
        all.into_iter().map(|tensor| tensor.set_requires_grad(true)).collect()
    }

    /// Losses and gradients, in slices by products of bfloat16 numbers as on CUDA, or by those that suit the hidden states.
    fn results(case: &Case, leaves: &[Tensor], in_bfloat16: bool) -> (TokenLosses, Vec<Tensor>) {
        let kernel = if case.transposed { leaves[1].tr() } else { leaves[1].shallow_clone() };
        let head = Head {
            hidden: leaves[0].shallow_clone(),
            kernel,
            bias: leaves.get(2).map(Tensor::shallow_clone),
            scale: case.scale,
            vocabulary: Vocabulary::whole(case.vocab),
        };
        let numbers = Tensor::arange(300, (Kind::Int64, Device::Cpu));
        let targets = Targets {
            tokens: (&numbers * 7).remainder(case.vocab),
            coefficients: numbers.to_kind(Kind::Float).cos() / 300.0,
        };
        let (losses, scalar) = match in_bfloat16 {
            true => {
                let products = tch::no_grad(|| HeadProducts::in_bfloat16(&head));
                in_slices(&products, &targets, &case.spec, 128)
            }
            false => cross_entropy(&head, &targets, &case.spec),
        };
        (losses, Tensor::run_backward(&[scalar], leaves, false, false))
    }

    fn error(found: &Tensor, expected: &Tensor) -> f64 {
        let [found, expected] = [found, expected].map(|tensor| tensor.to_kind(Kind::Double));
        ((found - &expected).norm() / expected.norm()).double_value(&[])
    }

    /// The expected results are those of float32 products, with the kernel rounded to bfloat16 and with the whole one. With the
    /// rounded one losses are the same, and gradients differ by the rounding of the logits' gradient.
    fn check(case: &Case) {
        let leaves = leaves(case);
        let (losses, gradients) = results(case, &leaves, true);
        assert!(gradients.iter().zip(&leaves).all(|(found, leaf)| found.kind() == leaf.kind()));
        let leaf = |values: Tensor| values.to_kind(Kind::Float).set_requires_grad(true);
        let wide: Vec<Tensor> = leaves.iter().map(|leaf| leaf.detach()).map(leaf).collect();
        let mut rounded = wide.iter().map(Tensor::shallow_clone).collect::<Vec<_>>();
        rounded[1] = leaf(wide[1].detach().to_kind(Kind::BFloat16));
        for (leaves, of_losses, of_gradients) in [(rounded, 1e-5, 3e-3), (wide, 2e-3, 1e-2)] {
            let (expected, expected_gradients) = results(case, &leaves, false);
            for (found, expected) in
                [(&losses.loss, &expected.loss), (&losses.z_loss, &expected.z_loss)]
            {
                assert!(error(found, expected) < of_losses);
            }
            for (found, expected) in gradients.iter().zip(&expected_gradients) {
                let error = error(found, expected);
                assert!(error < of_gradients, "a gradient of {:?}: {error}", found.size());
            }
        }
    }

    #[test]
    fn products_of_bfloat16_numbers_differ_by_roundings_of_kernel_and_gradients() {
        let spec = LossSpec { z_loss: 1e-2, ..LossSpec::default() };
        let plain =
            || Case { transposed: false, bias: false, scale: 1.0, vocab: 200, spec: spec.clone() };
        check(&plain());
        check(&Case { bias: true, scale: 0.3, ..plain() });
        check(&Case { transposed: true, scale: 0.3, ..plain() });
        // A vocabulary that the loss' kernel does not accept, and smoothed targets.
        let smooth = LossSpec { label_smoothing: 0.1, ..spec.clone() };
        check(&Case { vocab: 203, spec: smooth, ..plain() });
    }
}
