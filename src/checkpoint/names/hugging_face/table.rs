//! Names in transformers and in T5X.

use crate::names::Axes;

/// Transformers' name of the relative position bias of a block; T5X has it for the whole stack or
/// for a layer.
pub(super) const BIAS: &str = "relative_attention_bias.weight";

/// T5X's name of the relative position bias.
pub(super) const REL_EMBEDDING: &str = "relpos_bias/rel_embedding";

/// Transformers' names of attention blocks, with T5X's names.
const ATTENTIONS: [(&str, &str); 5] = [
    ("encoder.block.#.layer.0.SelfAttention", "encoder/layers_#/attention"),
    ("encoder.block.#.layer.0.LocalSelfAttention", "encoder/layers_#/attention"),
    ("encoder.block.#.layer.0.TransientGlobalSelfAttention", "encoder/layers_#/attention"),
    ("decoder.block.#.layer.0.SelfAttention", "decoder/layers_#/self_attention"),
    ("decoder.block.#.layer.1.EncDecAttention", "decoder/layers_#/encoder_decoder_attention"),
];

const PROJECTIONS: [(&str, &str); 4] = [("q", "query"), ("k", "key"), ("v", "value"), ("o", "out")];

/// Feed-forward blocks.
const MLPS: [(&str, &str); 2] = [
    ("encoder.block.#.layer.1.DenseReluDense", "encoder/layers_#/mlp"),
    ("decoder.block.#.layer.2.DenseReluDense", "decoder/layers_#/mlp"),
];

const MLP_KERNELS: [&str; 4] = ["wi", "wi_0", "wi_1", "wo"];

/// The matrix that maps to logits.
pub(super) const HEAD: &str = "lm_head.weight";

/// T5X's name of the matrix that maps to logits.
pub(super) const LOGITS: &str = "decoder/logits_dense/kernel";

/// T5X's embedding.
pub(super) const EMBEDDING: &str = "token_embedder/embedding";

/// Parameters that belong neither to attention nor to feed-forward blocks.
const OTHERS: [(&str, &str, Axes); 11] = [
    ("shared.weight", EMBEDDING, Axes::Same),
    (HEAD, LOGITS, Axes::Swapped),
    ("encoder.final_layer_norm.weight", "encoder/encoder_norm/scale", Axes::Same),
    ("decoder.final_layer_norm.weight", "decoder/decoder_norm/scale", Axes::Same),
    (
        "encoder.block.#.layer.0.layer_norm.weight",
        "encoder/layers_#/pre_attention_layer_norm/scale",
        Axes::Same,
    ),
    (
        "encoder.block.#.layer.1.layer_norm.weight",
        "encoder/layers_#/pre_mlp_layer_norm/scale",
        Axes::Same,
    ),
    (
        "decoder.block.#.layer.0.layer_norm.weight",
        "decoder/layers_#/pre_self_attention_layer_norm/scale",
        Axes::Same,
    ),
    (
        "decoder.block.#.layer.1.layer_norm.weight",
        "decoder/layers_#/pre_cross_attention_layer_norm/scale",
        Axes::Same,
    ),
    (
        "decoder.block.#.layer.2.layer_norm.weight",
        "decoder/layers_#/pre_mlp_layer_norm/scale",
        Axes::Same,
    ),
    (
        "encoder.block.#.layer.0.TransientGlobalSelfAttention.global_input_layer_norm.weight",
        "encoder/layers_#/attention/T5LayerNorm_0/scale",
        Axes::Same,
    ),
    (
        "encoder.block.#.layer.0.TransientGlobalSelfAttention.global_relative_attention_bias.weight",
        "encoder/side_relpos_bias/rel_embedding",
        Axes::Swapped,
    ),
];

/// Names under which transformers store copies of the embedding.
pub(super) const EMBEDDINGS: [&str; 3] =
    ["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"];

/// Cross attention has no bias, but the first published models contain one: transformers drop it too.
pub(super) const DROPPED: &str =
    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";

/// Transformers' names with T5X's, both with `#` for the number of the layer, and the axes.
pub(super) fn table() -> Vec<(String, String, Axes)> {
    let mut table: Vec<_> =
        OTHERS.iter().map(|(hf, t5x, axes)| (hf.to_string(), t5x.to_string(), *axes)).collect();
    for (hf, t5x) in ATTENTIONS {
        let kernel = |(q, query): (&str, &str)| {
            (format!("{hf}.{q}.weight"), format!("{t5x}/{query}/kernel"), Axes::Swapped)
        };
        table.extend(PROJECTIONS.map(kernel));
    }
    for (hf, t5x) in MLPS {
        let kernel = |wi: &str| (format!("{hf}.{wi}.weight"), format!("{t5x}/{wi}/kernel"));
        table.extend(MLP_KERNELS.map(kernel).map(|(hf, t5x)| (hf, t5x, Axes::Swapped)));
    }
    table
}
