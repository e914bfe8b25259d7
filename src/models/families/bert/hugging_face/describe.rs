//! The `config.json` of a BERT that is written for transformers, from its arrays and from what is known beside them.

use serde_json::{Map, Value, json};

use crate::checkpoint::{Arrays, Carried, Description, HuggingFaceOptions};

const EMBEDDING: &str = "token_embedder/embedding";

/// Describes the model.
///
/// # Errors
/// The arrays are not those of a BERT, or its number of heads is not known.
pub(super) fn describe(
    arrays: &Arrays<'_>,
    options: &HuggingFaceOptions,
    carried: &Carried,
) -> Result<Description, String> {
    let [vocab_size, hidden_size] = shape(arrays, EMBEDDING)?;
    let [_, joined] = shape(arrays, "encoder/layers_0/attention/query/kernel")?;
    let heads = options.num_heads.or(carried.number("num_attention_heads")).ok_or(
        "the number of attention heads is not known: give --gin_file=FILE of the model, or --num_heads=N",
    )?;
    if heads == 0 || joined % heads != 0 {
        return Err(format!("{heads} heads do not share {joined} columns evenly"));
    }
    let has = |name: &str| arrays.params.contains_key(name);
    let class = match (has("masked_tokens/bias"), has("classes/kernel")) {
        (true, true) => "BertForPreTraining",
        (true, false) => "BertForMaskedLM",
        (false, _) => "BertModel",
    };
    let mut config = if carried.config.is_empty() { usual() } else { carried.config.clone() };
    let mut set = |key: &str, value: Value| drop(config.insert(key.to_string(), value));
    set("architectures", json!([class]));
    set("model_type", json!("bert"));
    set("vocab_size", json!(vocab_size));
    set("hidden_size", json!(hidden_size));
    set("num_attention_heads", json!(heads));
    set("num_hidden_layers", json!(num_layers(arrays)));
    set("intermediate_size", json!(shape(arrays, "encoder/layers_0/mlp/wi/kernel")?[1]));
    set("type_vocab_size", json!(shape(arrays, "type_embedder/embedding")?[0]));
    if has("position_embedder/embedding") {
        set("max_position_embeddings", json!(shape(arrays, "position_embedder/embedding")?[0]));
    }
    if has("encoder/relpos_bias/rel_embedding") {
        let buckets = shape(arrays, "encoder/relpos_bias/rel_embedding")?[1];
        set("relative_attention_num_buckets", json!(buckets));
    }
    set("torch_dtype", json!(arrays.dtype.name()));
    Ok(Description { config, vocab_size })
}

/// The entries of `config.json` that are the same in every BERT, or by default.
fn usual() -> Map<String, Value> {
    let usual = json!({
        "attention_probs_dropout_prob": 0.1,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "initializer_range": 0.02,
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
        "position_embedding_type": "absolute",
    });
    match usual {
        Value::Object(usual) => usual,
        _ => unreachable!("it is a map"),
    }
}

/// The dimensions of a matrix.
fn shape(arrays: &Arrays<'_>, name: &str) -> Result<[usize; 2], String> {
    match arrays.params.get(name).map(|info| info.shape) {
        Some(&[rows, columns]) => Ok([rows, columns]),
        Some(shape) => {
            Err(format!("`{name}` has shape {shape:?}; expected the parameters of a BERT"))
        }
        None => Err(format!("it has no `{name}`; expected the parameters of a BERT")),
    }
}

/// The number of layers: one more than the largest layer number.
fn num_layers(arrays: &Arrays<'_>) -> usize {
    let number = |name: &&str| {
        let rest = name.strip_prefix("encoder/layers_")?;
        rest.split('/').next()?.parse::<usize>().ok()
    };
    arrays.params.keys().filter_map(number).max().map_or(0, |last| last + 1)
}
