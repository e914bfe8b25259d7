//! Every key that `GenerationConfig` of transformers 4 and 5 writes into `generation_config.json`.

use serde_json::{Map, Value};

use crate::hugging_face_keys::KeyFate::{Honoured, NoEffect, Refused};
use crate::hugging_face_keys::KeyTable;
use gimlet_storage::Path;

/// The name of the file.
pub const GENERATION_FILE: &str = "generation_config.json";

/// The keys, in the order of their fates.
pub const GENERATION_KEYS: KeyTable = &[
    ("max_length", Honoured),
    ("max_new_tokens", Honoured),
    ("min_length", Honoured),
    ("min_new_tokens", Honoured),
    ("do_sample", Honoured),
    ("num_beams", Honoured),
    ("num_return_sequences", Honoured),
    ("eos_token_id", Honoured),
    ("decoder_start_token_id", Honoured),
    ("length_penalty", Honoured),
    ("early_stopping", Honoured),
    ("temperature", Honoured),
    ("top_k", Honoured),
    ("top_p", Honoured),
    ("min_p", Honoured),
    ("top_h", Honoured),
    ("typical_p", Honoured),
    ("epsilon_cutoff", Honoured),
    ("eta_cutoff", Honoured),
    ("repetition_penalty", Honoured),
    ("encoder_repetition_penalty", Honoured),
    ("no_repeat_ngram_size", Honoured),
    ("encoder_no_repeat_ngram_size", Honoured),
    ("sequence_bias", Honoured),
    ("bad_words_ids", Honoured),
    ("forced_bos_token_id", Honoured),
    ("forced_eos_token_id", Honoured),
    ("remove_invalid_values", Honoured),
    ("exponential_decay_length_penalty", Honoured),
    ("suppress_tokens", Honoured),
    ("begin_suppress_tokens", Honoured),
    ("renormalize_logits", Honoured),
    ("penalty_alpha", Refused { harmless: &["0"], reason: "there is no contrastive search" }),
    ("num_beam_groups", Refused { harmless: &["1"], reason: "there is no search in groups" }),
    ("diversity_penalty", Refused { harmless: &["0"], reason: "there is no search in groups" }),
    ("constraints", Refused { harmless: &[], reason: "there is no search with constraints" }),
    ("force_words_ids", Refused { harmless: &[], reason: "there is no search with constraints" }),
    (
        "forced_decoder_ids",
        Refused { harmless: &["[]"], reason: "only the first and the last token can be forced" },
    ),
    ("dola_layers", Refused { harmless: &[], reason: "layers are not contrasted" }),
    (
        "guidance_scale",
        Refused { harmless: &["1"], reason: "there is no guidance by other inputs" },
    ),
    ("watermarking_config", Refused { harmless: &[], reason: "answers get no watermark" }),
    (
        "token_healing",
        Refused { harmless: &["false"], reason: "the ends of prompts are not replaced" },
    ),
    ("stop_strings", Refused { harmless: &[], reason: "only tokens end an answer" }),
    (
        "max_time",
        Refused { harmless: &[], reason: "answers do not depend on the time that they take" },
    ),
    (
        "cache_implementation",
        Refused {
            harmless: &[
                r#""dynamic""#,
                r#""static""#,
                r#""offloaded""#,
                r#""offloaded_static""#,
                r#""hybrid""#,
                r#""sliding_window""#,
                r#""dynamic_full""#,
            ],
            reason: "keys and values are not quantized",
        },
    ),
    // Speculation gives the same answers in another time; padding follows the end.
    ("assistant_confidence_threshold", NoEffect),
    ("assistant_early_exit", NoEffect),
    ("assistant_ensemble_weight", NoEffect),
    ("assistant_lookbehind", NoEffect),
    ("bos_token_id", NoEffect),
    ("cache_config", NoEffect),
    ("compile_config", NoEffect),
    ("continuous_batching_config", NoEffect),
    ("disable_compile", NoEffect),
    ("is_assistant", NoEffect),
    ("low_memory", NoEffect),
    ("max_cache_len", NoEffect),
    ("max_matching_ngram_size", NoEffect),
    ("num_assistant_tokens", NoEffect),
    ("num_assistant_tokens_schedule", NoEffect),
    ("output_attentions", NoEffect),
    ("output_hidden_states", NoEffect),
    ("output_logits", NoEffect),
    ("output_scores", NoEffect),
    ("pad_token_id", NoEffect),
    ("prefill_chunk_size", NoEffect),
    ("prompt_lookup_num_tokens", NoEffect),
    ("return_dict_in_generate", NoEffect),
    ("return_legacy_cache", NoEffect),
    ("speculation_type", NoEffect),
    ("target_lookbehind", NoEffect),
    ("transformers_version", NoEffect),
    ("use_cache", NoEffect),
    ("use_mtp", NoEffect),
    ("_commit_hash", NoEffect),
    ("_from_model_config", NoEffect),
];

