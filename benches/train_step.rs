//! Training steps of T5 1.1, one JSON line each; `benches/peers/compare_train_step.py` runs it beside
//! Hugging Face's, `benches/gpu_check.py` on a GPU.
//!
//! `cargo bench --bench train_step -- --dtype=bfloat16 --steps=5 --size=base --device=cuda`

mod t5_1_1;

use std::time::Instant;

use gimlet::models::Batch;
use gimlet::models::loss::{LossNormalizingFactor, LossSpec};
use gimlet::models::t5::{T5, T5Config};
use gimlet::nn::{Dropout, Dtype, Fp8Format, Params, TransformerEngineConfig, cpu};
use gimlet::optim::{Adafactor, Gradient, Optimizer, OptimizerDef, ParamShape};
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
    let t5 = T5::new(T5Config { fp8: fp8(), ..t5_1_1::config(options.dtype) });
    let specs = t5.config().param_tree();
    let params = Params::init(&specs, 0, device);
    let shapes: Vec<_> = specs
        .iter()
        .map(|spec| ParamShape { name: &spec.name, shape: &spec.shape, axes: &spec.axes })
        .collect();
    let def = OptimizerDef::Adafactor(Adafactor::default());
    let mut optimizer = Optimizer::new(&def, &shapes, device).expect("matrices factor");
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
    let output = t5.loss(params, batch, &spec, Dropout::off());
    let gradients = params.gradients(&output.loss);
    let named = params.iter().zip(&gradients);
    let named: Vec<_> = named.map(|((name, param), grad)| Gradient { name, param, grad }).collect();
    optimizer.apply(&named, 1e-2, step).expect("every parameter is known");
    if let Device::Cuda(index) = device() {
        tch::Cuda::synchronize(index as i64);
    }
    output.sums.read().loss
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
