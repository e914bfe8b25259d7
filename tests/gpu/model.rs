//! Compares whole models: with Gimlet's kernels and without, on the device and on the CPU, and in
//! fp8.

use gimlet::models::heads::LossSpec;
use gimlet::models::t5::{T5, T5Config};
use gimlet::models::{Batch, Network, feature};
use gimlet::nn::{Dropout, Dtype, Fp8Format, Params, RematPolicy, TransformerEngineConfig};
use tch::{Device, Kind, Tensor};

use crate::{Comparison, EFFICIENT, both_ways, compare_ways, cuda, over_runs, relative_error};

pub fn config(dtype: Dtype) -> T5Config {
    T5Config {
        vocab_size: 256,
        dtype,
        emb_dim: 128,
        num_heads: 4,
        num_encoder_layers: 2,
        num_decoder_layers: 2,
        head_dim: 32,
        mlp_dim: 256,
        dropout_rate: 0.1,
        ..T5Config::t5_1_1_small()
    }
}

/// Returns a batch from the host, as in a run, so that the places of its examples are known.
fn batch(device: Device) -> Batch {
    let tokens = |length: i64, step: i64| {
        let numbers = Tensor::arange(8 * length, (Kind::Int64, Device::Cpu)) * step;
        (numbers.remainder(254) + 2).view([8, length])
    };
    let targets = tokens(24, 31);
    let batch = Batch::new([
        (feature::ENCODER_INPUT_TOKENS, tokens(48, 17)),
        (feature::DECODER_INPUT_TOKENS, targets.roll([1], [1])),
        (feature::DECODER_LOSS_WEIGHTS, Tensor::ones([8, 24], (Kind::Float, Device::Cpu))),
        (feature::DECODER_TARGET_TOKENS, targets),
    ]);
    batch.to_device(device)
}

/// Returns a batch whose rows end in padding, at different places.
fn padded(device: Device) -> Batch {
    let batch = batch(Device::Cpu);
    let real = |length: i64| {
        let ends = Tensor::arange(8, (Kind::Int64, Device::Cpu)) * 3 + 2;
        Tensor::arange(length, (Kind::Int64, Device::Cpu)).lt_tensor(&ends.unsqueeze(-1))
    };
    let names = [
        feature::ENCODER_INPUT_TOKENS,
        feature::DECODER_LOSS_WEIGHTS,
        feature::DECODER_TARGET_TOKENS,
    ];
    let cut = |batch: Batch, name: &str| {
        let tokens = batch.tensor(name) * real(batch.tensor(name).size()[1]);
        batch.with(name, tokens)
    };
    names.into_iter().fold(batch, cut).to_device(device)
}

/// Returns a batch with two examples a row, and padding.
pub fn packed(device: Device) -> Batch {
    let batch = padded(Device::Cpu);
    let ids = |tokens: &Tensor| {
        let first = Tensor::arange(tokens.size()[1], (Kind::Int64, Device::Cpu)).lt(1);
        tokens.gt(0).to_kind(Kind::Int64) * (first.logical_not().to_kind(Kind::Int64) + 1)
    };
    let [encoder, decoder] = [feature::ENCODER_INPUT_TOKENS, feature::DECODER_TARGET_TOKENS]
        .map(|name| ids(batch.tensor(name)));
    batch
        .with(feature::ENCODER_SEGMENT_IDS, encoder)
        .with(feature::DECODER_SEGMENT_IDS, decoder)
        .to_device(device)
}

/// Parameters with the same values on every device.
fn params(t5: &T5, device: Device) -> Params {
    let drawn = Params::init(&t5.spec().param_tree(), 3, Device::Cpu);
    let moved = drawn.iter().map(|(name, tensor)| (name.to_string(), tensor.to_device(device)));
    Params::from_tensors(moved)
}

/// The loss and all gradients.
fn results(t5: &T5, params: &Params, batch: &Batch, dropout: Dropout) -> Vec<Tensor> {
    let output = t5.loss(params, batch, &LossSpec::default(), dropout);
    let mut all = params.gradients(&output.loss);
    all.push(output.loss.detach());
    all
}

/// Returns all operations that must run in a training step, in every case of the table of
/// `nn::fused`'s attention.
fn kernels(dtype: Dtype) -> Vec<&'static str> {
    let mut kernels = vec![
        "rms_norm",
        "rms_norm_backward",
        "gated_gelu",
        "gated_gelu_backward",
        "cross_entropy",
        "diagonal_sums",
    ];
    match dtype {
        Dtype::Float32 => kernels.extend(EFFICIENT),
        _ => kernels.extend([true, false].into_iter().flat_map(over_runs)),
    }
    kernels
}

