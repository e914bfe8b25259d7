//! The tensors and the configuration of a checkpoint, as transformers see them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::carried::{ACTIVATION, Carried};
use super::options::HuggingFaceOptions;
use super::tensor::Tensor;
use crate::array::{ArrayInfo, DType};
use crate::error::CheckpointError;
use crate::names::Axes;
use crate::names::hugging_face::activations::{FeedForward, activations_tuple, feed_forward};
use crate::names::hugging_face::{EncoderAttention, from_t5x, shape_from_t5x};
use crate::stored::Stored;
use gimlet_telemetry::notice;

/// The model families for which transformers has a class.
const FAMILIES: [(&str, &str); 4] = [
    ("t5", "T5ForConditionalGeneration"),
    ("mt5", "MT5ForConditionalGeneration"),
    ("umt5", "UMT5ForConditionalGeneration"),
    ("longt5", "LongT5ForConditionalGeneration"),
];

/// Number of rows of mT5's embedding, which distinguishes it from T5: the networks are the same.
const MT5_VOCAB: usize = 250_112;

/// The array of a head of its own.
const LOGITS: &str = "decoder/logits_dense/kernel";

/// The distance beyond which all positions share a bucket, the same in every T5.
const MAX_DISTANCE: usize = 128;

/// The model, as far as the arrays of a checkpoint describe it.
pub(super) struct Model {
    model_type: String,
    attention: EncoderAttention,
    /// Every tensor under its name in transformers.
    pub tensors: BTreeMap<String, Tensor>,
    /// Number of rows of the embedding.
    pub vocab_size: usize,
    emb_dim: usize,
    num_heads: usize,
    num_buckets: usize,
    head_dim: usize,
    mlp_dim: usize,
    num_layers: [usize; 2],
    feed_forward_proj: String,
    is_tied: bool,
}

impl Model {
    /// Reads the model from the names and shapes of the arrays, and from what is known beside them.
    pub(super) fn of(
        from: &dyn Stored,
        options: &HuggingFaceOptions,
        carried: &Carried,
    ) -> Result<Self, CheckpointError> {
        let refused = |reason| CheckpointError::Export { path: from.path().to_string(), reason };
        let other = |reason: String| refused(format!("{reason}; expected the parameters of a T5"));
        let leaves = from.leaves();
        let params: BTreeMap<&str, ArrayInfo<'_>> = leaves
            .iter()
            .filter_map(|leaf| Some((leaf.name.strip_prefix("target/")?, *leaf)))
            .collect();
        let shape = |name: &str| match params.get(name) {
            Some(info) if info.shape.len() == 2 => Ok([info.shape[0], info.shape[1]]),
            Some(info) => Err(other(format!("`{name}` has shape {:?}", info.shape))),
            None => Err(other(format!("it has no `{name}`"))),
        };
        let is_tied = !params.contains_key(LOGITS);
        if options.logits_via_embedding.is_some_and(|stated| stated != is_tied) {
            let (stated, array) = match is_tied {
                true => ("False", "no"),
                false => ("True", "a"),
            };
            return Err(refused(format!(
                "the configuration says logits_via_embedding = {stated}, and the arrays have {array} head of their own, \
                 `{LOGITS}`"
            )));
        }
        let (model_type, attention) =
            family(&params, options, carried, is_tied).map_err(refused)?;
        let [vocab_size, emb_dim] = shape("token_embedder/embedding")?;
        if !params.keys().any(|name| name.starts_with("decoder/")) {
            return Err(other("it has no decoder".to_string()));
        }
        let bias =
            ["encoder/relpos_bias/rel_embedding", "encoder/layers_0/relpos_bias/rel_embedding"];
        let [heads, num_buckets] = shape(bias[0]).or_else(|_| shape(bias[1]))?;
        let num_heads = options.num_heads.or(carried.number("num_heads")).unwrap_or(heads);
        let [_, joined] = shape("encoder/layers_0/attention/query/kernel")?;
        if num_heads == 0 || joined % num_heads != 0 {
            return Err(other(format!("{num_heads} heads do not share {joined} columns evenly")));
        }
        let [mlp_dim, _] = shape("encoder/layers_0/mlp/wo/kernel")?;
        let is_gated = params.contains_key("encoder/layers_0/mlp/wi_0/kernel");
        let FeedForward { proj, is_swapped } =
            blocks(is_gated, options, carried).map_err(refused)?;
        let renamed = |name: String| if is_swapped { swapped(&name) } else { name };
        Ok(Self {
            tensors: tensors(&params, attention, options, (&renamed, &other))?,
            num_layers: ["encoder", "decoder"].map(|stack| num_layers(&params, stack)),
            is_tied,
            head_dim: joined / num_heads,
            model_type,
            attention,
            vocab_size,
            emb_dim,
            num_heads,
            num_buckets,
            mlp_dim,
            feed_forward_proj: proj,
        })
    }

