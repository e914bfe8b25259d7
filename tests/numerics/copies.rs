//! Kernels in bfloat16 that live as long as their parameters: updates write both.

use gimlet::nn::enable_copies;
use gimlet::nn::fused::kernels::Kernel;
use gimlet::partition::LocalDevice;
use gimlet::train::StepGraphs;
use tch::Tensor;

use crate::fixture;
use crate::run_of_steps::{FACTORED, FP8, steps, train};
use crate::step_graph::{ADAMW, SEVERAL};

/// Runs a model of kernels in bfloat16: losses and norms of its steps, and the parameters after them.
fn run(bindings: &[&str]) -> (Vec<f64>, Vec<Tensor>) {
    let bindings: Vec<&str> = FACTORED.iter().chain(bindings).copied().collect();
    steps(&train(&bindings), LocalDevice::Cpu, |_| StepGraphs::none())
}

fn relative_error(found: &Tensor, expected: &Tensor) -> f64 {
    ((found - expected).norm() / expected.norm()).double_value(&[])
}

/// Compares a run with one that casts kernels in each step: the parameters bit for bit, and all but the norm, whose sum has
/// another order.
fn check(bindings: &[&str]) {
    let found = run(bindings);
    enable_copies(false);
    let expected = run(bindings);
    enable_copies(true);
    for (found, expected) in found.0.iter().zip(&expected.0) {
        let error = (found - expected).abs() / expected.abs().max(1e-30);
        assert!(error < 1e-5, "{bindings:?}: {found} instead of {expected}");
    }
    assert_eq!(found.1, expected.1, "{bindings:?}");
}

#[test]
fn copies_change_no_number() {
    let _held = fixture::generator();
    const SGD: [&str; 3] = [
        "import t5x.optimizers",
        "OPTIMIZER = @optimizers.sgd()",
        "optimizers.sgd.learning_rate = 0.003",
    ];
    const IN_PARTS: [&str; 1] = ["trainer.Trainer.num_microbatches = 2"];
    check(&[]);
    check(&IN_PARTS);
    check(&["import t5x.adafactor", "adafactor.Adafactor.global_norm_threshold = 0.1"]);
    check(&["network.T5Config.remat_policy = 'full'"]);
    for other in [&ADAMW[..], &SEVERAL, &SGD, &FP8] {
        check(other);
    }
    check(&[&ADAMW[..], &IN_PARTS].concat());
}

#[test]
fn a_kernel_that_updates_parameters_and_copies_does_what_operations_do() {
    let _held = fixture::generator();
    let found = run(&[]);
    Kernel::Adafactor.trust(false);
    let expected = run(&[]);
    Kernel::Adafactor.trust(true);
    // A parameter whose rounding to bfloat16 falls the other way moves losses and norms.
    for (found, expected) in found.0.iter().zip(&expected.0) {
        let error = (found - expected).abs() / expected.abs().max(1e-3);
        assert!(error < 2e-2, "{found} instead of {expected}");
    }
    let errors = found.1.iter().zip(&expected.1).map(|(a, b)| relative_error(a, b));
    assert!(errors.fold(0.0, f64::max) < 2e-3);
}
