//! Steps that a recorder makes are those that are launched operation by operation, bit for bit. The recorder stands in for CUDA
//! graphs: it does recorded work again, which may read its time and its batch from the recorded tensors alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gimlet::nn::Axes;
use gimlet::nn::profiler::profile;
use gimlet::partition::{LocalDevice, Mesh, Process};
use gimlet::train::{Recorder, StepGraphs, Stepper, initialize};
use tch::{Device, Kind, Tensor};

use crate::fixture;
use crate::run_of_steps::{FACTORED, FP8, batch, steps, train};

/// Does work when it is recorded, so that the first replay has nothing to do.
#[derive(Debug)]
struct StandIn {
    recorded: Arc<AtomicUsize>,
    is_fresh: bool,
    /// The recording that fails.
    failing: Option<usize>,
}

impl Recorder for StandIn {
    fn record(&mut self, work: &mut dyn FnMut()) -> Result<usize, String> {
        let number = self.recorded.fetch_add(1, Ordering::Relaxed);
        if self.failing == Some(number) {
            return Err("it failed".to_string());
        }
        catch_unwind(AssertUnwindSafe(work)).map_err(|_| "it failed".to_string())?;
        self.is_fresh = true;
        Ok(number)
    }

    fn replay(&mut self, _: usize, again: &mut dyn FnMut()) {
        if !std::mem::take(&mut self.is_fresh) {
            again();
        }
    }

    fn clear(&mut self) {}
}

/// Returns the operations of some work for which the host would wait.
fn waits(work: impl FnOnce()) -> Vec<String> {
    const WAITING: [&str; 4] =
        ["aten::item", "aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select"];
    let ((), events) = profile(Device::Cpu, work);
    let names = events.into_iter().map(|event| event.name);
    names.filter(|name| WAITING.contains(&&name[..])).collect()
}

#[test]
fn a_step_asks_the_device_for_nothing_before_its_end() {
    let _held = fixture::generator();
    let spec = train(&[]);
    let mesh = Mesh::of_replicas(&spec.partitioner, Process::ALONE, LocalDevice::Cpu);
    let stepper = Stepper::new(&spec, 3, &mesh, (&Axes::default(), &Arc::default())).unwrap();
    let mut state = initialize(&spec, 3, &mesh, &Axes::default()).unwrap();
    let mut step = |number| {
        let made = stepper.train_step(&mut state, &batch(number), 1.0, &mut StepGraphs::none());
        assert!(made.is_ok());
    };
    // The first one makes the tables of relative positions.
    step(0);
    assert_eq!(waits(|| step(1)), [""; 0]);
    assert!(!waits(|| drop(Tensor::ones([2], (Kind::Float, Device::Cpu)).nonzero())).is_empty());
}

/// Compares steps by a recorder, which makes that many recordings, with plain ones.
fn check(bindings: &[&str], failing: Option<usize>, expected_recordings: usize) {
    let _held = fixture::generator();
    let spec = train(bindings);
    let recorded = Arc::new(AtomicUsize::new(0));
    let recorder = StandIn { recorded: Arc::clone(&recorded), is_fresh: false, failing };
    let plain = steps(&spec, LocalDevice::Cpu, |_| StepGraphs::none());
    let found = steps(&spec, LocalDevice::Cpu, |_| StepGraphs::by(Box::new(recorder)));
    assert_eq!(found, plain, "{bindings:?}");
    assert_eq!(recorded.load(Ordering::Relaxed), expected_recordings, "{bindings:?}");
    assert!(plain.0.iter().all(|number| !number.is_nan()), "{bindings:?}");
}

/// Adam, by libtorch's kernel.
pub const ADAMW: [&str; 3] = [
    "import t5x.optimizers",
    "OPTIMIZER = @optimizers.adamw()",
    "optimizers.adamw.learning_rate = 0.003",
];

/// Two optimizers, with rates of their own, for chosen parameters.
pub const SEVERAL: [&str; 7] = [
    "from t5x import adafactor",
    "from t5x import optimizers",
    "OPTIMIZER = @optimizers.MultiOptimizer()",
    "optimizers.MultiOptimizer.traversals_and_optimizers = ((@encoder/traverse_util.ModelParamTraversal(), @optimizers.adamw()), \
     (@decoder/traverse_util.ModelParamTraversal(), @adafactor.Adafactor()))",
    "encoder/traverse_util.ModelParamTraversal.filter_fn = ['.*/encoder/.*']",
    "decoder/traverse_util.ModelParamTraversal.filter_fn = ['.*/decoder/.*']",
    "optimizers.adamw.learning_rate = 0.003",
];

#[test]
fn recorded_steps_are_those_of_operations() {
    // After steps 0 and 6 and the other work, and after the step of another length and one of the usual again.
    check(&[], None, 3);
    check(&["trainer.Trainer.weight_metrics_computer = @trainer.WeightMetricsComputer()"], None, 3);
    check(&ADAMW, None, 3);
    check(&SEVERAL, None, 3);
    check(&FACTORED, None, 3);
    let in_parts = "trainer.Trainer.num_microbatches = 2";
    check(&[&FACTORED[..], &FP8, &[in_parts]].concat(), None, 6);
    // The first part, one between, and the last.
    check(&["trainer.Trainer.num_microbatches = 4"], None, 9);
    check(&[in_parts], None, 6);
}

#[test]
fn what_cannot_be_recorded_is_launched() {
    check(&[], Some(1), 2);
    check(&["trainer.Trainer.num_microbatches = 4"], Some(2), 3);
    // The batches have different numbers of targets.
    let of_batch = "LOSS_NORMALIZING_FACTOR = 'NUM_REAL_TARGET_TOKENS'";
    check(&[of_batch, "trainer.Trainer.num_microbatches = 4"], None, 0);
    // No kernel has a momentum.
    check(&["adafactor.Adafactor.beta1 = 0.9", "import t5x.adafactor"], None, 1);
}