#[test]
fn a_model_computes_the_same_with_our_kernels_and_without() {
    let (device, _held) = cuda();
    for (dtype, tolerance) in [(Dtype::Float32, 2e-5), (Dtype::Bfloat16, 3e-2)] {
        // Attention's kernels have scores in float32; plain operations need the option.
        let t5 = [true, false].map(|float32_attention_logits| {
            T5::new(T5Config { float32_attention_logits, ..config(dtype) }.transformer())
        });
        let params = params(&t5[0], device);
        for (batch, what) in
            [(batch(device), "full"), (padded(device), "padded"), (packed(device), "packed")]
        {
            for dropout in [Dropout::off(), t5[0].dropout()] {
                let what = format!("model {dtype:?}, {what} rows");
                let kernels = &kernels(dtype);
                compare_ways(&Comparison { what: &what, kernels, tolerance }, |ours| {
                    results(&t5[usize::from(ours)], &params, &batch, dropout)
                });
            }
        }
    }
}

#[test]
fn a_model_computes_on_the_device_what_it_computes_on_the_cpu() {
    let (device, _held) = cuda();
    let t5 = T5::new(config(Dtype::Float32).transformer());
    for batch in [batch, padded, packed] {
        let [found, expected] = [device, Device::Cpu]
            .map(|device| results(&t5, &params(&t5, device), &batch(device), Dropout::off()));
        for (found, expected) in found.iter().zip(&expected) {
            assert!(relative_error(&found.to_device(Device::Cpu), expected) < 5e-5);
        }
    }
}

#[test]
fn layers_that_are_run_again_have_the_gradients_of_those_that_are_kept() {
    let (device, _held) = cuda();
    for (dtype, tolerance) in [(Dtype::Float32, 2e-5), (Dtype::Bfloat16, 3e-2)] {
        let of = |remat_policy: RematPolicy| {
            let t5 = T5::new(T5Config { remat_policy, ..config(dtype) }.transformer());
            tch::manual_seed(8);
            results(&t5, &params(&t5, device), &packed(device), t5.dropout())
        };
        let expected = of(RematPolicy::None);
        for policy in [RematPolicy::Minimal, RematPolicy::Full] {
            for (found, expected) in of(policy).iter().zip(&expected) {
                let error = relative_error(found, expected);
                assert!(error < tolerance, "{dtype:?} {policy:?}: relative error {error}");
            }
        }
    }
}

#[test]
fn a_model_in_fp8_computes_the_same_with_our_casts_and_without() {
    let (device, _held) = cuda();
    let capability = gimlet::nn::bridge::cuda_devices()[0].capability;
    if capability < (8, 9) {
        return println!("fp8 left out: the device's capability is {capability:?}");
    }
    for amax_history_len in [0, 16] {
        let fp8 = TransformerEngineConfig {
            enable_fp8: true,
            fp8_format: Fp8Format::Hybrid,
            margin: 0.0,
            amax_history_len,
        };
        let batch = batch(device);
        let what = format!("model in fp8, history {amax_history_len}");
        let kernels = &[&kernels(Dtype::Bfloat16)[..], &["largest_magnitude", "cast_fp8"]].concat();
        let of = |fp8: Option<TransformerEngineConfig>, ours: bool| {
            // Scores in float32, as above.
            let float32_attention_logits = !ours;
            let config = T5Config { fp8, float32_attention_logits, ..config(Dtype::Bfloat16) };
            let t5 = T5::new(config.transformer());
            // The second pass scales by the magnitudes of the first one.
            let params = params(&t5, device);
            results(&t5, &params, &batch, Dropout::off());
            results(&t5, &params, &batch, Dropout::off())
        };
        let [found, expected] = both_ways(&what, kernels, |ours| of(Some(fp8.clone()), ours));
        // Other roundings of bfloat16 move some numbers over a border of fp8, and each by as much as fp8 rounds. Both
        // sides round on their own.
        let wide = of(None, true);
        let shares = found.iter().zip(&expected).zip(&wide).map(|((found, expected), wide)| {
            relative_error(found, expected) / relative_error(wide, expected)
        });
        let largest = shares.fold(0.0, f64::max);
        assert!(largest < 1.5, "{what}: an error is {largest} of what fp8 rounds");
    }
}
