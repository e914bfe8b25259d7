//! Tiny models with known weights, and batches for them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gimlet::checkpoint::{RestoreCheckpointConfig, RestoreMode};
use gimlet::models::parts::Reach;
use gimlet::models::t5::{T5, T5Config};
use gimlet::models::transformer::TransformerSpec;
use gimlet::models::{Batch, feature, open};
use gimlet::nn::{Activation, Params};
use gimlet::storage::Path;
use serde_json::Value;
use tch::{Device, Kind, Tensor};

/// Held by tests that draw random numbers: torch has one generator for all threads.
pub fn generator() -> MutexGuard<'static, ()> {
    static GENERATOR: Mutex<()> = Mutex::new(());
    GENERATOR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Results of Hugging Face's T5, written by `data/make_hf_t5.py`.
pub struct HuggingFace {
    pub t5: T5,
    pub params: Params,
    pub batch: Batch,
    pub loss: f64,
    /// The gradients, in the order of `params`.
    pub gradients: Vec<Tensor>,
}

/// Reads `data/{name}.json` and `data/{name}.bin`.
pub fn hugging_face(name: &str) -> HuggingFace {
    let record: Value = serde_json::from_slice(&read(&format!("{name}.json"))).expect("json");
    let t5 = T5::new(network(&record));
    let bytes = read(&format!("{name}.bin"));
    let floats: Vec<f32> =
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("4 bytes"))).collect();
    let (values, gradients) = floats.split_at(floats.len() / 2);
    let specs = t5.spec().param_tree();
    let names = specs.iter().map(|spec| spec.name.clone());
    HuggingFace {
        params: Params::from_tensors(names.zip(split(values, &t5))),
        gradients: split(gradients, &t5),
        batch: batch(&rows(&record["inputs"]), &rows(&record["targets"])),
        loss: record["loss"].as_f64().expect("a number"),
        t5,
    }
}

/// Returns the parameters that a new run reads from the folder `data/{name}` of transformers.
pub fn imported(name: &str, spec: &TransformerSpec) -> Params {
    let folder = data(name);
    let folder = Path::try_from(&*folder).expect("the path is text");
    let config = RestoreCheckpointConfig::new(&[folder.as_str()], RestoreMode::Specific);
    let stored = open(&folder).expect("a model");
    let needs = spec.param_tree().into_iter().map(|spec| (target(&spec.name), spec.shape));
    let plan = config.plan(stored.as_ref(), &needs.collect()).expect("the same model");
    assert!(plan.from_scratch.is_empty() && plan.unused.is_empty(), "{plan:?}");
    let read = |name: String| {
        let array = stored.read(&plan.sources[&target(&name)]).expect("it is whole");
        let shape: Vec<i64> = array.shape.iter().map(|&extent| extent as i64).collect();
        (name, Tensor::from_slice(&array.to_f32().expect("floats")).view(&shape[..]))
    };
    Params::from_tensors(spec.param_tree().into_iter().map(|spec| read(spec.name)))
}

/// T5X's name of a parameter in a checkpoint.
fn target(name: &str) -> String {
    format!("target/{name}")
}

/// Rows of token ids as one unpacked batch.
pub fn batch(inputs: &[Vec<i64>], targets: &[Vec<i64>]) -> Batch {
    let targets = matrix(targets);
    let (rows, length) = targets.size2().expect("two axes");
    let start = Tensor::zeros([rows, 1], (Kind::Int64, Device::Cpu));
    Batch::new([
        (feature::ENCODER_INPUT_TOKENS, matrix(inputs)),
        (feature::DECODER_INPUT_TOKENS, Tensor::cat(&[start, targets.narrow(1, 0, length - 1)], 1)),
        (feature::DECODER_LOSS_WEIGHTS, targets.gt(0).to_kind(Kind::Float)),
        (feature::DECODER_TARGET_TOKENS, targets),
    ])
}

/// The rows of an unpacked batch of two, one after the other in one packed row.
pub fn pack(batch: &Batch, inputs: [i64; 2], targets: [i64; 2]) -> Batch {
    let join = |name: &'static str, lengths: [i64; 2]| {
        let parts =
            [0, 1].map(|row| batch.tensor(name).get(row).narrow(0, 0, lengths[row as usize]));
        (name, Tensor::cat(&parts, 0).unsqueeze(0))
    };
    let segments = |lengths: [i64; 2]| {
        let parts = [0, 1]
            .map(|row| Tensor::full([lengths[row]], row as i64 + 1, (Kind::Int64, Device::Cpu)));
        Tensor::cat(&parts, 0).unsqueeze(0)
    };
    Batch::new([
        join(feature::ENCODER_INPUT_TOKENS, inputs),
        join(feature::DECODER_INPUT_TOKENS, targets),
        join(feature::DECODER_TARGET_TOKENS, targets),
        join(feature::DECODER_LOSS_WEIGHTS, targets),
        (feature::ENCODER_SEGMENT_IDS, segments(inputs)),
        (feature::DECODER_SEGMENT_IDS, segments(targets)),
    ])
}

