//! The results of the trained prefix language model for the first batch: T5X's scores, greedy
//! sequences and beams.

use gimlet::data::{self, DecoderFeatureConverter, FeatureConverter, Packing, Value};
use gimlet::models::decoder_only::{DecoderOnly, TransformerConfig};
use gimlet::models::decoding::{BeamSearch, DecodeFn, Prediction, TemperatureSample};
use gimlet::models::{Batch, PredictingNetwork};
use gimlet::nn::{Activation, Dtype, Params};

use super::decode::{ROWS, assert_scores, numbers, read_params};
use super::{STEPS, read_log, unpack_checkpoint};
use crate::arrays;
use crate::command::sources;

const RUN: &str = "prefix_lm";
/// Inputs of each row for the beam search of `make_runs.py`.
const CUT: usize = 3;

#[test]
fn scores_and_sequences_after_prefixes_are_those_of_t5x() {
    let (model, params) = trained();
    let log = &read_log(RUN)["decode"];
    let batch = first_batch(usize::MAX);
    assert_scores(&model.score_batch(&params, &batch), &log["score_batch"]);

    let greedy = TemperatureSample {
        temperature: 0.0,
        rescale_log_probs: false,
        ..TemperatureSample::default()
    };
    let greedy = DecodeFn::TemperatureSample(greedy);
    let scores = check(&model, &params, &batch, greedy, 1, &log["greedy"]);
    assert_scores(&scores, &log["greedy_scores"]);
    let beams = DecodeFn::BeamSearch(BeamSearch::default());
    let batch = first_batch(CUT);
    let scores = check(&model, &params, &batch, beams, 4, &log["beams"]);
    assert_scores(&scores, &log["beam_scores"]);
}

/// Compares sequences, and returns their scores.
fn check(
    model: &DecoderOnly,
    params: &Params,
    batch: &Batch,
    decode_fn: DecodeFn,
    num_decodes: usize,
    expected: &serde_json::Value,
) -> tch::Tensor {
    let prediction = Prediction {
        decode_fn,
        num_decodes,
        bos_id: 0,
        eos_id: 1,
        prompt_with_targets: false,
        constraint: None,
    };
    let decodes = model.predict_batch_with_aux(params, batch, &prediction);
    let decodes = decodes.expect("the prediction fits the model");
    let found: Vec<i64> = decodes.sequences.flatten(0, -1).try_into().expect("token ids");
    let found: Vec<f64> = found.iter().map(|id| *id as f64).collect();
    assert_eq!(found, numbers(expected));
    decodes.scores
}

/// The network of `prefix_lm.gin` after its last step.
fn trained() -> (DecoderOnly, Params) {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    unpack_checkpoint(RUN, STEPS, scratch.path());
    let config = TransformerConfig {
        vocab_size: 96,
        dtype: Dtype::Float32,
        emb_dim: 32,
        num_heads: 2,
        num_layers: 2,
        head_dim: 8,
        mlp_dim: 64,
        mlp_activations: vec![Activation::Gelu, Activation::Linear],
        adapter_dim: None,
        bidirectional_position_buckets: false,
        dropout_rate: 0.0,
        correct_truncation: true,
        float32_attention_logits: false,
        logits_via_embedding: true,
    };
    let params = read_params(&arrays::open(scratch.path(), STEPS));
    (DecoderOnly::new(config.transformer(), true), params)
}

/// The first examples, their inputs cut to so many tokens.
fn first_batch(inputs: usize) -> Batch {
    let path = sources("t5x").join(RUN).join("examples.jsonl");
    let text = std::fs::read_to_string(path).expect("the examples are there");
    let examples: Vec<data::Example> = text
        .lines()
        .take(ROWS)
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).expect("lines are JSON");
            let ids = |name: &str, count: usize| {
                let ids = numbers(&line[name]).into_iter().take(count);
                (name.into(), Value::Ints(ids.map(|id| id as i32).collect()))
            };
            data::Example::from_iter([ids("inputs", inputs), ids("targets", usize::MAX)])
        })
        .collect();
    let lengths =
        [("inputs", 24), ("targets", 12)].map(|(name, length)| (name.to_string(), length));
    let class = DecoderFeatureConverter { loss_on_targets_only: true }.into();
    let converter = FeatureConverter::new(&class, &lengths.into(), Packing::None, 0);
    let batch = converter.expect("both lengths are bound").batch(&examples, ROWS);
    Batch::from_host(&batch.expect("examples have both features"))
}
