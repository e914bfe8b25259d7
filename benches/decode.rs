//! Measures decoding with T5 1.1 small, encoder included, one JSON line a round: greedy, or a beam
//! search with `--beams` beams. No token ends a sequence, so each has `--tokens` of them.
//! `benches/peers/compare_decode.py` runs it beside Hugging Face's `generate`.
//!
//! `cargo bench --bench decode -- --dtype=bfloat16 --rounds=5`; with `--rounds=0` it only makes the parameters.

use std::time::Instant;

use gimlet::models::decoding::{BeamSearch, DecodeFn, Prediction, TemperatureSample};
use gimlet::models::t5::{T5, T5Config};
use gimlet::models::{Batch, PredictingNetwork, feature};
use gimlet::nn::{Dtype, Params, cpu};
use gimlet::telemetry::{cpu_seconds, peak_resident_bytes};
use tch::{Device, Kind, Tensor};

/// An id that no token has: sequences never end early.
const NEVER: i64 = -1;

fn main() {
    cpu::prepare();
    tch::set_num_threads(option("threads", 2) as i32);
    let dtype = match text_option("dtype").as_deref() {
        Some("bfloat16") => Dtype::Bfloat16,
        _ => Dtype::Float32,
    };
    let t5 = T5::new(T5Config { dtype, ..T5Config::t5_1_1_small() }.transformer());
    let (params, inputs) = weights_and_inputs(&t5);
    let batch = batch(inputs);
    let prediction = prediction();
    let rounds = option("rounds", 4);
    if rounds == 0 {
        return; // what a start alone takes
    }
    let hypotheses = batch.num_rows() as usize * prediction.num_decodes;
    let predictor = t5.predictor(&params, hypotheses);
    for round in 0..rounds {
        let (start, before) = (Instant::now(), cpu_seconds());
        let decodes = predictor.predict(&batch, &prediction).expect("nothing contradicts");
        let sequences = rows(&decodes.best().0);
        let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - before);
        let tokens: usize = sequences.iter().map(Vec::len).sum();
        let line = serde_json::json!({
            "implementation": "gimlet",
            "dtype": dtype.as_str(),
            "round": round,
            "seconds": seconds,
            "cpu_seconds": cpu,
            "tokens_per_second": tokens as f64 / seconds,
            "peak_rss_mb": peak_resident_bytes() as f64 / f64::from(1 << 20),
            "sequences": sequences,
        });
        println!("{line}");
    }
}

/// Reads the parameters from `--weights`, a safetensors file from `benches/peers/decode.py`, or
/// draws them.
fn weights_and_inputs(t5: &T5) -> (Params, Tensor) {
    let Some(path) = text_option("weights") else {
        let params = Params::init(&t5.spec().param_tree(), 0, Device::Cpu);
        let size = [option("batch_size", 8), option("inputs_length", 512)];
        return (params, Tensor::randint_low(2, 32000, size, (Kind::Int64, Device::Cpu)));
    };
    let mut tensors = Tensor::read_safetensors(&path).expect("a safetensors file");
    let place = tensors.iter().position(|(name, _)| name == "inputs").expect("inputs");
    let (_, inputs) = tensors.swap_remove(place);
    (Params::from_tensors(tensors), inputs)
}

fn batch(inputs: Tensor) -> Batch {
    let targets =
        Tensor::zeros([inputs.size()[0], option("tokens", 64)], (Kind::Int64, Device::Cpu));
    Batch::new([
        (feature::ENCODER_INPUT_TOKENS, inputs),
        (feature::DECODER_INPUT_TOKENS, targets.shallow_clone()),
        (feature::DECODER_LOSS_WEIGHTS, Tensor::ones_like(&targets)),
        (feature::DECODER_TARGET_TOKENS, targets),
    ])
}

fn prediction() -> Prediction {
    let beams = option("beams", 1);
    let greedy = TemperatureSample { temperature: 0.0, ..TemperatureSample::default() };
    let decode_fn = match beams {
        1 => DecodeFn::TemperatureSample(greedy),
        _ => DecodeFn::BeamSearch(BeamSearch::default()),
    };
    let num_decodes = beams as usize;
    Prediction {
        decode_fn,
        num_decodes,
        bos_id: 0,
        eos_id: NEVER,
        prompt_with_targets: false,
        constraint: None,
    }
}

fn rows(tokens: &Tensor) -> Vec<Vec<i64>> {
    Vec::try_from(tokens).expect("two axes")
}

/// `--name=value` as an integer, or a default.
fn option(name: &str, default: i64) -> i64 {
    text_option(name).map_or(default, |value| value.parse().expect("an integer"))
}

/// Returns the value of `--name=value`, if given.
fn text_option(name: &str) -> Option<String> {
    let prefix = format!("--{name}=");
    std::env::args().find_map(|arg| arg.strip_prefix(&prefix).map(str::to_string))
}
