//! The keys that transformers' T5, mT5, umT5 and LongT5 write into `config.json`, versions 4 and 5, with those of published
//! models.

use crate::checkpoint::KeyFate::{self, Honoured};
use crate::checkpoint::KeyTable;

const fn refused(harmless: &'static [&'static str], reason: &'static str) -> KeyFate {
    KeyFate::Refused { harmless, reason }
}

const BOTH_STACKS: &str = "the model has an encoder and a decoder that reads its result";

/// The keys of the network and its tokens.
pub const KEYS: KeyTable = &[
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
pub const ALIASES: &[(&str, &str)] = &[
    ("hidden_size", "d_model"),
    ("num_hidden_layers", "num_layers"),
    ("num_attention_heads", "num_heads"),
    ("head_dim", "d_kv"),
];

/// Keys that a checkpoint of T5X does not hold, with the value that T5X has for all models, if it has one.
pub const UNHELD: &[(&str, Option<f64>)] = &[
    ("decoder_start_token_id", Some(0.0)),
    ("eos_token_id", Some(1.0)),
    ("feed_forward_proj", None),
    ("layer_norm_epsilon", Some(1e-6)),
    ("pad_token_id", Some(0.0)),
    ("relative_attention_max_distance", Some(128.0)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::HuggingFaceConfig;
    use crate::models::t5::hugging_face::FAMILY;
    use crate::storage::Path;

    fn check(text: &str) -> Result<Option<String>, String> {
        let file = Path::parse("hub/config.json").expect("it is a path");
        let config = HuggingFaceConfig::parse(&file, text.as_bytes()).expect("it is an object");
        FAMILY.check_keys(&config)
    }

    #[test]
    fn no_key_has_two_fates() {
        let mut names: Vec<&str> = KEYS.iter().map(|(name, _)| *name).collect();
        names.extend(ALIASES.iter().map(|(alias, _)| alias));
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
