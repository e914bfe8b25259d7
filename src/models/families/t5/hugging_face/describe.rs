//! The `config.json` of a T5 that is written for transformers, from its arrays and from what is known beside them.

use serde_json::{Map, Value, json};

use super::names::TABLES;
use crate::checkpoint::{Arrays, Carried, Description, Exchanged, HuggingFaceOptions};
use crate::models::hugging_face::{FeedForward, feed_forward};
use crate::nn::Activation;
use crate::telemetry::notice;

/// Number of rows of mT5's embedding, which distinguishes it from T5: the networks are the same.
const MT5_VOCAB: usize = 250_112;

const EMBEDDING: &str = "token_embedder/embedding";

/// The array of a head of its own.
const LOGITS: &str = "decoder/logits_dense/kernel";

/// The array of LongT5's global tokens.
const SIDE_BIAS: &str = "encoder/side_relpos_bias/rel_embedding";

/// The distance beyond which all positions share a bucket, the same in every T5.
const MAX_DISTANCE: usize = 128;

/// Keys in which transformers repeat `feed_forward_proj`; where they stand, they win over it.
const ACTIVATION: [&str; 2] = ["dense_act_fn", "is_gated_act"];

/// The model, as far as the arrays of a checkpoint describe it.
struct Model {
    model_type: &'static str,
    vocab_size: usize,
    emb_dim: usize,
    num_heads: usize,
    num_buckets: usize,
    head_dim: usize,
    mlp_dim: usize,
    num_layers: [usize; 2],
    block: FeedForward,
    is_tied: bool,
}

/// Describes the model.
pub(super) fn describe(
    arrays: &Arrays<'_>,
    options: &HuggingFaceOptions,
    carried: &Carried,
) -> Result<Description, String> {
    let model = Model::of(arrays, options, carried)?;
    Ok(Description { config: model.config(arrays, options, carried), vocab_size: model.vocab_size })
}

/// Returns the names that change places: transformers apply the activation to `wi_0`'s result.
pub(super) fn exchanged(
    arrays: &Arrays<'_>,
    options: &HuggingFaceOptions,
    carried: &Carried,
) -> Exchanged {
    Ok(block(arrays, options, carried)?.is_swapped.then_some([".wi_0.", ".wi_1."]))
}

impl Model {
    /// Reads the model from the names and shapes of the arrays, and from what is known beside them.
    fn of(
        arrays: &Arrays<'_>,
        options: &HuggingFaceOptions,
        carried: &Carried,
    ) -> Result<Self, String> {
        let params = &arrays.params;
        let is_foreign =
            |name: &&&str| name.starts_with("encoder/memory_tokens/") || name.contains("/cdq_");
        if let Some(name) = params.keys().find(is_foreign) {
            return Err(other(&format!("transformers has no T5 with `{name}`")));
        }
        let is_tied = !params.contains_key(LOGITS);
        check_head(is_tied, options)?;
        let model_type = model_type(arrays, options, carried)?;
        let shape = |name| arrays.matrix(name).map_err(|reason| other(&reason));
        let [vocab_size, emb_dim] = shape(EMBEDDING)?;
        if !params.keys().any(|name| name.starts_with("decoder/")) {
            return Err(other("it has no decoder"));
        }
        let bias =
            ["encoder/relpos_bias/rel_embedding", "encoder/layers_0/relpos_bias/rel_embedding"];
        let [heads, num_buckets] = shape(bias[0]).or_else(|_| shape(bias[1]))?;
        let num_heads = options.num_heads.or(carried.number("num_heads")).unwrap_or(heads);
        let [_, joined] = shape("encoder/layers_0/attention/query/kernel")?;
        if num_heads == 0 || joined % num_heads != 0 {
            return Err(other(&format!("{num_heads} heads do not share {joined} columns evenly")));
        }
        let [mlp_dim, _] = shape("encoder/layers_0/mlp/wo/kernel")?;
        Ok(Self {
            model_type,
            vocab_size,
            emb_dim,
            num_heads,
            num_buckets,
            head_dim: joined / num_heads,
            mlp_dim,
            num_layers: ["encoder", "decoder"].map(|stack| arrays.num_layers(stack)),
            block: block(arrays, options, carried)?,
            is_tied,
        })
    }

