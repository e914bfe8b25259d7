//! The names of BERT in transformers, and in t5-experiments with norms before attentions and feed-forward blocks.

use crate::checkpoint::{Axes, ModuleNames, NameTable, ParameterKind};

const KERNEL: ParameterKind = ParameterKind::KERNEL;
const EMBEDDING: ParameterKind = ParameterKind::EMBEDDING;

/// A vector that is added.
const BIAS: ParameterKind =
    ParameterKind { torch: "bias", flax: "bias", t5x: "bias", axes: Axes::Same };

/// The scale of a norm.
const SCALE: ParameterKind =
    ParameterKind { torch: "weight", flax: "scale", t5x: "scale", axes: Axes::Same };

/// Scale and bias of a norm in the first BERTs, which TensorFlow named.
const GAMMA: ParameterKind = ParameterKind { torch: "gamma", ..SCALE };
const BETA: ParameterKind = ParameterKind { torch: "beta", ..BIAS };

/// A relative bias: `[buckets, heads]`, here `[heads, buckets]`.
const RELATIVE: ParameterKind =
    ParameterKind { torch: "weight", flax: "embedding", t5x: "rel_embedding", axes: Axes::Swapped };

/// The modules of an encoder whose names begin with `$prefix`, except the norms of its layers.
macro_rules! encoder {
    ($prefix:literal) => {
        &[
            (
                concat!($prefix, "embeddings"),
                "",
                &[
                    ("word_embeddings", "token_embedder", EMBEDDING),
                    ("position_embeddings", "position_embedder", EMBEDDING),
                    ("token_type_embeddings", "type_embedder", EMBEDDING),
                ],
            ),
            (concat!($prefix, "pooler"), "", POOLER),
            (
                concat!($prefix, "encoder.layer.#.attention.self"),
                "encoder/layers_#/attention",
                &[
                    ("query", "query", KERNEL),
                    ("query", "query", BIAS),
                    ("key", "key", KERNEL),
                    ("key", "key", BIAS),
                    ("value", "value", KERNEL),
                    ("value", "value", BIAS),
                ],
            ),
            (
                concat!($prefix, "encoder.layer.0.attention.self"),
                "encoder",
                &[("relative_attention_bias", "relpos_bias", RELATIVE)],
            ),
            (
                concat!($prefix, "encoder.layer.#"),
                "encoder/layers_#",
                &[
                    ("attention.output.dense", "attention/out", KERNEL),
                    ("attention.output.dense", "attention/out", BIAS),
                    ("intermediate.dense", "mlp/wi", KERNEL),
                    ("intermediate.dense", "mlp/wi", BIAS),
                    ("output.dense", "mlp/wo", KERNEL),
                    ("output.dense", "mlp/wo", BIAS),
                ],
            ),
        ]
    };
}

/// The norms of an encoder, with a scale and a bias of those kinds, after attentions and feed-forward blocks.
macro_rules! norms_after {
    ($prefix:literal, $scale:ident, $bias:ident) => {
        &[
            (
                concat!($prefix, "embeddings.LayerNorm"),
                "embedder_norm",
                &[("", "", $scale), ("", "", $bias)],
            ),
            (
                concat!($prefix, "encoder.layer.#.attention.output.LayerNorm"),
                "encoder/layers_#/pre_attention_layer_norm",
                &[("", "", $scale), ("", "", $bias)],
            ),
            (
                concat!($prefix, "encoder.layer.#.output.LayerNorm"),
                "encoder/layers_#/pre_mlp_layer_norm",
                &[("", "", $scale), ("", "", $bias)],
            ),
            (
                "cls.predictions.transform.LayerNorm",
                "masked_tokens/norm",
                &[("", "", $scale), ("", "", $bias)],
            ),
        ]
    };
}

const POOLER: &[(&str, &str, ParameterKind)] =
    &[("dense", "pooler", KERNEL), ("dense", "pooler", BIAS)];

/// The heads.
const HEADS: &[ModuleNames] = &[
    (
        "cls.predictions",
        "masked_tokens",
        &[("", "", BIAS), ("transform.dense", "dense", KERNEL), ("transform.dense", "dense", BIAS)],
    ),
    ("cls", "", &[("seq_relationship", "classes", KERNEL), ("seq_relationship", "classes", BIAS)]),
    ("classifier", "classifier", &[("", "", KERNEL), ("", "", BIAS)]),
];

const ENCODER: &[ModuleNames] = encoder!("bert.");
const BARE_ENCODER: &[ModuleNames] = encoder!("");
const NORMS: &[ModuleNames] = norms_after!("bert.", SCALE, BIAS);
const BARE_NORMS: &[ModuleNames] = norms_after!("", SCALE, BIAS);
const FIRST_NORMS: &[ModuleNames] = norms_after!("bert.", GAMMA, BETA);

/// The norms of t5-experiments before attentions and feed-forward blocks, and the one after all layers.
const NORMS_BEFORE: &[ModuleNames] = &[
    ("bert.embeddings.LayerNorm", "embedder_norm", &[("", "", SCALE), ("", "", BIAS)]),
    (
        "bert.encoder.layer.#.pre_attention_ln",
        "encoder/layers_#/pre_attention_layer_norm",
        &[("", "", SCALE), ("", "", BIAS)],
    ),
    (
        "bert.encoder.layer.#.post_attention_ln",
        "encoder/layers_#/pre_mlp_layer_norm",
        &[("", "", SCALE), ("", "", BIAS)],
    ),
    ("bert.encoder.last_layer_ln", "encoder/encoder_norm", &[("", "", SCALE), ("", "", BIAS)]),
    (
        "cls.predictions.transform.LayerNorm",
        "masked_tokens/norm",
        &[("", "", SCALE), ("", "", BIAS)],
    ),
];

/// Names of the embedding, which also maps to logits, and of the bias of logits.
const TABLE: &[&str] =
    &["bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"];
const LOGITS_BIAS: &[&str] = &["cls.predictions.bias", "cls.predictions.decoder.bias"];

const fn table(class: &'static str, modules: &'static [&'static [ModuleNames]]) -> NameTable {
    NameTable {
        model_type: "bert",
        class,
        modules,
        copies: &[TABLE, LOGITS_BIAS],
        head: None,
        stated_by: None,
        dropped: &[
            "bert.embeddings.position_ids",
            "embeddings.position_ids",
            "bert.encoder.layer.#.attention.self.rotary_emb.inv_freq",
        ],
    }
}

/// The spellings.
pub const TABLES: &[NameTable] = &[
    table("BertForPreTraining", &[ENCODER, NORMS, HEADS]),
    table("BertForPreTraining", &[ENCODER, FIRST_NORMS, HEADS]),
    table("BertModel", &[BARE_ENCODER, BARE_NORMS]),
    NameTable {
        stated_by: Some("pre_layer_norm"),
        ..table("BertForPreTraining", &[ENCODER, NORMS_BEFORE, HEADS])
    },
];
