//! Tests on a GPU check that kernels ran. Here no kernel runs, and the checks must notice that.

use gimlet::nn::fused::gated_gelu;
use gimlet::nn::{Joined, rms_norm};
use tch::{Device, Kind, Tensor};

#[path = "../gpu/launches.rs"]
mod launches;

#[test]
fn kernels_that_step_aside_are_missed_and_what_ran_is_not() {
    let ones = || Tensor::ones([4, 16], (Kind::Float, Device::Cpu)).set_requires_grad(true);
    let scale = Tensor::ones([16], (Kind::Float, Device::Cpu));
    let kernels = ["rms_norm", "rms_norm_backward", "gated_gelu", "gated_gelu_backward"];
    let asked = [&kernels[..], &["aten::gelu", "aten::gelu_backward"]].concat();
    let (_, missing) = launches::without(&asked, || {
        let product = gated_gelu(&Joined::new(vec![rms_norm(&ones(), &scale)], 2));
        product.sum(Kind::Float).backward();
    });
    assert_eq!(missing, kernels);
    let (_, missing) = launches::without(&["aten::gelu"], || rms_norm(&ones(), &scale));
    assert_eq!(missing, ["aten::gelu"]);
}
