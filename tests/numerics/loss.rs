//! Compares cross entropy with smoothing and z-loss with the textbook, differentiated by autograd.

use gimlet::models::loss::{Head, LossSpec, Targets, Vocabulary, cross_entropy};
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

fn check(spec: LossSpec, transposed: bool) {
    let _held = fixture::generator();
    tch::manual_seed(0);
    let leaf = |tensor: Tensor| tensor.set_requires_grad(true);
    let hidden = leaf(Tensor::randn([300, 6], (Kind::Float, Device::Cpu)));
    let size = if transposed { [11, 6] } else { [6, 11] };
    let weight = leaf(Tensor::randn(size, (Kind::Float, Device::Cpu)));
    let kernel = if transposed { weight.tr() } else { weight.shallow_clone() };
    let targets = Targets {
        tokens: Tensor::randint(11, [300], (Kind::Int64, Device::Cpu)),
        coefficients: Tensor::rand([300], (Kind::Float, Device::Cpu)),
    };
    let (loss, z_loss) = textbook(&hidden.matmul(&kernel), &targets, &spec);
    let total = (&loss * &targets.coefficients).sum(Kind::Double);
    let expected = Tensor::run_backward(&[total], &[&hidden, &weight], false, false);

    let head = Head {
        vocabulary: Vocabulary::whole(kernel.size()[1]),
        hidden: hidden.shallow_clone(),
        kernel,
    };
    let (losses, scalar) = cross_entropy(&head, &targets, &spec);
    let found = Tensor::run_backward(&[scalar], &[&hidden, &weight], false, false);
    let close = |a: &Tensor, b: &Tensor| a.allclose(&b.to_kind(Kind::Float), 1e-5, 1e-6, false);
    assert!(close(&losses.loss, &loss.detach()) && close(&losses.z_loss, &z_loss.detach()));
    assert!(found.iter().zip(&expected).all(|(found, expected)| close(found, expected)));
}

#[test]
fn loss_and_gradient_follow_the_formulas() {
    check(LossSpec::default(), false);
    check(LossSpec { z_loss: 0.1, ..LossSpec::default() }, false);
    check(LossSpec { label_smoothing: 0.1, z_loss: 1e-4, ..LossSpec::default() }, true);
}