    /// `config.json`: what transformers expect of every T5 or what is carried over, and what the arrays show.
    fn config(
        &self,
        arrays: &Arrays<'_>,
        options: &HuggingFaceOptions,
        carried: &Carried,
    ) -> Map<String, Value> {
        let mut config = match carried.config.is_empty() {
            true => usual(),
            false => carried.config.clone(),
        };
        if options.mlp_activations.is_some() {
            ACTIVATION.iter().for_each(|key| drop(config.remove(*key)));
        }
        let table = TABLES.iter().find(|table| table.model_type == self.model_type);
        let class = table.expect("the type is that of a table").class;
        let mut set = |key: &str, value: Value| drop(config.insert(key.to_string(), value));
        set("architectures", json!([class]));
        set("d_ff", json!(self.mlp_dim));
        set("d_kv", json!(self.head_dim));
        set("d_model", json!(self.emb_dim));
        set("feed_forward_proj", json!(self.block.proj));
        set("model_type", json!(self.model_type));
        set("num_decoder_layers", json!(self.num_layers[1]));
        set("num_heads", json!(self.num_heads));
        set("num_layers", json!(self.num_layers[0]));
        set("relative_attention_num_buckets", json!(self.num_buckets));
        // A head that is divided by the root of the width is the embedding, in every version of transformers.
        set("tie_word_embeddings", json!(self.is_tied));
        set("torch_dtype", json!(arrays.dtype.name()));
        set("vocab_size", json!(self.vocab_size));
        if self.model_type == "longt5" {
            let is_global = arrays.params.contains_key(SIDE_BIAS);
            let kind = if is_global { "transient-global" } else { "local" };
            let number = |option: Option<usize>, key: &str, usual: usize| {
                json!(option.or(carried.number(key)).unwrap_or(usual))
            };
            set("encoder_attention_type", json!(kind));
            set("global_block_size", number(options.global_block_size, "global_block_size", 16));
            set("local_radius", number(options.local_radius, "local_radius", 127));
        }
        config
    }
}

fn other(reason: &str) -> String {
    format!("{reason}; expected the parameters of a T5")
}

/// Compares the head with the one that the configuration says.
fn check_head(is_tied: bool, options: &HuggingFaceOptions) -> Result<(), String> {
    if options.logits_via_embedding.is_none_or(|stated| stated == is_tied) {
        return Ok(());
    }
    let (stated, array) = if is_tied { ("False", "no") } else { ("True", "a") };
    Err(format!(
        "the configuration says logits_via_embedding = {stated}, and the arrays have {array} head of their own, \
         `{LOGITS}`"
    ))
}

/// The model type: the asked one, or that of the table and of the embedding.
fn model_type(
    arrays: &Arrays<'_>,
    options: &HuggingFaceOptions,
    carried: &Carried,
) -> Result<&'static str, String> {
    let rows = arrays.params.get(EMBEDDING).and_then(|embedding| embedding.shape.first());
    let is_asked = options.model_type.is_some() || carried.text("model_type").is_some();
    let found = match arrays.table.model_type {
        "t5" if !is_asked && rows == Some(&MT5_VOCAB) => "mt5",
        found => found,
    };
    if found != "mt5" || arrays.params.contains_key(LOGITS) {
        return Ok(found);
    }
    if options.model_type.is_some() {
        return Err("its logits come from the embedding, divided by the root of its width, which transformers 5 does in \
                    no mt5: give --model_type=t5, which is the same network"
            .to_string());
    }
    notice(
        "the model is written as a t5, which is the same network: its logits come from the embedding, and transformers 5 \
         divides them in no mt5",
    );
    Ok("t5")
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
fn block(
    arrays: &Arrays<'_>,
    options: &HuggingFaceOptions,
    carried: &Carried,
) -> Result<FeedForward, String> {
    let is_gated = arrays.params.contains_key("encoder/layers_0/mlp/wi_0/kernel");
    let (block, said) = match &options.mlp_activations {
        Some(activations) => {
            let activations: Vec<&str> = activations.iter().map(String::as_str).collect();
            let said = format!("mlp_activations = {}", Activation::tuple(&activations));
            (feed_forward(&activations)?, said)
        }
        None => {
            let usual = if is_gated { "gated-gelu" } else { "relu" };
            let proj = carried_proj(carried).unwrap_or(usual);
            let block = FeedForward { proj: proj.to_string(), is_swapped: false };
            (block, format!("feed_forward_proj = {proj}"))
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

/// The feed-forward blocks that are carried over, if there is a `config.json`, which need not say what its family has by
/// default.
fn carried_proj(carried: &Carried) -> Option<&str> {
    let default = match carried.text("model_type") {
        Some("mt5" | "umt5") => "gated-gelu",
        _ => "relu",
    };
    (!carried.config.is_empty()).then(|| carried.text("feed_forward_proj").unwrap_or(default))
}
