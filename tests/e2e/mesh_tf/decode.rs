//! Greedy sequences of the trained language model after the first inputs, which see each other.

use gimlet::checkpoint::Stored;
use gimlet::data::{
    self, FeatureConverter, Packing, PrefixLMFeatureConverter, Value as FeatureValue,
};
use gimlet::models::decoder_only::{DecoderOnly, TransformerConfig};
use gimlet::models::decoding::{DecodeFn, Prediction, TemperatureSample};
use gimlet::models::{Batch, PredictingNetwork};
use gimlet::nn::{Activation, Dtype, Params};
use tch::Tensor;

use super::{log, opened, unpack};
use crate::command::sources;

const ROWS: usize = 4;
const LENGTHS: [(&str, usize); 2] = [("inputs", 20), ("targets", 12)];
const EOS_ID: i64 = 1;

#[test]
fn greedy_sequences_after_inputs_are_those_of_mesh_tensorflow() {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    unpack("lm", scratch.path());
    let params = read_params(&*opened(&scratch.path().join("model.ckpt-6")));
    let config = TransformerConfig {
        vocab_size: 64,
        dtype: Dtype::Float32,
        emb_dim: 16,
        num_heads: 2,
        num_layers: 2,
        head_dim: 8,
        mlp_dim: 32,
        mlp_activations: vec![Activation::Relu],
        adapter_dim: None,
        bidirectional_position_buckets: true,
        dropout_rate: 0.0,
        correct_truncation: true,
        float32_attention_logits: false,
        logits_via_embedding: false,
    };
    let greedy = TemperatureSample { temperature: 0.0, ..TemperatureSample::default() };
    let prediction = Prediction {
        decode_fn: DecodeFn::TemperatureSample(greedy),
        num_decodes: 1,
        bos_id: 0,
        eos_id: EOS_ID,
        prompt_with_targets: false,
        constraint: None,
    };
    let model = DecoderOnly::new(config.transformer(), true);
    let decodes = model.predict_batch_with_aux(&params, &first_batch(), &prediction).unwrap();
    let found: Vec<i64> = decodes.sequences.flatten(0, -1).try_into().expect("token ids");
    let expected: Vec<Vec<i64>> = serde_json::from_value(log("lm")["greedy"].clone()).unwrap();
    for (found, expected) in found.chunks(expected[0].len()).zip(&expected) {
        // Mesh TensorFlow goes on after a row's end until all rows have ended.
        let end = expected.iter().position(|id| *id == EOS_ID).map_or(expected.len(), |at| at + 1);
        assert_eq!(found[..end], expected[..end]);
    }
}

fn read_params(stored: &dyn Stored) -> Params {
    let leaves = stored.leaves();
    let params = leaves.iter().filter_map(|leaf| {
        let name = leaf.name.strip_prefix("target/")?;
        let values = stored.read(leaf.name).unwrap().to_f32().expect("parameters are floats");
        let shape: Vec<i64> = leaf.shape.iter().map(|extent| *extent as i64).collect();
        Some((name.to_string(), Tensor::from_slice(&values).view(&shape[..])))
    });
    Params::from_tensors(params.collect::<Vec<_>>())
}

/// The first examples, whose inputs leave room for EOS, as in `make_runs.py`.
fn first_batch() -> Batch {
    let path = sources("mesh_tf/lm/examples.jsonl");
    let text = std::fs::read_to_string(path).expect("the examples are there");
    let examples: Vec<data::Example> = text
        .lines()
        .take(ROWS)
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).expect("lines are JSON");
            let ids = |(name, length): (&str, usize)| {
                let mut ids: Vec<i32> = serde_json::from_value(line[name].clone()).unwrap();
                ids.truncate(length - 1);
                (name.into(), FeatureValue::Ints(ids))
            };
            data::Example::from_iter(LENGTHS.map(ids))
        })
        .collect();
    let lengths = LENGTHS.map(|(name, length)| (name.to_string(), length));
    let class = PrefixLMFeatureConverter { loss_on_targets_only: false, pack_before_joining: true };
    let converter = FeatureConverter::new(&class.into(), &lengths.into(), Packing::None, 0);
    let batch = converter.expect("both lengths are bound").batch(&examples, ROWS);
    Batch::from_host(&batch.expect("examples have both features"))
}
