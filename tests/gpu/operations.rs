//! Tests single operations, in shapes that cover every branch of their kernels.

use gimlet::models::heads::{Head, LossSpec, Targets, Vocabulary, cross_entropy};
use gimlet::nn::fused::gated_gelu;
use gimlet::nn::{
    Dropout, Joined, RelativePosition, RmsNorm, add_and_norm, relative_position_bias, rms_norm,
};
use tch::{Kind, Tensor};

use crate::{Comparison, DTYPES, compare, compare_ways, cuda, random, with_gradients};

#[test]
fn norms_with_and_without_the_sum_before() {
    let (_device, _held) = cuda();
    for (kind, tolerance) in DTYPES {
        for width in [16, 512, 768, 1024, 2048, 4096, 8192] {
            let leaf = |size: &[i64]| random(size, kind).set_requires_grad(true);
            let (residual, branch, scale) =
                (leaf(&[5, 131, width]), leaf(&[5, 131, width]), leaf(&[width]));
            let norm = RmsNorm { scale: scale.shallow_clone(), epsilon: 1e-6 };
            let what = format!("rms_norm {kind:?} {width}");
            let kernels = &["rms_norm", "rms_norm_backward"];
            compare(&Comparison { what: &what, kernels, tolerance }, || {
                with_gradients(&[rms_norm(&residual, &norm)], &[&residual, &scale])
            });
            for dropout in [Dropout::off(), Dropout::train(0.2)] {
                let what = format!("add_and_norm {kind:?} {width}");
                compare(&Comparison { what: &what, kernels, tolerance }, || {
                    let (sum, normal) = add_and_norm(&residual, &branch, &norm, dropout);
                    with_gradients(&[sum, normal], &[&residual, &branch, &scale])
                });
            }
        }
    }
}

#[test]
fn gated_gelu_of_matrices_and_of_halves_of_one() {
    let (_device, _held) = cuda();
    for (kind, tolerance) in DTYPES {
        for width in [8, 1024, 2816] {
            let joint = random(&[3, 77, 2 * width], kind).set_requires_grad(true);
            let what = format!("gated_gelu {kind:?} {width}");
            let kernels = &["gated_gelu", "gated_gelu_backward"];
            compare(&Comparison { what: &what, kernels, tolerance }, || {
                let halves = [0, width].map(|start| joint.narrow(2, start, width).contiguous());
                let apart = gated_gelu(&Joined::new(halves.into(), 2));
                let together = gated_gelu(&Joined::new(vec![joint.shallow_clone()], 2));
                with_gradients(&[together, apart], &[&joint])
            });
        }
    }
}

#[test]
fn cross_entropy_with_z_loss_and_smoothing() {
    let (device, _held) = cuda();
    // TF32 holds these factors of bfloat16 logits too; their gradients are rounded to 11 bits there and to 8 here.
    let float = (Kind::Float, 1e-5, &["cross_entropy"][..]);
    let bfloat16 = (Kind::BFloat16, 6e-3, &["cross_entropy", "aten::addmm"][..]);
    let smooth = LossSpec { label_smoothing: 0.1, z_loss: 1e-2, ..LossSpec::default() };
    for (spec, (kind, tolerance, kernels)) in
        [LossSpec::default(), smooth].iter().flat_map(|spec| [(spec, float), (spec, bfloat16)])
    {
        for vocab in [8, 1000, 32128] {
            let hidden = random(&[517, 64], kind).set_requires_grad(true);
            let kernel = random(&[64, vocab], kind).to_kind(Kind::Float).set_requires_grad(true);
            let targets = Targets {
                tokens: Tensor::randint(vocab, [517], (Kind::Int64, device)),
                coefficients: random(&[517], Kind::Float).abs(),
            };
            let what = format!("cross_entropy {kind:?} {vocab}");
            compare(&Comparison { what: &what, kernels, tolerance }, || {
                let (hidden, kernel) = (hidden.shallow_clone(), kernel.shallow_clone());
                let vocabulary = Vocabulary::whole(kernel.size()[1]);
                let head = Head { hidden, kernel, bias: None, scale: 1.0, vocabulary };
                let (losses, scalar) = cross_entropy(&head, &targets, spec);
                let inputs = [&head.hidden, &head.kernel];
                let mut all = Tensor::run_backward(&[scalar], &inputs, false, false);
                all.extend([losses.loss, losses.z_loss, losses.correct]);
                all
            });
        }
    }
}

#[test]
fn gradients_of_relative_position_biases() {
    let (_device, _held) = cuda();
    for (kind, tolerance) in DTYPES {
        for (lengths, direction) in [
            ((512, 512), RelativePosition::Bidirectional),
            ((114, 114), RelativePosition::Causal),
            ((1, 70), RelativePosition::Causal),
            ((130, 7), RelativePosition::Bidirectional),
        ] {
            let embedding = random(&[6, 32], kind);
            // Positive, as sums that cancel would consist of roundings.
            let weights = random(&[3, 6, lengths.0 as i64, lengths.1 as i64], kind).abs();
            let what = format!("relative_position {kind:?} {lengths:?}");
            let (kernels, tolerance) = (&["diagonal_sums"], 5.0 * tolerance);
            compare_ways(&Comparison { what: &what, kernels, tolerance }, |ours| {
                // libtorch adds up bfloat16 gradients in bfloat16, which loses most of them.
                let kind_of_sums = if ours { kind } else { Kind::Float };
                let embedding = embedding.to_kind(kind_of_sums).set_requires_grad(true);
                let bias = relative_position_bias(&embedding, lengths, direction, 128);
                let loss = (&bias * weights.to_kind(kind_of_sums)).sum(Kind::Float);
                let gradient = Tensor::run_backward(&[loss], &[&embedding], false, false).remove(0);
                [gradient, bias.detach()].map(|result| result.to_kind(kind)).into()
            });
        }
    }
}
