//! Compares training steps that are one launch each with those that are launched operation by operation.

use gimlet::partition::LocalDevice;
use gimlet::train::StepGraphs;

use crate::run_of_steps::{FACTORED, FP8, steps, train};
use crate::{cuda, relative_error};

/// Compares the steps of a run, whose attention may sum in another order each time.
fn check(bindings: &[&str], tolerance: f64) {
    let spec = train(bindings);
    let device = LocalDevice::available();
    let plain = steps(&spec, device, |_| StepGraphs::none());
    let recorded = steps(&spec, device, |stepper| StepGraphs::of(&spec, stepper).or_panic());
    for (found, expected) in recorded.0.iter().zip(&plain.0) {
        let error = (found - expected).abs() / expected.abs().max(1e-30);
        assert!(error <= tolerance, "{bindings:?}: {found} instead of {expected}");
    }
    for (found, expected) in recorded.1.iter().zip(&plain.1) {
        let error = relative_error(found, expected);
        assert!(error < tolerance, "{bindings:?}: relative error {error}");
    }
}

#[test]
fn steps_of_one_launch_are_those_of_operations() {
    let (_device, _held) = cuda();
    // Sizes that kernels of attention take.
    const WIDE: [&str; 1] = ["network.T5Config.head_dim = 8"];
    const ADAMW: [&str; 3] = [
        "import t5x.optimizers",
        "OPTIMIZER = @optimizers.adamw()",
        "optimizers.adamw.learning_rate = 0.003",
    ];
    let with = |more: &[&'static str]| [&WIDE[..], more].concat();
    check(&with(&[]), 1e-4);
    check(&with(&["trainer.Trainer.num_microbatches = 4"]), 1e-4);
    check(&with(&ADAMW), 1e-4);
    check(&with(&["network.T5Config.dtype = 'bfloat16'"]), 3e-2);
    // Kernels that live in bfloat16, and their casts, which serve all parts of a batch.
    check(&FACTORED, 3e-2);
    check(&[&FACTORED[..], &FP8, &["trainer.Trainer.num_microbatches = 2"]].concat(), 5e-2);
}
