//! Every key that `GenerationConfig` of transformers 4 and 5 writes into `generation_config.json`.

use serde_json::Value;

use crate::hugging_face_keys::KeyFate::{Honoured, NoEffect, Refused};
use crate::hugging_face_keys::{KeyTable, check_keys};
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

/// Returns a warning about the keys of the file of a folder that are not known. Values that are refused are told by the
/// commands that decode.
pub fn unknown_generation_keys(folder: &Path) -> Option<String> {
    let file = folder.join(GENERATION_FILE);
    let fields: Value = serde_json::from_slice(&file.read().ok()?).ok()?;
    check_keys(&file, fields.as_object()?, &[GENERATION_KEYS]).ok()?
}
