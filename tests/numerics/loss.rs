//! Compares cross entropy with smoothing and z-loss with the textbook, differentiated by autograd.

use gimlet::models::heads::{Head, LossSpec, Targets, Vocabulary, cross_entropy};
use tch::{Device, Kind, Tensor};

use crate::fixture;

/// The formulas of T5X `losses.py` on one-hot targets, in float64.
fn textbook(logits: &Tensor, targets: &Targets, spec: &LossSpec) -> (Tensor, Tensor) {
    let logits = logits.to_kind(Kind::Double);
    let vocab_size = logits.size()[1];
    let confidence = 1.0 - spec.label_smoothing;
    let low = spec.label_smoothing / (vocab_size - 1) as f64;
    let one_hot = targets.tokens.one_hot(vocab_size).to_kind(Kind::Double);
    let soft = one_hot * (confidence - low) + low;
    let least =
        -(confidence * confidence.ln() + (vocab_size - 1) as f64 * low * (low + 1e-20).ln());
    let log_z = logits.logsumexp([-1], false);
    let z_loss = log_z.square() * spec.z_loss;
    let log_softmax = logits.log_softmax(-1, None::<Kind>);
    let cross_entropy = -(soft * log_softmax).sum_dim_intlist(-1, false, None::<Kind>);
    (cross_entropy + &z_loss - least, z_loss)
}

/// A head of hidden states in a format.
struct Case {
    kind: Kind,
    vocab: i64,
    transposed: bool,
    scale: f64,
    tolerance: f64,
}

const FLOAT: Case =
    Case { kind: Kind::Float, vocab: 11, transposed: false, scale: 1.0, tolerance: 1e-5 };
/// Logits have 16 bits of the kernel, gradients 8 of all numbers.
const BFLOAT16: Case =
    Case { kind: Kind::BFloat16, vocab: 200, transposed: false, scale: 1.0, tolerance: 1e-2 };

fn check(spec: LossSpec, case: Case) {
    let Case { kind, vocab, transposed, scale, tolerance } = case;
    let _held = fixture::generator();
    tch::manual_seed(0);
    let leaf = |tensor: Tensor| tensor.set_requires_grad(true);
    let hidden = leaf(Tensor::randn([300, 6], (Kind::Float, Device::Cpu)).to_kind(kind));
    let size = if transposed { [vocab, 6] } else { [6, vocab] };
    let weight = leaf(Tensor::randn(size, (Kind::Float, Device::Cpu)));
    let kernel = if transposed { weight.tr() } else { weight.shallow_clone() };
    let targets = Targets {
        tokens: Tensor::randint(vocab, [300], (Kind::Int64, Device::Cpu)),
        coefficients: Tensor::rand([300], (Kind::Float, Device::Cpu)),
    };
    let (loss, z_loss) =
        textbook(&(hidden.to_kind(Kind::Float).matmul(&kernel) * scale), &targets, &spec);
    let total = (&loss * &targets.coefficients).sum(Kind::Double);
    let expected = Tensor::run_backward(&[total], &[&hidden, &weight], false, false);

    let head = Head {
        vocabulary: Vocabulary::whole(kernel.size()[1]),
        hidden: hidden.shallow_clone(),
        kernel,
        bias: None,
        scale,
    };
    let (losses, scalar) = cross_entropy(&head, &targets, &spec);
    let found = Tensor::run_backward(&[scalar], &[&hidden, &weight], false, false);
    let close = |a: &Tensor, b: &Tensor| {
        let b = b.to_kind(Kind::Float);
        a.allclose(&b, 1e-5, 1e-6, false)
    };
    assert!(close(&losses.loss, &loss.detach()) && close(&losses.z_loss, &z_loss.detach()));
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found.kind(), expected.kind());
        let [found, expected] = [found, expected].map(|tensor| tensor.to_kind(Kind::Double));
        let error = ((&found - &expected).norm() / expected.norm()).double_value(&[]);
        assert!(error < tolerance, "a gradient of {:?} differs by {error}", found.size());
    }
}

#[test]
fn loss_and_gradient_follow_the_formulas() {
    let z_loss = || LossSpec { z_loss: 0.1, ..LossSpec::default() };
    let smooth = || LossSpec { label_smoothing: 0.1, z_loss: 1e-4, ..LossSpec::default() };
    check(LossSpec::default(), FLOAT);
    check(z_loss(), FLOAT);
    check(smooth(), Case { transposed: true, scale: 0.3, ..FLOAT });
    // A vocabulary that the kernel accepts.
    check(smooth(), Case { vocab: 24, ..FLOAT });
    check(z_loss(), BFLOAT16);
    check(smooth(), Case { transposed: true, scale: 0.3, ..BFLOAT16 });
}