    /// `config.json`: what transformers expect of every T5 or what is carried over, and what the arrays show.
    pub(super) fn config(&self, options: &HuggingFaceOptions, carried: &Carried) -> Value {
        let mut config = match carried.config.is_empty() {
            true => usual(),
            false => carried.config.clone(),
        };
        if options.mlp_activations.is_some() {
            ACTIVATION.iter().for_each(|key| drop(config.remove(*key)));
        }
        let class = FAMILIES.iter().find(|(family, _)| *family == self.model_type);
        let class = class.expect("the family was checked").1;
        let dtype = self.tensors.values().next().map_or(DType::F32, |tensor| tensor.dtype);
        let mut set = |key: &str, value: Value| drop(config.insert(key.to_string(), value));
        set("architectures", json!([class]));
        set("d_ff", json!(self.mlp_dim));
        set("d_kv", json!(self.head_dim));
        set("d_model", json!(self.emb_dim));
        set("feed_forward_proj", json!(self.feed_forward_proj));
        set("model_type", json!(self.model_type));
        set("num_decoder_layers", json!(self.num_layers[1]));
        set("num_heads", json!(self.num_heads));
        set("num_layers", json!(self.num_layers[0]));
        set("relative_attention_num_buckets", json!(self.num_buckets));
        // A head that is divided by the root of the width is the embedding, in every version of transformers.
        set("tie_word_embeddings", json!(self.is_tied));
        set("torch_dtype", json!(dtype.name()));
        set("vocab_size", json!(self.vocab_size));
        if self.model_type == "longt5" {
            let kind = match self.attention {
                EncoderAttention::TransientGlobal => "transient-global",
                _ => "local",
            };
            let number = |option: Option<usize>, key: &str, usual: usize| {
                json!(option.or(carried.number(key)).unwrap_or(usual))
            };
            set("encoder_attention_type", json!(kind));
            set("global_block_size", number(options.global_block_size, "global_block_size", 16));
            set("local_radius", number(options.local_radius, "local_radius", 127));
        }
        config.extend(options.config.clone());
        Value::Object(config)
    }
}

/// The entries of `config.json` that are the same in every T5, or by default.
fn usual() -> Map<String, Value> {
    let usual = json!({
        "decoder_start_token_id": 0,
        "dropout_rate": 0.1,
        "eos_token_id": 1,
        "initializer_factor": 1.0,
        "is_encoder_decoder": true,
        "layer_norm_epsilon": 1e-6,
        "pad_token_id": 0,
        "relative_attention_max_distance": MAX_DISTANCE,
        "use_cache": true,
    });
    match usual {
        Value::Object(usual) => usual,
        _ => unreachable!("it is a map"),
    }
}

/// Returns the feed-forward blocks: as the options say, as is carried over, or else those of T5 1.0 and 1.1.
fn blocks(
    is_gated: bool,
    options: &HuggingFaceOptions,
    carried: &Carried,
) -> Result<FeedForward, String> {
    let usual = if is_gated { "gated-gelu" } else { "relu" };
    let as_it_is = |proj: &str| FeedForward { proj: proj.to_string(), is_swapped: false };
    let (block, said) = match &options.mlp_activations {
        Some(activations) => {
            let activations: Vec<&str> = activations.iter().map(String::as_str).collect();
            let said = format!("mlp_activations = {}", activations_tuple(&activations));
            (feed_forward(&activations)?, said)
        }
        None => {
            let proj = carried.feed_forward_proj().unwrap_or(usual);
            (as_it_is(proj), format!("feed_forward_proj = {proj}"))
        }
    };
    if block.proj.starts_with("gated-") != is_gated {
        let count = if is_gated { "two input projections" } else { "one input projection" };
        return Err(format!(
            "its feed-forward blocks have {count}, and the configuration says {said}; expected the configuration of this \
             model: give --gin_file=FILE"
        ));
    }
    Ok(block)
}

