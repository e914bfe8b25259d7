//! The properties of a BERT that its arrays do not show.

use serde_json::{Map, Value, json};

use crate::checkpoint::HuggingFaceOptions;
use crate::models::bert::{BertConfig, PositionEmbedding};
use crate::nn::Activation;

/// Returns the properties of a model that its arrays do not show, for writing it for transformers.
///
/// # Errors
/// Neither transformers nor t5-experiments have such a model.
pub fn stated(config: &BertConfig) -> Result<HuggingFaceOptions, String> {
    let activation = match config.hidden_act {
        Activation::GeluExact => "gelu",
        Activation::Gelu => "gelu_new",
        Activation::Relu => "relu",
        Activation::Silu | Activation::Swish => "silu",
        Activation::Tanh => "tanh",
        Activation::Sigmoid => "sigmoid",
        other => return Err(format!("transformers has no BERT with {other:?} as its activation")),
    };
    if config.sparsity.is_some() {
        return Err(
            "transformers has no BERT whose positions attend to some blocks: convert --to t5x"
                .to_string(),
        );
    }
    let mut entries = Map::new();
    let mut set = |key: &str, value: Value| drop(entries.insert(key.to_string(), value));
    set("hidden_act", json!(activation));
    set("hidden_dropout_prob", json!(config.hidden_dropout_prob));
    set("attention_probs_dropout_prob", json!(config.attention_probs_dropout_prob));
    set("initializer_range", json!(config.initializer_range));
    set("layer_norm_eps", json!(config.layer_norm_eps));
    set("max_position_embeddings", json!(config.max_position_embeddings));
    match &config.position_embedding {
        PositionEmbedding::Absolute(_) => set("position_embedding_type", json!("absolute")),
        PositionEmbedding::Rotary(rotary) => {
            set("position_embedding_type", json!("rotary"));
            set("rotary_base", json!(rotary.base));
            set("rotary_dim", json!(rotary.dim));
        }
        PositionEmbedding::Absent(_) => {
            return Err("transformers has no BERT without positions: convert --to t5x".to_string());
        }
        PositionEmbedding::Relative(relative) => {
            set("position_embedding_type", json!("relative_attention_bias"));
            set("relative_last_bucket_distance", json!(relative.last_bucket_distance));
        }
    }
    if config.pre_layer_norm {
        set("pre_layer_norm", json!(true));
        set("last_layer_norm", json!(config.last_layer_norm.unwrap_or(true)));
    }
    Ok(HuggingFaceOptions {
        num_heads: Some(config.num_attention_heads),
        config: entries,
        ..HuggingFaceOptions::default()
    })
}
