//! Dimensions of a decoder as gin binds them, and the network that they describe.

use crate::gin::Configurable;
use crate::models::parts::{RelativeBias, TokenEmbedding};
use crate::models::t5::T5Config;
use crate::models::t5::spec::DECODER;
use crate::models::transformer::{StackSpec, TransformerSpec};
use crate::nn::{Activation, Dtype, RelativePosition};

/// Dimensions and variants of a decoder. Source: T5X `examples/decoder_only/network.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.examples.decoder_only.network.TransformerConfig")]
pub struct TransformerConfig {
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
    /// Layers.
    #[gin(default = 6)]
    pub num_layers: usize,
    /// Width of one attention head.
    #[gin(default = 64)]
    pub head_dim: usize,
    /// Width between the two projections of the feed-forward block (papers: d_ff).
    #[gin(default = 2048)]
    pub mlp_dim: usize,
    /// One activation per input projection; their results are multiplied (`('gelu', 'linear')` is gated GELU).
    #[gin(default = vec![Activation::Relu])]
    pub mlp_activations: Vec<Activation>,
    /// Width of a task adapter at the end of each layer, as `network.T5Config` has; None means no adapters.
    #[gin(default = None)]
    pub adapter_dim: Option<usize>,
    /// Whether keys after a query have buckets of relative position of their own. They matter where inputs attend to each
    /// other; T5X's decoder has none, Mesh TensorFlow's does with `input_full_attention`.
    #[gin(default = false)]
    pub bidirectional_position_buckets: bool,
    /// Probability that an activation is dropped in training.
    #[gin(default = 0.1, limit = BelowOne)]
    pub dropout_rate: f64,
    /// Whether the first values of feed-forward and logits kernels have the deviation of an uncut Gaussian, as in jax;
    /// Mesh TensorFlow's do not.
    #[gin(default = true)]
    pub correct_truncation: bool,
    /// Whether attention scores are computed in float32, for any `dtype`.
    #[gin(default = false)]
    pub float32_attention_logits: bool,
    /// Whether the embedding also maps to logits, instead of a matrix of its own.
    #[gin(default = false)]
    pub logits_via_embedding: bool,
}

/// The network under the name `decoder`. Source: T5X `examples/decoder_only/network.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.examples.decoder_only.network.DecoderWrapper")]
pub struct DecoderWrapper {
    /// Its dimensions.
    pub config: TransformerConfig,
}

impl TransformerConfig {
    /// The network of these dimensions: T5's decoder without attention to an encoding.
    pub fn transformer(&self) -> TransformerSpec {
        let t5 = T5Config {
            vocab_size: self.vocab_size,
            dtype: self.dtype,
            emb_dim: self.emb_dim,
            num_heads: self.num_heads,
            num_decoder_layers: self.num_layers,
            head_dim: self.head_dim,
            mlp_dim: self.mlp_dim,
            mlp_activations: self.mlp_activations.clone(),
            adapter_dim: self.adapter_dim,
            dropout_rate: self.dropout_rate,
            correct_truncation: self.correct_truncation,
            logits_via_embedding: self.logits_via_embedding,
            float32_attention_logits: self.float32_attention_logits,
            ..T5Config::t5_1_1_small()
        }
        .transformer();
        let direction = match self.bidirectional_position_buckets {
            true => RelativePosition::Bidirectional,
            false => RelativePosition::Causal,
        };
        let position = Some(RelativeBias::t5(direction));
        let last = StackSpec { attentions: &DECODER[..1], position, ..t5.last };
        let tokens = TokenEmbedding { path: "decoder/token_embedder", ..t5.tokens };
        TransformerSpec { tokens, encoder: None, last, ..t5 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_size_has_the_parameters_that_are_counted_by_hand() {
        let config = TransformerConfig {
            vocab_size: 32128,
            dtype: Dtype::Bfloat16,
            emb_dim: 768,
            num_heads: 12,
            num_layers: 12,
            head_dim: 64,
            mlp_dim: 2048,
            mlp_activations: vec![Activation::Gelu, Activation::Linear],
            adapter_dim: None,
            bidirectional_position_buckets: false,
            dropout_rate: 0.0,
            correct_truncation: true,
            float32_attention_logits: false,
            logits_via_embedding: true,
        };
        // Four projections of all heads, three of the feed-forward block, two norms.
        let layer = 4 * 768 * 768 + 3 * 768 * 2048 + 2 * 768;
        let ends = 32128 * 768 + 12 * 32 + 768;
        assert_eq!(config.transformer().num_params(), 12 * layer + ends);
    }
}