/// Exchanges the names of the input projections.
fn swapped(name: &str) -> String {
    match name.contains(".wi_0.") {
        true => name.replace(".wi_0.", ".wi_1."),
        false => name.replace(".wi_1.", ".wi_0."),
    }
}

type Params<'a> = BTreeMap<&'a str, ArrayInfo<'a>>;

/// The model type and the attention of the encoder.
fn family(
    params: &Params<'_>,
    options: &HuggingFaceOptions,
    carried: &Carried,
    is_tied: bool,
) -> Result<(String, EncoderAttention), String> {
    let is_global = params.contains_key("encoder/side_relpos_bias/rel_embedding");
    let has_rows = |rows| {
        let embedding = params.get("token_embedder/embedding");
        embedding.is_some_and(|embedding| embedding.shape.first() == Some(&rows))
    };
    let found = match () {
        () if is_global => "longt5",
        () if params.contains_key("encoder/layers_0/relpos_bias/rel_embedding") => "umt5",
        () if has_rows(MT5_VOCAB) => "mt5",
        () => "t5",
    };
    let asked = options.model_type.as_deref().or(carried.text("model_type"));
    let mut model_type = asked.unwrap_or(found);
    if !FAMILIES.iter().any(|(family, _)| *family == model_type) {
        let known = FAMILIES.map(|(family, _)| family).join(", ");
        return Err(format!("the model type `{model_type}` is unknown, expected one of {known}"));
    }
    if model_type == "mt5" && is_tied {
        if options.model_type.is_some() {
            return Err("its logits come from the embedding, divided by the root of its width, which transformers 5 does in \
                        no mt5: give --model_type=t5, which is the same network"
                .to_string());
        }
        notice(
            "the model is written as a t5, which is the same network: its logits come from the embedding, and transformers 5 \
             divides them in no mt5",
        );
        model_type = "t5";
    }
    let attention = match model_type {
        "longt5" if is_global => EncoderAttention::TransientGlobal,
        "longt5" => EncoderAttention::Local,
        _ => EncoderAttention::Full,
    };
    Ok((model_type.to_string(), attention))
}

/// Every tensor under its name in transformers.
fn tensors(
    params: &Params<'_>,
    attention: EncoderAttention,
    options: &HuggingFaceOptions,
    (renamed, other): (&dyn Fn(String) -> String, &dyn Fn(String) -> CheckpointError),
) -> Result<BTreeMap<String, Tensor>, CheckpointError> {
    let mut tensors = BTreeMap::new();
    for (name, info) in params {
        let mapped = from_t5x(name, attention);
        let fits = |axes: &Axes| *axes == Axes::Same || info.shape.len() == 2;
        let Some((hf, axes)) = mapped.filter(|(_, axes)| fits(axes)) else {
            return Err(other(format!("transformers has no name for `{name}` {:?}", info.shape)));
        };
        let hf = renamed(hf);
        let dtype = options.dtype.filter(|_| info.dtype.is_float()).unwrap_or(info.dtype);
        let tensor = Tensor {
            name: hf.clone(),
            source: info.name.to_string(),
            shape: info.shape.to_vec(),
            out_shape: shape_from_t5x(info.shape, axes),
            axes,
            dtype,
            source_dtype: info.dtype,
        };
        tensors.insert(hf, tensor);
    }
    Ok(tensors)
}

/// The number of layers: one more than the largest layer number.
fn num_layers(params: &Params<'_>, stack: &str) -> usize {
    let number = |name: &&str| {
        let rest = name.strip_prefix(stack)?.strip_prefix("/layers_")?;
        rest.split('/').next()?.parse::<usize>().ok()
    };
    params.keys().filter_map(number).max().map_or(0, |last| last + 1)
}