/// A gated, untied model with weights drawn from `seed`.
pub fn tiny(seed: u64) -> (T5, Params) {
    drawn(seed, tiny_config())
}

/// A model with weights drawn from `seed`.
pub fn drawn(seed: u64, config: T5Config) -> (T5, Params) {
    let _held = generator();
    let params = Params::init(&config.param_tree(), seed, Device::Cpu);
    (T5::new(config.transformer()), params)
}

/// The dimensions of a tiny model.
pub fn tiny_config() -> T5Config {
    T5Config {
        vocab_size: 20,
        emb_dim: 16,
        num_heads: 2,
        num_encoder_layers: 2,
        num_decoder_layers: 2,
        head_dim: 16,
        mlp_dim: 24,
        dropout_rate: 0.1,
        ..T5Config::t5_1_1_small()
    }
}

fn config(record: &Value) -> T5Config {
    let dim = |name: &str| record["dims"][name].as_u64().expect("a dimension") as usize;
    let tied = record["tied"].as_bool().expect("a bool");
    let gated = vec![Activation::Gelu, Activation::Linear];
    T5Config {
        vocab_size: dim("vocab_size"),
        emb_dim: dim("emb_dim"),
        num_heads: dim("num_heads"),
        num_encoder_layers: dim("num_encoder_layers"),
        num_decoder_layers: dim("num_decoder_layers"),
        head_dim: dim("head_dim"),
        mlp_dim: dim("mlp_dim"),
        mlp_activations: if tied { vec![Activation::Relu] } else { gated },
        logits_via_embedding: tied,
        relpos_bias_per_layer: record["dims"]["relpos_bias_per_layer"] == true,
        ..T5Config::t5_1_1_small()
    }
}

/// The network of a record: a T5, or a LongT5 if it says to which positions the encoder's attend.
fn network(record: &Value) -> TransformerSpec {
    let mut spec = config(record).transformer();
    let number = |name: &str| record["span"][name].as_u64().map(|number| number as usize);
    if let Some(radius) = number("local_radius") {
        let encoder = spec.encoder.as_mut().expect("a T5 has an encoder");
        encoder.reach = match number("tokens_per_block") {
            Some(tokens_per_block) => Reach::TransientGlobal { radius, tokens_per_block },
            None => Reach::Local { radius },
        };
    }
    spec
}

/// Packed rows, and the results of real flaxformer for them, written by `data/make_flaxformer_longt5.py`.
pub struct Packed {
    /// The rows.
    pub batch: Batch,
    /// The loss, a mean over targets.
    pub loss: f64,
    /// The norm of each parameter's gradient.
    pub norms: BTreeMap<String, f64>,
}

/// Reads `data/{name}.json`.
pub fn packed(name: &str) -> Packed {
    let record: Value = serde_json::from_slice(&read(&format!("{name}.json"))).expect("json");
    let tokens = |name: &str| matrix(&rows(&record[name]));
    let batch = batch(&rows(&record["inputs"]), &rows(&record["targets"]))
        .with(feature::DECODER_INPUT_TOKENS, tokens("decoder_inputs"))
        .with(feature::ENCODER_SEGMENT_IDS, tokens("input_segments"))
        .with(feature::DECODER_SEGMENT_IDS, tokens("target_segments"));
    Packed {
        batch,
        loss: record["loss"].as_f64().expect("a number"),
        norms: serde_json::from_value(record["norms"].clone()).expect("norms by name"),
    }
}

/// The tensors of the parameter tree, one after the other in `values`.
fn split(values: &[f32], t5: &T5) -> Vec<Tensor> {
    let mut rest = values;
    let tensors = t5.spec().param_tree().into_iter().map(|spec| {
        let (own, after) = rest.split_at(spec.num_elements() as usize);
        rest = after;
        let shape: Vec<i64> = spec.shape.iter().map(|&extent| extent as i64).collect();
        Tensor::from_slice(own).view(&shape[..])
    });
    let tensors: Vec<Tensor> = tensors.collect();
    assert!(rest.is_empty(), "the file holds as many values as the model");
    tensors
}

fn rows(value: &Value) -> Vec<Vec<i64>> {
    serde_json::from_value(value.clone()).expect("rows of token ids")
}

pub fn matrix(rows: &[Vec<i64>]) -> Tensor {
    Tensor::from_slice2(rows)
}

/// Reads a file of JSON in `data`.
pub fn record(file: &str) -> Value {
    serde_json::from_slice(&read(file)).expect("json")
}

fn data(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/numerics/data").join(file)
}

fn read(file: &str) -> Vec<u8> {
    let path = data(file);
    std::fs::read(&path).unwrap_or_else(|error| panic!("reading {}: {error}", path.display()))
}
