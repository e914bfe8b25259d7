//! The names of T5, mT5, umT5, ByT5 and LongT5 in transformers. umT5 has a relative bias in every layer, the others one in the
//! first layer for all.

use crate::checkpoint::{Axes, ModuleNames, NameTable, ParameterKind};

const KERNEL: ParameterKind = ParameterKind::KERNEL;

/// The scale of a norm, which transformers' T5 calls a weight in Flax too.
const SCALE: ParameterKind =
    ParameterKind { torch: "weight", flax: "weight", t5x: "scale", axes: Axes::Same };

/// A relative bias: `[buckets, heads]`, in T5X `[heads, buckets]`.
const BIAS: ParameterKind =
    ParameterKind { torch: "weight", flax: "embedding", t5x: "rel_embedding", axes: Axes::Swapped };

/// The bias of a projection.
const ADDEND: ParameterKind =
    ParameterKind { torch: "bias", flax: "bias", t5x: "bias", axes: Axes::Same };

const PROJECTIONS: &[(&str, &str, ParameterKind)] =
    &[("q", "query", KERNEL), ("k", "key", KERNEL), ("v", "value", KERNEL), ("o", "out", KERNEL)];

/// Kernels of t5-experiments' heads whose queries depend on the row.
const CDQ: &[(&str, &str, ParameterKind)] = &[
    ("W_t", "cdq_transform", KERNEL),
    ("T", "cdq_scores", KERNEL),
    ("cd_w", "cdq_mix", KERNEL),
    ("cd_q", "cdq_query", KERNEL),
];

/// Memory tokens of t5-experiments: `[tokens, width]`.
const MEMORY: ParameterKind = ParameterKind {
    torch: "memory_tokens",
    flax: "memory_tokens",
    t5x: "embedding",
    axes: Axes::Same,
};

const MLP: &[(&str, &str, ParameterKind)] = &[
    ("wi", "wi", KERNEL),
    ("wi_0", "wi_0", KERNEL),
    ("wi_1", "wi_1", KERNEL),
    ("wo", "wo", KERNEL),
];

const RELATIVE: &[(&str, &str, ParameterKind)] =
    &[("relative_attention_bias", "relpos_bias", BIAS)];

/// The modules of every model.
const EVERY: &[ModuleNames] = &[
    (
        "",
        "",
        &[
            ("shared", "token_embedder", ParameterKind::EMBEDDING),
            ("lm_head", "decoder/logits_dense", KERNEL),
        ],
    ),
    ("", "encoder", &[("", "memory_tokens", MEMORY)]),
    (
        "classification_head",
        "",
        &[
            ("dense", "pooler", KERNEL),
            ("dense", "pooler", ADDEND),
            ("out_proj", "classifier", KERNEL),
            ("out_proj", "classifier", ADDEND),
        ],
    ),
    ("encoder", "encoder", &[("final_layer_norm", "encoder_norm", SCALE)]),
    ("decoder", "decoder", &[("final_layer_norm", "decoder_norm", SCALE)]),
    (
        "encoder.block.#",
        "encoder/layers_#",
        &[
            ("layer.0.layer_norm", "pre_attention_layer_norm", SCALE),
            ("layer.1.layer_norm", "pre_mlp_layer_norm", SCALE),
        ],
    ),
    (
        "decoder.block.#",
        "decoder/layers_#",
        &[
            ("layer.0.layer_norm", "pre_self_attention_layer_norm", SCALE),
            ("layer.1.layer_norm", "pre_cross_attention_layer_norm", SCALE),
            ("layer.2.layer_norm", "pre_mlp_layer_norm", SCALE),
        ],
    ),
    ("encoder.block.#.layer.1.DenseReluDense", "encoder/layers_#/mlp", MLP),
    ("decoder.block.#.layer.2.DenseReluDense", "decoder/layers_#/mlp", MLP),
    ("decoder.block.#.layer.0.SelfAttention", "decoder/layers_#/self_attention", PROJECTIONS),
    (
        "decoder.block.#.layer.1.EncDecAttention",
        "decoder/layers_#/encoder_decoder_attention",
        PROJECTIONS,
    ),
];

