//! The keys of a `config.json`: those that a family of models knows, and those that transformers write into every one.

use serde_json::{Map, Value};

use super::config::HuggingFaceConfig;
use super::generation_keys::GENERATION_KEYS;
use crate::hugging_face_keys::{KeyTable, check_keys};

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

/// Checks every key of a `config.json` against those of its family, with other names of some, and returns a warning about
/// those that are not known.
///
/// # Errors
/// A value would change results and cannot be used: the file, the key, the value, and the reason.
pub(crate) fn check_config_keys(
    HuggingFaceConfig { file, keys: object }: &HuggingFaceConfig,
    keys: KeyTable,
    aliases: &[(&str, &str)],
) -> Result<Option<String>, String> {
    let is_in = |table: KeyTable, key: &str| table.iter().any(|(name, _)| *name == key);
    // Version 4 writes parameters of decoding here too. The reader of `generation_config.json` takes them from here where a
    // folder has no such file.
    let has_no_effect = |key: &str| WITHOUT_EFFECT.contains(&key) || is_in(GENERATION_KEYS, key);
    let is_left = |key: &str| is_in(keys, key) || !has_no_effect(key);
    let left = object.iter().filter(|(key, _)| is_left(key));
    let mut left: Map<String, Value> = left.map(|(k, v)| (k.clone(), v.clone())).collect();
    for (alias, name) in aliases {
        let found = left.remove(*alias).filter(|value| !value.is_null());
        if let Some(found) = found.filter(|found| Some(found) != object.get(*name)) {
            let expected = object.get(*name).unwrap_or(&Value::Null);
            return Err(format!(
                "{file}: `{alias}` is {found}, expected that of its other name, `{name}`: {expected}"
            ));
        }
    }
    check_keys(file, &left, &[keys])
}
