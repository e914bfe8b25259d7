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
    let shape = |name| {
        let matrix = arrays.matrix(name);
        matrix.map_err(|reason| format!("{reason}; expected the parameters of a BERT"))
    };
    let [vocab_size, hidden_size] = shape(EMBEDDING)?;
    let [_, joined] = shape("encoder/layers_0/attention/query/kernel")?;
    let heads = options.num_heads.or(carried.number("num_attention_heads")).ok_or(
        "the number of attention heads is not known: give --gin_file=FILE of the model, or --num_heads=N",
    )?;
    if heads == 0 || joined % heads != 0 {
        return Err(format!("{heads} heads do not share {joined} columns evenly"));
    }
    let has = |name: &str| arrays.params.contains_key(name);
    let classes = [
        ("classifier/kernel", "BertForSequenceClassification"),
        ("classes/kernel", "BertForPreTraining"),
        ("masked_tokens/bias", "BertForMaskedLM"),
    ];
    let class = classes.into_iter().find(|(array, _)| has(array));
    let class = class.map_or("BertModel", |(_, class)| class);
    let mut config = if carried.config.is_empty() { usual() } else { carried.config.clone() };
    let mut set = |key: &str, value: Value| drop(config.insert(key.to_string(), value));
    set("architectures", json!([class]));
    set("model_type", json!("bert"));
    set("vocab_size", json!(vocab_size));
    set("hidden_size", json!(hidden_size));
    set("num_attention_heads", json!(heads));
    set("num_hidden_layers", json!(arrays.num_layers("encoder")));
    set("intermediate_size", json!(shape("encoder/layers_0/mlp/wi/kernel")?[1]));
    set("type_vocab_size", json!(shape("type_embedder/embedding")?[0]));
    if has("position_embedder/embedding") {
        set("max_position_embeddings", json!(shape("position_embedder/embedding")?[0]));
    }
    if has("encoder/relpos_bias/rel_embedding") {
        let buckets = shape("encoder/relpos_bias/rel_embedding")?[1];
        set("relative_attention_num_buckets", json!(buckets));
    }
    if has("classifier/kernel") && !carried.config.contains_key("id2label") {
        let names =
            (0..shape("classifier/kernel")?[1]).map(|number| (number.to_string(), label(number)));
        set("id2label", Value::Object(names.collect()));
    }
    set("torch_dtype", json!(arrays.dtype.name()));
    Ok(Description { config, vocab_size })
}

/// Transformers' name of a class that has none.
pub(super) fn label(number: usize) -> Value {
    json!(format!("LABEL_{number}"))
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
