//! The keys that transformers' BERT writes into `config.json`, with those of t5-experiments.

use crate::checkpoint::KeyFate::{self, Honoured};
use crate::checkpoint::KeyTable;

const fn refused(harmless: &'static [&'static str], reason: &'static str) -> KeyFate {
    KeyFate::Refused { harmless, reason }
}

const ALONE: &str = "the model is an encoder alone";

/// The keys of the network and its tokens.
pub const KEYS: KeyTable = &[
    ("model_type", Honoured),
    ("transformers_version", Honoured),
    ("vocab_size", Honoured),
    ("hidden_size", Honoured),
    ("num_hidden_layers", Honoured),
    ("num_attention_heads", Honoured),
    ("intermediate_size", Honoured),
    ("hidden_act", Honoured),
    ("hidden_dropout_prob", Honoured),
    ("attention_probs_dropout_prob", Honoured),
    ("max_position_embeddings", Honoured),
    ("type_vocab_size", Honoured),
    ("initializer_range", Honoured),
    ("layer_norm_eps", Honoured),
    ("position_embedding_type", Honoured),
    ("rotary_base", Honoured),
    ("rotary_dim", Honoured),
    ("relative_attention_num_buckets", Honoured),
    ("relative_last_bucket_distance", Honoured),
    ("pre_layer_norm", Honoured),
    ("last_layer_norm", Honoured),
    ("dtype", Honoured),
    ("torch_dtype", Honoured),
    ("pad_token_id", refused(&["0"], "padding has id 0 here")),
    ("id2label", Honoured),
    ("label2id", Honoured),
    ("classifier_dropout", Honoured),
    (
        "problem_type",
        refused(
            &["\"single_label_classification\""],
            "a row has one class, and no number or several classes",
        ),
    ),
    ("is_decoder", refused(&["false"], ALONE)),
    ("is_encoder_decoder", refused(&["false"], ALONE)),
    ("add_cross_attention", refused(&["false"], ALONE)),
    (
        "tie_word_embeddings",
        refused(&["true"], "the embedding maps to logits; save the model with tied embeddings"),
    ),
    ("pruned_heads", refused(&["{}"], "all layers have the same number of heads")),
    ("sparse_config_cls", Honoured),
    ("sparse_attention", Honoured),
    (
        "quantization_config",
        refused(&["{}"], "weights are read as floats; save the model without quantization"),
    ),
];

/// Keys that a checkpoint of T5X does not hold, with the value that every BERT has by default.
pub const UNHELD: &[(&str, Option<f64>)] = &[
    ("hidden_act", None),
    ("layer_norm_eps", Some(1e-12)),
    ("pad_token_id", Some(0.0)),
    ("position_embedding_type", None),
    ("rotary_base", None),
    ("rotary_dim", None),
    ("relative_last_bucket_distance", Some(128.0)),
];
