//! Tests check that kernels ran, and the checks must notice that they did not.

use gimlet::nn::fused::gated_gelu;
use gimlet::nn::{Joined, RmsNorm, rms_norm};
use tch::{Device, Kind, Tensor};

#[path = "../gpu/launches.rs"]
mod launches;

/// Returns the missing ones of our kernels and libtorch's, in a gated GELU of a norm of rows of that width.
fn missing(width: i64) -> Vec<&'static str> {
    let ones = || Tensor::ones([4, width], (Kind::Float, Device::Cpu)).set_requires_grad(true);
    let scale = Tensor::ones([width], (Kind::Float, Device::Cpu));
    let norm = RmsNorm { scale, epsilon: 1e-6 };
    let asked = [&OURS[..], &LIBTORCHS].concat();
    let (_, missing) = launches::without(&asked, || {
        let product = gated_gelu(&Joined::new(vec![rms_norm(&ones(), &norm)], 2));
        product.sum(Kind::Float).backward();
    });
    missing
}

const OURS: [&str; 4] = ["rms_norm", "rms_norm_backward", "gated_gelu", "gated_gelu_backward"];
const LIBTORCHS: [&str; 2] = ["aten::gelu", "aten::gelu_backward"];

#[test]
fn kernels_that_step_aside_are_missed_and_what_ran_is_not() {
    // Kernels read 8 numbers at once.
    assert_eq!(missing(12), OURS);
    assert_eq!(missing(16), LIBTORCHS);
}