/// Returns the parameters of decoding that belong to a `config.json` with these keys, and the file that states them. A folder
/// without a `generation_config.json` has them in its `config.json`, as version 4 wrote them.
///
/// # Errors
/// The file cannot be read, or is not JSON.
pub fn generation_fields(
    config_file: &Path,
    config: &Map<String, Value>,
) -> Result<(Path, Map<String, Value>), String> {
    let file = config_file.folder().join(GENERATION_FILE);
    match file.read() {
        Ok(text) => {
            let fields =
                serde_json::from_slice(&text).map_err(|error| format!("{file}: {error}"))?;
            Ok((file, fields))
        }
        Err(error) if error.is_not_found() => {
            let is_known = |key: &str| GENERATION_KEYS.iter().any(|(name, _)| *name == key);
            let fields = config.iter().filter(|(key, _)| is_known(key));
            let fields = fields.map(|(key, value)| (key.clone(), value.clone()));
            Ok((config_file.clone(), fields.collect()))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Parameters that have an effect on samples only.
const OF_SAMPLES: [&str; 8] = [
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "top_h",
    "typical_p",
    "epsilon_cutoff",
    "eta_cutoff",
];

/// Parameters that have an effect on a search only.
const OF_SEARCHES: [&str; 2] = ["length_penalty", "early_stopping"];

/// Parameters that a run states elsewhere: lengths in TASK_FEATURE_LENGTHS, the first token in the model.
const OF_RUNS: [&str; 3] = ["max_length", "max_new_tokens", "decoder_start_token_id"];

/// Returns the keys that change the answers of a decoding that takes the most probable token until one of `ends`.
pub(super) fn changing_keys<'a>(fields: &'a Map<String, Value>, ends: &[i64]) -> Vec<&'a str> {
    let draws = fields.get("do_sample") == Some(&Value::Bool(true));
    let searches = fields.get("num_beams").and_then(Value::as_u64).is_some_and(|beams| beams > 1);
    let is_changing = |key: &str, value: &Value| match key {
        _ if OF_RUNS.contains(&key) => false,
        _ if OF_SAMPLES.contains(&key) => draws,
        _ if OF_SEARCHES.contains(&key) => searches,
        "eos_token_id" => !is_one_of(value, ends),
        // A factor or a number of 1 is none.
        _ => !matches!(value.as_f64(), Some(0.0 | 1.0)) && !is_empty(value),
    };
    let is_read =
        |key: &str| GENERATION_KEYS.iter().any(|(name, fate)| *name == key && *fate == Honoured);
    let changing = fields.iter().filter(|(key, value)| is_read(key) && is_changing(key, value));
    let mut keys: Vec<&str> = changing.map(|(key, _)| key.as_str()).collect();
    keys.sort_unstable();
    keys
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(values) => values.is_empty(),
        _ => false,
    }
}

/// Whether a value is no id, one of `ids`, or a list of one of them.
fn is_one_of(value: &Value, ids: &[i64]) -> bool {
    match value {
        Value::Array(values) if values.len() > 1 => false,
        Value::Array(values) => values.iter().all(|value| is_one_of(value, ids)),
        value => value.as_i64().is_none_or(|id| ids.contains(&id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_that_change_greedy_answers_are_named() {
        for (text, expected) in [
            (
                r#"{"num_beams": 4, "length_penalty": 2.0, "top_k": 9}"#,
                vec!["length_penalty", "num_beams"],
            ),
            (
                r#"{"do_sample": true, "top_k": 9, "early_stopping": true}"#,
                vec!["do_sample", "top_k"],
            ),
            (r#"{"eos_token_id": [1, 7]}"#, vec!["eos_token_id"]),
            (
                r#"{"bad_words_ids": [[5]], "repetition_penalty": 1.5}"#,
                vec!["bad_words_ids", "repetition_penalty"],
            ),
            // The values that version 4 wrote into each config.json.
            (
                r#"{"num_beams": 1, "length_penalty": 1.0, "do_sample": false, "top_k": 50, "eos_token_id": 1, "max_length": 20,
                "min_length": 0, "bad_words_ids": null, "repetition_penalty": 1.0, "use_cache": true, "eta": 3}"#,
                vec![],
            ),
        ] {
            let fields = serde_json::from_str(text).expect("it is an object");
            assert_eq!(changing_keys(&fields, &[1]), expected, "{text}");
        }
    }
}
