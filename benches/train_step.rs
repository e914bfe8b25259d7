//! Training steps of T5 1.1, one JSON line each; `benches/peers/compare_train_step.py` runs it beside
//! Hugging Face's, `benches/gpu_check.py` on a GPU.
//!
//! `cargo bench --bench train_step -- --dtype=bfloat16 --steps=5 --size=base --device=cuda --remat=minimal
//! --optimizer=adamw --microbatches=2`; `--gradients=kept` updates after the backward pass instead of in it.

mod t5_1_1;

use std::time::Instant;

use gimlet::models::Batch;
use gimlet::models::loss::{LossNormalizingFactor, LossSpec};
use gimlet::models::t5::{T5, T5Config};
use gimlet::nn::autograd::take_gradient;
use gimlet::nn::{Dropout, Dtype, Fp8Format, Params, RematPolicy, TransformerEngineConfig, cpu};
use gimlet::optim::{
    Adafactor, AdamW, Gradient, LearningRate, Optimizer, OptimizerDef, ParamShape,
};
use t5_1_1::{cpu_seconds, option, peak_rss_mb, text_option};
use tch::{Device, Kind, Tensor};

struct Options {
    dtype: Dtype,
    steps: i64,
    batch_size: i64,
    inputs_length: i64,
    targets_length: i64,
}

fn main() {
    let options = Options::parse();
    cpu::prepare();
    tch::set_num_threads(option("threads", 2) as i32);
    let device = device();
    let config = t5_1_1::config(options.dtype);
    let t5 = T5::new(T5Config { remat_policy: remat(), fp8: fp8(), ..config });
    let specs = t5.config().param_tree();
    let params = Params::init(&specs, 0, device);
    let shapes: Vec<_> = specs
        .iter()
        .map(|spec| ParamShape { name: &spec.name, shape: &spec.shape, axes: &spec.axes })
        .collect();
    let mut optimizer = Optimizer::new(&optimizer(), &shapes, device).expect("matrices factor");
    let batch = options.batch().to_device(device);
    for step in 0..options.steps {
        let (start, before) = (Instant::now(), cpu_seconds());
        let loss = train_step(&t5, &params, &mut optimizer, &batch, step);
        let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - before);
        report(&options, step, loss, [seconds, cpu]);
    }
}

fn train_step(
    t5: &T5,
    params: &Params,
    optimizer: &mut Optimizer,
    batch: &Batch,
    step: i64,
) -> f64 {
    let mean = Some(LossNormalizingFactor::NumRealTargetTokens);
    let spec = LossSpec { loss_normalizing_factor: mean, z_loss: 1e-4, label_smoothing: 0.0 };
    let (parts, rows) = (option("microbatches", 1), batch.num_rows());
    let mut sum = 0.0;
    for part in 0..parts {
        let micro = batch.rows(part * (rows / parts), rows / parts);
        let output = t5.loss(params, &micro, &spec, Dropout::off());
        let loss = output.loss / parts as f64;
        match part + 1 == parts {
            false => loss.backward(),
            true => update(params, optimizer, &loss, step),
        }
        sum += output.sums.read().loss;
    }
    if let Device::Cuda(index) = device() {
        tch::Cuda::synchronize(index as i64);
    }
    sum / parts as f64
}

fn update(params: &Params, optimizer: &mut Optimizer, loss: &Tensor, step: i64) {
    if text_option("gradients").as_deref() != Some("kept") {
        let updated = optimizer.update(params, 1e-2, step, || loss.backward());
        return updated.expect("there is no offset");
    }
    loss.backward();
    let gradients: Vec<_> = params.iter().map(|(_, param)| take_gradient(param)).collect();
    let named = params.iter().zip(&gradients);
    let named: Vec<_> = named.map(|((name, param), grad)| Gradient { name, param, grad }).collect();
    optimizer.apply(&named, 1e-2, step).expect("every parameter is known");
}

fn optimizer() -> OptimizerDef {
    match text_option("optimizer").as_deref() {
        Some("adamw") => OptimizerDef::AdamW(AdamW {
            learning_rate: LearningRate::Constant(1e-4),
            b1: 0.9,
            b2: 0.999,
            eps: 1e-8,
            eps_root: 0.0,
            mu_dtype: None,
            weight_decay: 0.01,
            mask: None,
            nesterov: false,
        }),
        _ => OptimizerDef::Adafactor(Adafactor::default()),
    }
}

fn remat() -> RematPolicy {
    match text_option("remat").as_deref() {
        Some("full") => RematPolicy::Full,
        Some("minimal") => RematPolicy::Minimal,
        _ => RematPolicy::None,
    }
}

/// Products in fp8 with `--fp8=1`.
fn fp8() -> Option<TransformerEngineConfig> {
    (option("fp8", 0) != 0).then_some(TransformerEngineConfig {
        enable_fp8: true,
        fp8_format: Fp8Format::Hybrid,
        margin: 0.0,
        amax_history_len: 1024,
    })
}

fn device() -> Device {
    match text_option("device").as_deref() {
        Some("cuda") => Device::Cuda(0),
        _ => Device::Cpu,
    }
}

impl Options {
    fn parse() -> Self {
        Self {
            dtype: t5_1_1::dtype(),
            steps: option("steps", 4),
            batch_size: option("batch_size", 8),
            inputs_length: option("inputs_length", 512),
            targets_length: option("targets_length", 114),
        }
    }

    fn batch(&self) -> Batch {
        tch::manual_seed(0);
        let tokens = |length| {
            Tensor::randint_low(2, 32000, [self.batch_size, length], (Kind::Int64, Device::Cpu))
        };
        let targets = tokens(self.targets_length);
        Batch {
            encoder_input_tokens: tokens(self.inputs_length),
            decoder_input_tokens: targets.roll([1], [1]),
            decoder_loss_weights: Tensor::ones(targets.size(), (Kind::Float, Device::Cpu)),
            decoder_target_tokens: targets,
            packing: None,
            layout: None,
        }
    }
}

fn report(options: &Options, step: i64, loss: f64, [seconds, cpu]: [f64; 2]) {
    let tokens = options.batch_size * (options.inputs_length + options.targets_length);
    let line = serde_json::json!({
        "implementation": "gimlet",
        "dtype": options.dtype.as_str(),
        "step": step,
        "loss": loss,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "tokens_per_second": tokens as f64 / seconds,
        "peak_rss_mb": peak_rss_mb(),
    });
    println!("{line}");
}
