//! The results of the trained model of the unpacked run for the first batch: T5X's scores and
//! beams.

use std::path::Path;

use gimlet::checkpoint::Stored;
use gimlet::models::decoding::{BeamSearch, DecodeFn, Prediction};
use gimlet::models::t5::{T5, T5Config};
use gimlet::models::transformer::{LayerArrays, TransformerSpec};
use gimlet::models::{Batch, PredictingNetwork, feature};
use gimlet::nn::Params;
use serde_json::Value;
use tch::{Kind, Tensor};

use super::{STEPS, read_log, unpack_checkpoint};
use crate::arrays;
use crate::command::sources;

pub(super) const ROWS: usize = 4;

#[test]
fn scores_and_beams_are_those_of_t5x() {
    check("unpacked", T5::new(config().transformer()));
    let of_scalable = T5Config { relpos_bias_per_layer: true, ..config() }.transformer();
    let stacked = TransformerSpec { layer_arrays: LayerArrays::Stacked, ..of_scalable };
    check("scanned", T5::new(stacked));
    check("gpu", T5::new(T5Config { scale_attn_logits: true, ..config() }.transformer()));
}

fn check(name: &str, model: T5) {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    unpack_checkpoint(name, STEPS, scratch.path());
    let params = read_params(&arrays::open(scratch.path(), STEPS));
    let batch = first_batch(name);
    let log = &read_log(name)["decode"];

    let scores = model.score_batch(&params, &batch);
    assert_scores(&scores, &log["score_batch"]);

    let decode_fn = DecodeFn::BeamSearch(BeamSearch::default());
    let prediction = Prediction {
        decode_fn,
        num_decodes: 4,
        bos_id: 0,
        eos_id: 1,
        prompt_with_targets: false,
        constraint: None,
    };
    let decodes = model.predict_batch_with_aux(&params, &batch, &prediction);
    let decodes = decodes.expect("the prediction fits the model");
    let found: Vec<i64> = decodes.sequences.flatten(0, -1).try_into().expect("token ids");
    let expected = numbers(&log["beams"]);
    assert!(found.iter().map(|id| *id as f64).eq(expected), "beams differ: {}", decodes.sequences);
    assert_scores(&decodes.scores, &log["beam_scores"]);
}

pub(super) fn assert_scores(found: &Tensor, expected: &Value) {
    let found: Vec<f64> = found.to_kind(Kind::Double).flatten(0, -1).try_into().expect("numbers");
    let expected = numbers(expected);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() <= 1e-4 * expected.abs(), "{found}, T5X has {expected}");
    }
}

/// Every number in nested lists, in order.
pub(super) fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        number => vec![number.as_f64().expect("a number")],
    }
}

/// The network of `unpacked.gin`.
pub(super) fn config() -> T5Config {
    T5Config {
        vocab_size: 96,
        emb_dim: 32,
        num_heads: 2,
        num_encoder_layers: 2,
        num_decoder_layers: 2,
        head_dim: 8,
        mlp_dim: 64,
        ..T5Config::t5_1_1_small()
    }
}

pub(super) fn read_params(checkpoint: &dyn Stored) -> Params {
    Params::from_tensors(checkpoint.leaves().into_iter().filter_map(|array| {
        let name = array.name.strip_prefix("target/")?.to_string();
        let values = checkpoint.read(array.name).expect("the array is whole");
        let values = values.to_f32().expect("parameters are floats");
        let shape: Vec<i64> = array.shape.iter().map(|extent| *extent as i64).collect();
        Some((name, Tensor::from_slice(&values).view(&shape[..])))
    }))
}

pub(super) fn first_batch(name: &str) -> Batch {
    let path = sources("t5x").join(name).join("examples.jsonl");
    let text = std::fs::read_to_string(Path::new(&path)).expect("the examples are there");
    let examples: Vec<Value> = text
        .lines()
        .take(ROWS)
        .map(|line| serde_json::from_str(line).expect("lines are JSON"))
        .collect();
    let targets = padded(&examples, "targets", 12);
    let start = Tensor::zeros([ROWS as i64, 1], (Kind::Int64, tch::Device::Cpu));
    Batch::new([
        (feature::ENCODER_INPUT_TOKENS, padded(&examples, "inputs", 24)),
        (feature::DECODER_INPUT_TOKENS, Tensor::cat(&[start, targets.narrow(1, 0, 11)], 1)),
        (feature::DECODER_LOSS_WEIGHTS, targets.gt(0).to_kind(Kind::Float)),
        (feature::DECODER_TARGET_TOKENS, targets),
    ])
}

fn padded(examples: &[Value], feature: &str, length: usize) -> Tensor {
    let rows = examples.iter().map(|example| {
        let mut ids: Vec<i64> = numbers(&example[feature]).iter().map(|id| *id as i64).collect();
        ids.resize(length, 0);
        Tensor::from_slice(&ids)
    });
    Tensor::stack(&rows.collect::<Vec<_>>(), 0)
}
