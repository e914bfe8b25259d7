//! Dimensions of a T5 as gin binds them, and the network that they describe.

use crate::gin::Configurable;
use crate::models::transformer::{AttentionSpec, LayerDims, StackSpec, TransformerSpec};
use crate::nn::{
    Activation, Dtype, ParamSpec, RelativePosition, RematPolicy, TransformerEngineConfig,
};

/// Dimensions and variants of a T5 encoder-decoder. Source: T5X `examples/t5/network.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.examples.t5.network.T5Config",
    alias = "t5x.contrib.gpu.t5.network.T5Config",
    ignored(
        transpose_batch_sequence = "it is about speed in NVIDIA's branch of T5X only",
        fuse_qkv_params = "projections are joined in memory, and checkpoints keep T5X's names"
    )
)]
pub struct T5Config {
    /// Rows of the token embedding; at least the vocabulary's size, often padded to a multiple of 128.
    pub vocab_size: usize,
    /// Format of activations; parameters stay float32.
    #[gin(default = Dtype::Float32)]
    pub dtype: Dtype,
    /// Width of the residual stream (papers: d_model).
    #[gin(default = 512)]
    pub emb_dim: usize,
    /// Attention heads.
    #[gin(default = 8)]
    pub num_heads: usize,
    /// Encoder layers.
    #[gin(default = 6)]
    pub num_encoder_layers: usize,
    /// Decoder layers.
    #[gin(default = 6)]
    pub num_decoder_layers: usize,
    /// Width of one attention head.
    #[gin(default = 64)]
    pub head_dim: usize,
    /// Width between the two projections of the feed-forward block (papers: d_ff).
    #[gin(default = 2048)]
    pub mlp_dim: usize,
    /// One activation per input projection; their results are multiplied (`('gelu', 'linear')` is gated GELU).
    #[gin(default = vec![Activation::Relu])]
    pub mlp_activations: Vec<Activation>,
    /// Probability that an activation is dropped in training.
    #[gin(default = 0.1)]
    pub dropout_rate: f64,
    /// Whether the embedding also maps to logits (T5 1.0), instead of a matrix of its own (1.1).
    #[gin(default = false)]
    pub logits_via_embedding: bool,
    /// Whether attention scores are computed in float32, for any `dtype`.
    #[gin(default = false)]
    pub float32_attention_logits: bool,
    /// Whether attention scores are divided by sqrt(head_dim), for optimizers whose steps do not depend on a
    /// parameter's scale, such as AdamW. The query's first values are as small either way. Source: T5X
    /// `contrib/gpu/t5/layers.py`.
    #[gin(default = false)]
    pub scale_attn_logits: bool,
    /// The tensors that each layer keeps for its backward pass: less memory for more computing.
    #[gin(default = RematPolicy::None)]
    pub remat_policy: RematPolicy,
    /// Whether projections compute in 8-bit floats, except those to logits and those of a decoder
    /// that predicts step by step. With it, a remat_policy of 'minimal' is 'full'. None means no.
    #[gin(default = None)]
    pub fp8: Option<TransformerEngineConfig>,
}

/// The T5 network. Source: T5X `examples/t5/network.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.examples.t5.network.Transformer",
    alias = "t5x.contrib.gpu.t5.network.Transformer"
)]
pub struct Transformer {
    /// Its dimensions.
    pub config: T5Config,
}

impl T5Config {
    /// T5 1.1 small in float32 and without dropout, as a base for tests and benchmarks. Source: T5X
    /// `examples/t5/t5_1_1/small.gin`.
    pub fn t5_1_1_small() -> Self {
        Self {
            vocab_size: 32128,
            dtype: Dtype::Float32,
            emb_dim: 512,
            num_heads: 6,
            num_encoder_layers: 8,
            num_decoder_layers: 8,
            head_dim: 64,
            mlp_dim: 1024,
            mlp_activations: vec![Activation::Gelu, Activation::Linear],
            dropout_rate: 0.0,
            logits_via_embedding: false,
            float32_attention_logits: false,
            scale_attn_logits: false,
            remat_policy: RematPolicy::None,
            fp8: None,
        }
    }

    /// The network of these dimensions.
    pub fn transformer(&self) -> TransformerSpec {
        let dims = LayerDims {
            dtype: self.dtype,
            emb_dim: self.emb_dim,
            num_heads: self.num_heads,
            head_dim: self.head_dim,
            mlp_dim: self.mlp_dim,
            mlp_activations: self.mlp_activations.clone(),
            float32_attention_logits: self.float32_attention_logits,
            scale_attn_logits: self.scale_attn_logits,
            remat_policy: self.remat_policy,
        };
        let encoder = StackSpec {
            name: "encoder",
            num_layers: self.num_encoder_layers,
            attentions: &ENCODER,
            direction: RelativePosition::Bidirectional,
            shares_last_dropout: false,
            dims: dims.clone(),
        };
        let decoder = StackSpec {
            name: "decoder",
            num_layers: self.num_decoder_layers,
            attentions: &DECODER,
            direction: RelativePosition::Causal,
            shares_last_dropout: true,
            dims,
        };
        TransformerSpec {
            embedding: "token_embedder",
            vocab_size: self.vocab_size,
            logits_via_embedding: self.logits_via_embedding,
            encoder: Some(encoder),
            decoder,
            dropout_rate: self.dropout_rate,
            fp8: self.fp8.clone(),
        }
    }

    /// Every parameter, sorted by name as flax sorts them.
    pub fn param_tree(&self) -> Vec<ParamSpec> {
        self.transformer().param_tree()
    }
}

/// The attention of an encoder's layer.
const ENCODER: [AttentionSpec; 1] =
    [AttentionSpec { norm: "pre_attention_layer_norm", name: "attention", reads_encoding: false }];

/// The attentions of a decoder's layer.
const DECODER: [AttentionSpec; 2] = [
    AttentionSpec {
        norm: "pre_self_attention_layer_norm",
        name: "self_attention",
        reads_encoding: false,
    },
    AttentionSpec {
        norm: "pre_cross_attention_layer_norm",
        name: "encoder_decoder_attention",
        reads_encoding: true,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_sizes_have_their_published_number_of_parameters() {
        assert_eq!(T5Config::t5_1_1_small().transformer().num_params(), 76_961_152);
        let base_1_0 = T5Config {
            emb_dim: 768,
            num_heads: 12,
            num_encoder_layers: 12,
            num_decoder_layers: 12,
            mlp_dim: 3072,
            mlp_activations: vec![Activation::Relu],
            logits_via_embedding: true,
            ..T5Config::t5_1_1_small()
        };
        assert_eq!(base_1_0.transformer().num_params(), 222_903_552);
    }

    #[test]
    fn the_tree_is_sorted_as_nested_dicts_are() {
        let config = T5Config { num_encoder_layers: 11, ..T5Config::t5_1_1_small() };
        let names: Vec<String> = config.param_tree().into_iter().map(|p| p.name).collect();
        let mut nested = names.clone();
        nested.sort_by_key(|name| name.split('/').map(str::to_string).collect::<Vec<_>>());
        assert_eq!(names, nested);
    }

    #[test]
    fn a_single_activation_has_an_unnumbered_projection() {
        let config =
            T5Config { mlp_activations: vec![Activation::Relu], ..T5Config::t5_1_1_small() };
        let tree = config.param_tree();
        assert!(tree.iter().any(|p| p.name == "encoder/layers_0/mlp/wi/kernel"));
        assert!(!tree.iter().any(|p| p.name.contains("wi_0")));
    }
}