const DECODER_BIAS: ModuleNames = ("decoder.block.0.layer.0.SelfAttention", "decoder", RELATIVE);

const FULL: &[ModuleNames] = &[
    ("encoder.block.#.layer.0.SelfAttention", "encoder/layers_#/attention", PROJECTIONS),
    ("encoder.block.#.layer.0.SelfAttention", "encoder/layers_#/attention", CDQ),
];

const BIAS_OF_STACK: &[ModuleNames] =
    &[("encoder.block.0.layer.0.SelfAttention", "encoder", RELATIVE), DECODER_BIAS];

const BIAS_OF_LAYER: &[ModuleNames] = &[
    ("encoder.block.#.layer.0.SelfAttention", "encoder/layers_#", RELATIVE),
    ("decoder.block.#.layer.0.SelfAttention", "decoder/layers_#", RELATIVE),
];

/// LongT5's attention in windows.
const LOCAL: &[ModuleNames] = &[
    ("encoder.block.#.layer.0.LocalSelfAttention", "encoder/layers_#/attention", PROJECTIONS),
    ("encoder.block.0.layer.0.LocalSelfAttention", "encoder", RELATIVE),
    DECODER_BIAS,
];

/// LongT5's attention in windows and to global tokens computed on the fly.
const TRANSIENT_GLOBAL: &[ModuleNames] = &[
    (
        "encoder.block.#.layer.0.TransientGlobalSelfAttention",
        "encoder/layers_#/attention",
        PROJECTIONS,
    ),
    (
        "encoder.block.#.layer.0.TransientGlobalSelfAttention",
        "encoder/layers_#/attention",
        &[("global_input_layer_norm", "T5LayerNorm_0", SCALE)],
    ),
    ("encoder.block.0.layer.0.TransientGlobalSelfAttention", "encoder", RELATIVE),
    (
        "encoder.block.0.layer.0.TransientGlobalSelfAttention",
        "encoder",
        &[("global_relative_attention_bias", "side_relpos_bias", BIAS)],
    ),
    DECODER_BIAS,
];

/// Names under which transformers store copies of the embedding.
const EMBEDDING: &[&str] =
    &["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"];

/// Names under which t5-experiments stores copies of its memory tokens.
const MEMORY_TOKENS: &[&str] = &["memory_tokens", "encoder.memory_tokens"];

const fn table(
    model_type: &'static str,
    class: &'static str,
    modules: &'static [&'static [ModuleNames]],
) -> NameTable {
    NameTable {
        model_type,
        class,
        modules,
        copies: &[EMBEDDING, MEMORY_TOKENS],
        head: Some(("lm_head.weight", EMBEDDING)),
        stated_by: None,
        // Cross attention has no bias, but the first published models contain one: transformers drop it too.
        dropped: &["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"],
    }
}

/// The models for which transformers has a class.
pub const TABLES: &[NameTable] = &[
    table("t5", "T5ForConditionalGeneration", &[EVERY, FULL, BIAS_OF_STACK]),
    table("mt5", "MT5ForConditionalGeneration", &[EVERY, FULL, BIAS_OF_STACK]),
    table("umt5", "UMT5ForConditionalGeneration", &[EVERY, FULL, BIAS_OF_LAYER]),
    table("longt5", "LongT5ForConditionalGeneration", &[EVERY, LOCAL]),
    table("longt5", "LongT5ForConditionalGeneration", &[EVERY, TRANSIENT_GLOBAL]),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_name_stands_twice_in_a_table() {
        for table in TABLES {
            let modules = table.modules.iter().copied().flatten();
            let names = modules.flat_map(|(torch, t5x, parameters)| {
                parameters.iter().map(move |(name, own, kind)| {
                    let torch = format!("{torch}.{name}.{}", kind.torch);
                    (torch, format!("{t5x}/{own}/{}", kind.t5x))
                })
            });
            let (torch, t5x): (Vec<_>, Vec<_>) = names.unzip();
            for names in [torch, t5x] {
                assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
            }
        }
    }
}
