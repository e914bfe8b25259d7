//! Twelve steps of a tiny T5, whose batches differ. Shared with `tests/numerics`, which runs without a GPU.

use std::sync::Arc;

use gimlet::gin::{Evaluator, Request, load_anyway};
use gimlet::models::{Batch, feature};
use gimlet::nn::Axes;
use gimlet::partition::{LocalDevice, Mesh, Process};
use gimlet::run::{Library, registry};
use gimlet::train::{StepGraphs, Stepper, Train, initialize};
use tch::{Device, Kind, Tensor};

/// Kernels that Adafactor factors, joined to queries, keys and values and to both inputs of a gated block.
pub const FACTORED: [&str; 6] = [
    "utils.create_learning_rate_scheduler.base_learning_rate = 0.02",
    "network.T5Config.dtype = 'bfloat16'",
    "network.T5Config.emb_dim = 128",
    "network.T5Config.num_heads = 4",
    "network.T5Config.head_dim = 32",
    "network.T5Config.mlp_dim = 136",
];

/// Products in 8-bit floats.
pub const FP8: [&str; 3] = [
    "from t5x import te_helper",
    "train.te_config_cls = @te_helper.TransformerEngineConfig",
    "te_helper.TransformerEngineConfig.enable_fp8 = True",
];

/// The run with these bindings.
pub fn train(bindings: &[&str]) -> Train {
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

/// A batch of its own for each step, and of another length in step 7. Its rows end in padding, at other places in each
/// step, but as many of them as in others.
pub fn batch(step: i64) -> Batch {
    let inputs = if step == 7 { 10 } else { 8 };
    let rows = Tensor::arange(8, (Kind::Int64, Device::Cpu)).unsqueeze(-1);
    let real = |length: i64| {
        let places = Tensor::arange(length, (Kind::Int64, Device::Cpu));
        places.lt_tensor(&(((&rows + step).remainder(4) - length).neg()))
    };
    let tokens = |length: i64, factor: i64| {
        let numbers = Tensor::arange(8 * length, (Kind::Int64, Device::Cpu)) * factor + step * 13;
        (numbers.remainder(90) + 2).view([8, length]) * real(length)
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

/// Makes 12 steps with the graphs that `graphs` gives for a stepper; returns their losses and norms, and the parameters after
/// them. Other work comes before step 4.
pub fn steps(
    spec: &Train,
    device: LocalDevice,
    graphs: impl FnOnce(&Stepper) -> StepGraphs,
) -> (Vec<f64>, Vec<Tensor>) {
    let mesh = Mesh::of_replicas(&spec.partitioner, Process::ALONE, device);
    let stepper = Stepper::new(spec, 3, &mesh, (&Axes::default(), &Arc::default())).unwrap();
    let mut state = initialize(spec, 3, &mesh, &Axes::default()).unwrap();
    let (mut numbers, mut graphs) = (Vec::new(), graphs(&stepper));
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
