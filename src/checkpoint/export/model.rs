//! The tensors and the configuration of a checkpoint, as transformers see them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::options::HuggingFaceOptions;
use super::tensor::Tensor;
use crate::array::{ArrayInfo, DType};
use crate::error::CheckpointError;
use crate::names::Axes;
use crate::names::hugging_face::{EncoderAttention, from_t5x, shape_from_t5x};
use crate::stored::Stored;

/// The model families for which transformers has a class.
const FAMILIES: [(&str, &str); 4] = [
    ("t5", "T5ForConditionalGeneration"),
    ("mt5", "MT5ForConditionalGeneration"),
    ("umt5", "UMT5ForConditionalGeneration"),
    ("longt5", "LongT5ForConditionalGeneration"),
];

/// Number of rows of mT5's embedding, which distinguishes it from T5: the networks are the same.
const MT5_VOCAB: usize = 250_112;

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
    is_gated: bool,
    is_tied: bool,
}

impl Model {
    /// Reads the model from the names and shapes of the arrays.
    pub(super) fn of(
        from: &dyn Stored,
        options: &HuggingFaceOptions,
    ) -> Result<Self, CheckpointError> {
        let other = |reason: String| CheckpointError::Export {
            path: from.path().to_string(),
            reason: format!("{reason}; expected the parameters of a T5"),
        };
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
        let (model_type, attention) = family(&params, options);
        if !FAMILIES.iter().any(|(family, _)| *family == model_type) {
            let known = FAMILIES.map(|(family, _)| family).join(", ");
            let reason =
                format!("the model type `{model_type}` is unknown, expected one of {known}");
            return Err(CheckpointError::Export { path: from.path().to_string(), reason });
        }
        let [vocab_size, emb_dim] = shape("token_embedder/embedding")?;
        if !params.keys().any(|name| name.starts_with("decoder/")) {
            return Err(other("it has no decoder".to_string()));
        }
        let bias =
            ["encoder/relpos_bias/rel_embedding", "encoder/layers_0/relpos_bias/rel_embedding"];
        let [heads, num_buckets] = shape(bias[0]).or_else(|_| shape(bias[1]))?;
        let num_heads = options.num_heads.unwrap_or(heads);
        let [_, joined] = shape("encoder/layers_0/attention/query/kernel")?;
        if num_heads == 0 || joined % num_heads != 0 {
            return Err(other(format!("{num_heads} heads do not share {joined} columns evenly")));
        }
        let [mlp_dim, _] = shape("encoder/layers_0/mlp/wo/kernel")?;
        let is_gated = params.contains_key("encoder/layers_0/mlp/wi_0/kernel");
        Ok(Self {
            tensors: tensors(&params, attention, options, &other)?,
            num_layers: ["encoder", "decoder"].map(|stack| num_layers(&params, stack)),
            is_tied: !params.contains_key("decoder/logits_dense/kernel"),
            head_dim: joined / num_heads,
            model_type,
            attention,
            vocab_size,
            emb_dim,
            num_heads,
            num_buckets,
            mlp_dim,
            is_gated,
        })
    }

    /// `config.json`.
    pub(super) fn config(&self, options: &HuggingFaceOptions) -> Value {
        let class = FAMILIES.iter().find(|(family, _)| *family == self.model_type);
        let class = class.expect("the family was checked").1;
        let activation = if self.is_gated { "gated-gelu" } else { "relu" };
        let dtype = self.tensors.values().next().map_or(DType::F32, |tensor| tensor.dtype);
        let mut config = json!({
            "architectures": [class],
            "d_ff": self.mlp_dim,
            "d_kv": self.head_dim,
            "d_model": self.emb_dim,
            "decoder_start_token_id": 0,
            "dropout_rate": 0.1,
            "eos_token_id": 1,
            "feed_forward_proj": activation,
            "initializer_factor": 1.0,
            "is_encoder_decoder": true,
            "layer_norm_epsilon": 1e-6,
            "model_type": self.model_type,
            "num_decoder_layers": self.num_layers[1],
            "num_heads": self.num_heads,
            "num_layers": self.num_layers[0],
            "pad_token_id": 0,
            "relative_attention_max_distance": MAX_DISTANCE,
            "relative_attention_num_buckets": self.num_buckets,
            "tie_word_embeddings": self.is_tied,
            "torch_dtype": dtype.name(),
            "use_cache": true,
            "vocab_size": self.vocab_size,
        });
        if self.model_type == "longt5" {
            let kind = match self.attention {
                EncoderAttention::TransientGlobal => "transient-global",
                _ => "local",
            };
            config["encoder_attention_type"] = json!(kind);
            config["global_block_size"] = json!(options.global_block_size.unwrap_or(16));
            config["local_radius"] = json!(options.local_radius.unwrap_or(127));
        }
        config
    }
}

type Params<'a> = BTreeMap<&'a str, ArrayInfo<'a>>;

/// The model type and the attention of the encoder.
fn family(params: &Params<'_>, options: &HuggingFaceOptions) -> (String, EncoderAttention) {
    let is_global = params.contains_key("encoder/side_relpos_bias/rel_embedding");
    let found = match () {
        () if is_global => "longt5",
        () if params.contains_key("encoder/layers_0/relpos_bias/rel_embedding") => "umt5",
        () if params
            .get("token_embedder/embedding")
            .is_some_and(|e| e.shape.first() == Some(&MT5_VOCAB)) =>
        {
            "mt5"
        }
        () => "t5",
    };
    let model_type = options.model_type.clone().unwrap_or_else(|| found.to_string());
    let attention = match &model_type[..] {
        "longt5" if is_global => EncoderAttention::TransientGlobal,
        "longt5" => EncoderAttention::Local,
        _ => EncoderAttention::Full,
    };
    (model_type, attention)
}

/// Every tensor under its name in transformers.
fn tensors(
    params: &Params<'_>,
    attention: EncoderAttention,
    options: &HuggingFaceOptions,
    other: &dyn Fn(String) -> CheckpointError,
) -> Result<BTreeMap<String, Tensor>, CheckpointError> {
    let mut tensors = BTreeMap::new();
    for (name, info) in params {
        let mapped = from_t5x(name, attention);
        let fits = |axes: &Axes| *axes == Axes::Same || info.shape.len() == 2;
        let Some((hf, axes)) = mapped.filter(|(_, axes)| fits(axes)) else {
            return Err(other(format!("transformers has no name for `{name}` {:?}", info.shape)));
        };
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
