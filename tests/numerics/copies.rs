//! Kernels in bfloat16 that live as long as their parameters: updates write both.

use gimlet::nn::fused::kernels::Kernel;
use gimlet::partition::LocalDevice;
use gimlet::train::StepGraphs;
use tch::Tensor;

use crate::fixture;
use crate::run_of_steps::{FACTORED, steps, train};

/// Compares runs in which a kernel updates a parameter and its copy with runs of plain operations, after which copies are made.
fn check(bindings: &[&str]) {
    let bindings: Vec<&str> = FACTORED.iter().chain(bindings).copied().collect();
    let spec = train(&bindings);
    let run = || steps(&spec, LocalDevice::Cpu, |_| StepGraphs::none());
    let found = run();
    Kernel::Adafactor.trust(false);
    let expected = run();
    Kernel::Adafactor.trust(true);
    // A parameter whose rounding to bfloat16 falls the other way moves losses and norms.
    for (place, (found, expected)) in found.0.iter().zip(&expected.0).enumerate() {
        let error = (found - expected).abs() / expected.abs().max(1e-3);
        assert!(error < 2e-2, "{bindings:?} number {place}: {found} instead of {expected}");
    }
    let distance = |(found, expected): (&Tensor, &Tensor)| {
        ((found - expected).norm() / expected.norm()).double_value(&[])
    };
    let furthest = found.1.iter().zip(&expected.1).map(distance).fold(0.0, f64::max);
    assert!(furthest < 2e-3, "{furthest}");
}

#[test]
fn a_kernel_that_updates_parameters_and_copies_does_what_operations_do() {
    let _held = fixture::generator();
    check(&[]);
    check(&["trainer.Trainer.num_microbatches = 2"]);
    // Gradients are limited first, and measured before.
    check(&["import t5x.adafactor", "adafactor.Adafactor.global_norm_threshold = 0.1"]);
}
