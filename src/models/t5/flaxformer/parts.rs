//! The parts of a network, as all its modules name them together: the form in which they are compared and described.

use super::attention::MultiHeadAttention;
use super::components::{Dropout, Embed, InitFn, RelativePositionBiases, T5LayerNorm};
use super::dense::{DenseGeneral, MlpBlock};
use super::stacks::{Decoder, Encoder, EncoderDecoder, LayerRemat};
use crate::nn::Dtype;

/// A network.
pub(super) struct NetworkParts<'a> {
    pub embed: Option<&'a Embed>,
    pub encoder: StackParts<'a>,
    pub decoder: StackParts<'a>,
    pub logits: Option<&'a DenseGeneral>,
}

/// A stack.
pub(super) struct StackParts<'a> {
    /// The configurable: `Encoder`.
    pub name: &'static str,
    pub num_layers: usize,
    pub dtype: Dtype,
    pub layer_remat: LayerRemat,
    /// Dropouts whose masks positions share.
    pub dropouts: Vec<&'a Dropout>,
    /// Dropout of the stack's result.
    pub last_dropout: &'a Dropout,
    pub norms: [&'a T5LayerNorm; 2],
    /// Attentions of a layer, with their parameters' names.
    pub attentions: Vec<(&'static str, AttentionParts<'a>)>,
    pub mlp: &'a MlpBlock,
    pub shared_bias: Option<BiasParts<'a>>,
    pub own_bias: Option<BiasParts<'a>>,
}

/// An attention.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct AttentionParts<'a> {
    /// The configurable.
    pub name: &'static str,
    pub num_heads: usize,
    pub dtype: Dtype,
    pub qkv_features: Option<usize>,
    pub head_dim: Option<usize>,
    pub dropout_rate: f64,
    pub kernel_init: &'a InitFn,
    pub q_kernel_init: &'a InitFn,
    pub rescale_logits: bool,
    pub float32_logits: bool,
    pub split_head_kernel: bool,
}

/// A bias of relative position.
#[derive(Clone, Copy)]
pub(super) struct BiasParts<'a> {
    /// The configurable.
    pub name: &'static str,
    pub num_heads: usize,
    pub dtype: Dtype,
    pub embedding_init: &'a InitFn,
}

impl EncoderDecoder {
    pub(super) fn parts(&self) -> NetworkParts<'_> {
        NetworkParts {
            embed: self.shared_token_embedder_factory.as_deref(),
            encoder: self.encoder_factory.parts(),
            decoder: self.decoder_factory.parts(),
            logits: self.decoder_factory.output_logits_factory.as_deref(),
        }
    }
}

impl Encoder {
    fn parts(&self) -> StackParts<'_> {
        let layer = &self.layer_factory.0;
        StackParts {
            name: "t5_architecture.Encoder",
            num_layers: self.num_layers,
            dtype: self.dtype,
            layer_remat: self.layer_remat,
            dropouts: vec![&self.input_dropout_factory, &layer.dropout_factory],
            last_dropout: &self.output_dropout_factory,
            norms: [&self.layer_norm_factory, &layer.layer_norm_factory],
            attentions: vec![("EncoderLayer.attention", layer.attention.parts())],
            mlp: &layer.mlp,
            shared_bias: bias_of(self.shared_relative_position_bias_factory.as_deref()),
            own_bias: bias_of(layer.relative_position_bias_factory.as_deref()),
        }
    }
}

impl Decoder {
    pub(super) fn parts(&self) -> StackParts<'_> {
        let layer = &self.layer_factory.0;
        StackParts {
            name: "t5_architecture.Decoder",
            num_layers: self.num_layers,
            dtype: self.dtype,
            layer_remat: self.layer_remat,
            dropouts: vec![&self.dropout_factory, &layer.dropout_factory],
            last_dropout: &self.dropout_factory,
            norms: [&self.layer_norm_factory, &layer.layer_norm_factory],
            attentions: vec![
                ("DecoderLayer.self_attention", layer.self_attention.parts()),
                ("DecoderLayer.encoder_decoder_attention", layer.encoder_decoder_attention.parts()),
            ],
            mlp: &layer.mlp,
            shared_bias: bias_of(self.shared_relative_position_bias_factory.as_deref()),
            own_bias: bias_of(layer.relative_position_bias_factory.as_deref()),
        }
    }
}

impl MultiHeadAttention {
    fn parts(&self) -> AttentionParts<'_> {
        AttentionParts {
            name: "dense_attention.MultiHeadDotProductAttention",
            num_heads: self.num_heads,
            dtype: self.dtype,
            qkv_features: self.qkv_features,
            head_dim: self.head_dim,
            dropout_rate: self.dropout_rate,
            kernel_init: &self.kernel_init,
            q_kernel_init: self.q_kernel_init.as_ref().unwrap_or(&self.kernel_init),
            rescale_logits: self.rescale_logits,
            float32_logits: self.float32_logits,
            split_head_kernel: self.split_head_kernel,
        }
    }
}

fn bias_of(biases: Option<&RelativePositionBiases>) -> Option<BiasParts<'_>> {
    biases.map(|biases| BiasParts {
        name: "relative_position_biases.RelativePositionBiases",
        num_heads: biases.num_heads,
        dtype: biases.dtype,
        embedding_init: &biases.embedding_init,
    })
}

impl<'a> NetworkParts<'a> {
    pub fn stacks(&self) -> [&StackParts<'a>; 2] {
        [&self.encoder, &self.decoder]
    }
}

impl<'a> StackParts<'a> {
    /// The attention, whose dimensions all of a layer share.
    pub fn attention(&self) -> &AttentionParts<'a> {
        &self.attentions[0].1
    }

    /// The bias of relative position, of all layers or of each.
    pub fn bias(&self) -> Option<BiasParts<'a>> {
        self.shared_bias.or(self.own_bias)
    }
}

impl AttentionParts<'_> {
    /// Width of one head, in a stream of that width.
    pub fn head_dim(&self, emb_dim: usize) -> usize {
        let shared = || self.qkv_features.unwrap_or(emb_dim) / self.num_heads.max(1);
        self.head_dim.unwrap_or_else(shared)
    }
}
