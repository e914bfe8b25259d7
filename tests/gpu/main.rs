//! Compares every kernel of Gimlet's with libtorch's operations on a CUDA device. Built with the
//! feature `cuda` only; `make gpu-check` runs it.
//!
//! Tolerances are relative to the norm of libtorch's result: a few roundings of the dtype, for sums
//! in another order. Each comparison also names the operations that must have run, and Gimlet's
//! kernels must not run in libtorch's turn.

mod attention;
#[path = "../numerics/exchanges.rs"]
mod exchanges;
mod float16;
mod launches;
mod model;
mod operations;
mod optimizer;
mod processes;
mod run_of_steps;
mod steps;

use std::sync::{Mutex, MutexGuard, PoisonError};

use gimlet::nn::fused::kernels;
use tch::{Device, Kind, Tensor};

/// Relative errors from another order of sums.
const DTYPES: [(Kind, f64); 2] = [(Kind::Float, 2e-6), (Kind::BFloat16, 4e-3)];

/// cuDNN's attention, libtorch's with a bias, and libtorch's over runs of keys.
const CUDNN: [&str; 2] = ["cudnn_attention", "cudnn_attention_backward"];
const EFFICIENT: [&str; 2] =
    ["aten::_efficient_attention_forward", "aten::_efficient_attention_backward"];
const FLASH: [&str; 2] = ["aten::_flash_attention_forward", "aten::_flash_attention_backward"];

/// The attention of a device in bfloat16 and float16, where the host knows the examples.
fn over_runs(learned_bias: bool) -> &'static [&'static str; 2] {
    match (kernels::generation(Device::Cuda(0)), learned_bias) {
        (9.., _) => &CUDNN,
        (_, true) => &EFFICIENT,
        (_, false) => &FLASH,
    }
}

/// Locks the device: tests seed its generator, and disable kernels for all threads.
fn cuda() -> (Device, MutexGuard<'static, ()>) {
    static HELD: Mutex<()> = Mutex::new(());
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(tch::Cuda::is_available(), "there is no CUDA device to compare kernels on");
    tch::manual_seed(7);
    (Device::Cuda(0), held)
}

fn random(size: &[i64], kind: Kind) -> Tensor {
    Tensor::randn(size, (Kind::Float, Device::Cuda(0))).to_kind(kind)
}

/// A comparison: its name, the operations that Gimlet must run, and the tolerance.
struct Comparison<'a> {
    what: &'a str,
    kernels: &'a [&'a str],
    tolerance: f64,
}

/// Compares the `results` of Gimlet's kernels with those of libtorch, within the tolerance.
fn compare(comparison: &Comparison, mut results: impl FnMut() -> Vec<Tensor>) {
    compare_ways(comparison, |_| results());
}

/// Does the same for results that depend on whether kernels are enabled, since libtorch would round
/// more.
fn compare_ways(comparison: &Comparison, results: impl FnMut(bool) -> Vec<Tensor>) {
    let Comparison { what, kernels, tolerance } = *comparison;
    let [found, expected] = both_ways(what, kernels, results);
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let error = relative_error(found, expected);
        assert!(error < tolerance, "{what}, result {index}: relative error {error}");
    }
}

/// Returns the results with Gimlet's kernels, all of which must run, and without.
fn both_ways(
    what: &str,
    kernels: &[&str],
    mut results: impl FnMut(bool) -> Vec<Tensor>,
) -> [Vec<Tensor>; 2] {
    let [(found, not_in_ours), (expected, not_in_theirs)] = [true, false].map(|ours| {
        kernels::enable(ours);
        tch::manual_seed(8);
        launches::without(kernels, || results(ours))
    });
    kernels::enable(true);
    assert_eq!(not_in_ours, [""; 0], "{what}: these did not run");
    assert_eq!(not_in_theirs, kernels, "{what}: the others ran where kernels are off");
    assert_eq!(found.len(), expected.len(), "{what}");
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found.kind(), expected.kind(), "{what}, result {index}");
    }
    [found, expected]
}

fn relative_error(found: &Tensor, expected: &Tensor) -> f64 {
    let wide = expected.to_kind(Kind::Double);
    let distance = (found.to_kind(Kind::Double) - &wide).norm();
    (distance / wide.norm().clamp_min(1e-30)).double_value(&[])
}

/// Returns the outputs, and the gradients of `inputs` for a loss that weights every number of every
/// output.
fn with_gradients(outputs: &[Tensor], inputs: &[&Tensor]) -> Vec<Tensor> {
    let weighted = outputs.iter().map(|output| {
        let numbers = Tensor::arange(output.numel() as i64, (Kind::Float, output.device()));
        (output.reshape([-1]) * numbers.sin().to_kind(output.kind())).sum(Kind::Float)
    });
    let loss = weighted.reduce(|a, b| a + b).expect("there are outputs");
    let mut all = Tensor::run_backward(&[loss], inputs, false, false);
    all.extend(outputs.iter().map(Tensor::detach));
    all
}
