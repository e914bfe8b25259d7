//! Every key that transformers' T5, mT5, umT5 and LongT5 write into `config.json`, versions 4 and 5, with those of
//! published models.

use serde_json::{Map, Value};

use super::generation_keys::GENERATION_KEYS;
use crate::hugging_face_keys::KeyFate::{self, Honoured};
use crate::hugging_face_keys::{KeyTable, check_keys};
use gimlet_storage::Path;

const fn refused(harmless: &'static [&'static str], reason: &'static str) -> KeyFate {
    KeyFate::Refused { harmless, reason }
}

const BOTH_STACKS: &str = "the model has an encoder and a decoder that reads its result";

/// The network and its tokens.
const NETWORK: KeyTable = &[
    ("model_type", Honoured),
    ("transformers_version", Honoured),
    ("vocab_size", Honoured),
    ("d_model", Honoured),
    ("d_kv", Honoured),
    ("d_ff", Honoured),
    ("num_layers", Honoured),
    ("num_decoder_layers", Honoured),
    ("num_heads", Honoured),
    ("feed_forward_proj", Honoured),
    ("dense_act_fn", Honoured),
    ("is_gated_act", Honoured),
    ("layer_norm_epsilon", Honoured),
    ("dropout_rate", Honoured),
    ("n_positions", Honoured),
    ("encoder_attention_type", Honoured),
    ("local_radius", Honoured),
    ("global_block_size", Honoured),
    ("tie_word_embeddings", Honoured),
    ("scale_decoder_outputs", Honoured),
    ("dtype", Honoured),
    ("torch_dtype", Honoured),
    ("decoder_start_token_id", Honoured),
    ("bos_token_id", Honoured),
    ("eos_token_id", Honoured),
    ("pad_token_id", refused(&["0"], "padding has id 0 here, in inputs and in targets")),
    ("relative_attention_num_buckets", refused(&["32"], "every published T5 has 32 buckets")),
    (
        "relative_attention_max_distance",
        refused(&["128"], "positions more than 128 apart share a bucket in every published T5"),
    ),
    ("is_encoder_decoder", refused(&["true"], BOTH_STACKS)),
    ("is_decoder", refused(&["false"], BOTH_STACKS)),
    ("add_cross_attention", refused(&["false"], BOTH_STACKS)),
    ("cross_attention_hidden_size", refused(&[], BOTH_STACKS)),
    (
        "tie_encoder_decoder",
        refused(&["false"], "the stacks' weights are read apart; save the model with both"),
    ),
    ("pruned_heads", refused(&["{}"], "all layers have the same number of heads")),
    ("per_layer_config", refused(&["{}"], "all layers have the same dimensions")),
    (
        "quantization_config",
        refused(&["{}"], "weights are read as floats; save the model without quantization"),
    ),
];

/// Other names of dimensions, which replace them.
pub(super) const ALIASES: [(&str, &str); 4] = [
    ("hidden_size", "d_model"),
    ("num_hidden_layers", "num_layers"),
    ("num_attention_heads", "num_heads"),
    ("head_dim", "d_kv"),
];

/// Keys about training, classification, the layout of work or the writer of the file.
const WITHOUT_EFFECT: &[&str] = &[
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_attn_implementation_internal",
    "_commit_hash",
    "_experts_implementation",
    "_name_or_path",
    "architectures",
    "attn_implementation",
    "auto_map",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "experts_implementation",
    "finetuning_task",
    "gradient_checkpointing",
    "id2label",
    "initializer_factor",
    "initializer_range",
    "label2id",
    "name_or_path",
    "num_labels",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_scores",
    "prefix",
    "problem_type",
    "return_dict",
    "return_dict_in_generate",
    "scalable_attention",
    "sep_token_id",
    "task_specific_params",
    "tf_legacy_loss",
    "tie_last_hidden_states",
    "tokenizer_class",
    "torchscript",
    "use_bfloat16",
    "use_cache",
    "use_return_dict",
];

/// Checks every key of a `config.json`, and returns a warning about those that are not known.
///
/// # Errors
/// A value would change results and cannot be used: the file, the key, the value, and the reason.
pub fn check_config_keys(
    file: &Path,
    object: &Map<String, Value>,
) -> Result<Option<String>, String> {
    let is_in = |table: KeyTable, key: &str| table.iter().any(|(name, _)| *name == key);
    // Version 4 writes parameters of decoding here too. The reader of `generation_config.json` takes them from here where a
    // folder has no such file.
    let has_no_effect = |key: &str| WITHOUT_EFFECT.contains(&key) || is_in(GENERATION_KEYS, key);
    let is_left = |key: &str| is_in(NETWORK, key) || !has_no_effect(key);
    let left = object.iter().filter(|(key, _)| is_left(key));
    let mut left: Map<String, Value> = left.map(|(k, v)| (k.clone(), v.clone())).collect();
    for (alias, name) in ALIASES {
        let found = left.remove(alias).filter(|value| !value.is_null());
        if let Some(found) = found.filter(|found| Some(found) != object.get(name)) {
            let expected = object.get(name).unwrap_or(&Value::Null);
            return Err(format!(
                "{file}: `{alias}` is {found}, expected that of its other name, `{name}`: {expected}"
            ));
        }
    }
    check_keys(file, &left, &[NETWORK])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<Option<String>, String> {
        let file = Path::parse("hub/config.json").expect("it is a path");
        let object = serde_json::from_str(text).expect("it is an object");
        check_config_keys(&file, &object)
    }

    #[test]
    fn no_key_has_two_fates() {
        let mut names: Vec<&str> = NETWORK.iter().map(|(name, _)| *name).collect();
        names.extend(WITHOUT_EFFECT);
        names.extend(ALIASES.map(|(alias, _)| alias));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn values_that_the_model_cannot_have_are_refused_with_the_reason() {
        for (text, part) in [
            (r#"{"pad_token_id": 5}"#, "`pad_token_id` is 5, expected 0: padding has id 0 here"),
            (r#"{"is_decoder": true}"#, "`is_decoder` is true, expected false"),
            (r#"{"relative_attention_num_buckets": 16}"#, "is 16, expected 32: every published"),
            (
                r#"{"d_model": 8, "hidden_size": 9}"#,
                "`hidden_size` is 9, expected that of its other",
            ),
        ] {
            let said = check(text).expect_err("it is refused");
            assert!(said.contains(part), "{said}");
        }
        let text =
            r#"{"d_model": 8, "hidden_size": 8, "prefix": "x", "top_k": 7, "max_length": 20}"#;
        assert_eq!(check(text), Ok(None));
        let said = check(r#"{"new_norm": true}"#).expect("it is accepted").expect("a warning");
        assert!(said.contains("config.json: the key `new_norm` is not known"), "{said}");
    }
}
