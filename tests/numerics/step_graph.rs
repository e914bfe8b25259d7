//! Steps that a recorder makes are those that are launched operation by operation, bit for bit. The recorder stands in for CUDA
//! graphs: it does recorded work again, which may read its time and its batch from the recorded tensors alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gimlet::gin::{Evaluator, Request, load_anyway};
use gimlet::models::{Batch, feature};
use gimlet::nn::Axes;
use gimlet::partition::{LocalDevice, Mesh, Process};
use gimlet::run::{Library, registry};
use gimlet::train::{Recorder, StepGraphs, Stepper, Train, initialize};
use tch::{Device, Kind, Tensor};

use crate::fixture;

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

fn train(bindings: &[&str]) -> Train {
    const GIVEN: [&str; 10] = [
        "MIXTURE_OR_TASK_NAME = 'none'",
        "TASK_FEATURE_LENGTHS = {'inputs': 8, 'targets': 6}",
        "TRAIN_STEPS = 100",
        "DROPOUT_RATE = 0.2",
        "BATCH_SIZE = 8",
        "LOSS_NORMALIZING_FACTOR = 20",
        // Sizes that kernels update.
        "network.T5Config.head_dim = 4",
        "network.T5Config.vocab_size = 128",
        "MODEL_DIR = 'none'",
        "utils.create_learning_rate_scheduler.warmup_steps = 4",
    ];
    let flag = |text: &&str| ("--gin_bindings".to_string(), text.to_string());
    let files = ["t5x/examples/t5/t5_1_1/tiny.gin", "t5x/configs/runs/pretrain.gin"];
    let request = Request {
        files: files.map(str::to_string).to_vec(),
        bindings: GIVEN.iter().chain(bindings).map(flag).collect(),
        ..Request::default()
    };
    let registry = registry();
    let loaded = load_anyway(&request, &Library, &registry);
    let mut evaluator = Evaluator::new(&loaded.config, &registry);
    evaluator.evaluate_in::<Train>("").expect("a run")
}

/// A batch of its own for each step, and of another length in step 7.
fn batch(step: i64) -> Batch {
    let inputs = if step == 7 { 10 } else { 8 };
    let tokens = |length: i64, factor: i64| {
        let numbers = Tensor::arange(8 * length, (Kind::Int64, Device::Cpu)) * factor + step * 13;
        (numbers.remainder(90) + 2).view([8, length])
    };
    let targets = tokens(6, 7);
    let weights = Tensor::ones([8, 6], (Kind::Float, Device::Cpu));
    let _ = weights.narrow(0, step % 8, 1).zero_();
    let _ = weights.narrow(1, 0, 1 + step % 3).zero_();
    Batch::new([
        (feature::ENCODER_INPUT_TOKENS, tokens(inputs, 11)),
        (feature::DECODER_INPUT_TOKENS, targets.roll([1], [1])),
        (feature::DECODER_LOSS_WEIGHTS, weights),
        (feature::DECODER_TARGET_TOKENS, targets),
    ])
}

/// Makes 12 steps; returns their losses and norms, and the parameters after them. Other work comes before step 4.
fn steps(spec: &Train, mut graphs: StepGraphs) -> (Vec<f64>, Vec<Tensor>) {
    let mesh = Mesh::of_replicas(&spec.partitioner, Process::ALONE, LocalDevice::Cpu);
    let stepper = Stepper::new(spec, 3, &mesh, (&Axes::default(), &Arc::default())).unwrap();
    let mut state = initialize(spec, 3, &mesh, &Axes::default()).unwrap();
    let mut numbers = Vec::new();
    for step in 0..12 {
        if step == 4 {
            graphs.forget();
        }
        let rate_scale = if step < 9 { 1.0 } else { 0.5 };
        let report = stepper.train_step(&mut state, &batch(step), rate_scale, &mut graphs).unwrap();
        numbers.extend(report.sums.sums.values().chain(report.weights.values()));
        numbers.push(f64::from(report.learning_rate));
    }
    assert_eq!(state.optimizer.counts().0, 12);
    (numbers, state.params.iter().map(|(_, param)| param.detach()).collect())
}

/// Compares steps by a recorder, which makes that many recordings, with plain ones.
fn check(bindings: &[&str], failing: Option<usize>, expected_recordings: usize) {
    let _held = fixture::generator();
    let spec = train(bindings);
    let recorded = Arc::new(AtomicUsize::new(0));
    let recorder = StandIn { recorded: Arc::clone(&recorded), is_fresh: false, failing };
    let plain = steps(&spec, StepGraphs::none());
    let found = steps(&spec, StepGraphs::by(Box::new(recorder)));
    assert_eq!(found, plain, "{bindings:?}");
    assert_eq!(recorded.load(Ordering::Relaxed), expected_recordings, "{bindings:?}");
    assert!(plain.0.iter().all(|number| number.is_finite()), "{bindings:?}");
}

const ADAMW: [&str; 3] = [
    "import t5x.optimizers",
    "OPTIMIZER = @optimizers.adamw()",
    "optimizers.adamw.learning_rate = 0.003",
];

#[test]
fn recorded_steps_are_those_of_operations() {
    // After steps 0 and 6 and the other work, and after the step of another length and one of the usual again.
    check(&[], None, 3);
    check(&["trainer.Trainer.weight_metrics_computer = @trainer.WeightMetricsComputer()"], None, 3);
    check(&ADAMW, None, 3);
    // The first part, one between, and the last.
    check(&["trainer.Trainer.num_microbatches = 4"], None, 9);
    check(&["trainer.Trainer.num_microbatches = 2"], None, 6);
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
