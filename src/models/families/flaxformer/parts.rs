//! The parts of a network, as all its modules name them together: the form in which they are compared and described.

use super::attention::{AttentionParameters, MultiHeadAttention};
use super::components::{
    BiasParameters, Dropout, Embed, InitFn, RelativePositionBiases, T5LayerNorm,
};
use super::dense::{DenseGeneral, MlpBlock};
use super::long_attention::{LongAttention, RelativePositionBiasesGeneral};
use super::long_stacks::LongEncoder;
use super::moe::{
    MoeLayer, SparseDecoder, SparseEncoder, SparseLayerParameters, SparseStackParameters,
};
use super::prompt::{PromptEncoderDecoder, TrainPrompt};
use super::stacks::{
    Decoder, DecoderFactory, DecoderLayer, Encoder, EncoderFactory, StackParameters,
};
use crate::models::parts::Reach;
use crate::nn::Dtype;

/// A network.
pub(super) struct NetworkParts<'a> {
    pub embed: Option<&'a Embed>,
    /// `None` for a decoder alone.
    pub encoder: Option<StackParts<'a>>,
    pub decoder: StackParts<'a>,
    pub logits: Option<&'a DenseGeneral>,
    /// The network whose encoder has a prompt, if it is one.
    pub prompted: Option<&'a PromptEncoderDecoder>,
}

/// A stack.
pub(super) struct StackParts<'a> {
    /// The configurable: `Encoder`.
    pub name: &'static str,
    pub stack: &'a StackParameters,
    /// Dropouts whose masks positions share.
    pub dropouts: Vec<&'a Dropout>,
    /// Dropout of the stack's result.
    pub last_dropout: &'a Dropout,
    pub norms: Vec<&'a T5LayerNorm>,
    /// Attentions of a layer, with their parameters' names.
    pub attentions: Vec<(&'static str, AttentionParts<'a>)>,
    pub mlp: &'a MlpBlock,
    pub shared_bias: Option<BiasParts<'a>>,
    pub own_bias: Option<BiasParts<'a>>,
    pub sparse: Option<SparseParts<'a>>,
    /// The bias of tokens beside the sequence.
    pub side_bias: Option<BiasParts<'a>>,
    pub reach: Reach,
    pub own_embed: Option<&'a Embed>,
    /// Whether its layers read an encoding.
    pub reads_encoding: bool,
    /// The prompt of each layer.
    pub layer_prompt: Option<&'a TrainPrompt>,
}

/// The layers of a stack with experts.
pub(super) struct SparseParts<'a> {
    pub stack: &'a SparseStackParameters,
    pub layer: &'a SparseLayerParameters,
    pub mlp: &'a MoeLayer,
}

/// An attention.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct AttentionParts<'a> {
    /// The configurable.
    pub name: &'static str,
    pub q_kernel_init: &'a InitFn,
    pub parameters: &'a AttentionParameters,
    /// The formats of learned factors of keys and of values, if there are some.
    pub scales: [Option<Dtype>; 2],
}

/// A bias of relative position.
#[derive(Clone, Copy)]
pub(super) struct BiasParts<'a> {
    /// The configurable.
    pub name: &'static str,
    pub parameters: &'a BiasParameters,
}

impl LongEncoder {
    pub(super) fn parts(&self) -> StackParts<'_> {
        let layer = &self.layer_factory.0;
        let (attention, reach) = match &layer.attention_factory.0 {
            LongAttention::Local(local) => {
                let parts = local.attention.parts("long_attention.EncoderLocalSelfAttention");
                (parts, Reach::Local { radius: local.local_radius })
            }
            LongAttention::TransientGlobal(global) => {
                let name = "long_attention.EtcTransientGlobalSelfAttention";
                let (radius, tokens_per_block) = (global.local_radius, global.tokens_per_block);
                (global.attention.parts(name), Reach::TransientGlobal { radius, tokens_per_block })
            }
        };
        StackParts {
            name: "longt5_architecture.LongEncoder",
            stack: &self.stack,
            dropouts: vec![&self.input_dropout_factory, &layer.layer.dropout_factory],
            last_dropout: &self.output_dropout_factory,
            norms: vec![&self.stack.layer_norm_factory, &layer.layer.layer_norm_factory],
            own_embed: None,
            reads_encoding: false,
            layer_prompt: None,
            sparse: None,
            attentions: vec![("LongEncoderLayer.attention_factory", attention)],
            mlp: &layer.mlp,
            shared_bias: general_bias_of(self.shared_relpos_bias_factory.as_deref()),
            own_bias: None,
            side_bias: general_bias_of(self.shared_side_relpos_bias_factory.as_deref()),
            reach,
        }
    }
}

impl AttentionParameters {
    /// The attention of the configurable `name`, all of whose kernels begin alike.
    fn parts(&self, name: &'static str) -> AttentionParts<'_> {
        AttentionParts {
            name,
            q_kernel_init: &self.kernel_init,
            parameters: self,
            scales: [None; 2],
        }
    }
}

fn general_bias_of(biases: Option<&RelativePositionBiasesGeneral>) -> Option<BiasParts<'_>> {
    let name = "relative_position_biases_general.RelativePositionBiasesGeneral";
    biases.map(|biases| BiasParts { name, parameters: &biases.bias })
}

impl Encoder {
    pub(super) fn parts(&self) -> StackParts<'_> {
        let layer = self.layer_factory.layer();
        StackParts {
            name: "t5_architecture.Encoder",
            stack: &self.stack,
            dropouts: vec![&self.input_dropout_factory, &layer.layer.dropout_factory],
            last_dropout: &self.output_dropout_factory,
            norms: vec![&self.stack.layer_norm_factory, &layer.layer.layer_norm_factory],
            attentions: vec![("EncoderLayer.attention", layer.attention.parts())],
            own_embed: None,
            reads_encoding: false,
            layer_prompt: self.layer_factory.prompt(),
            mlp: &layer.mlp,
            shared_bias: bias_of(self.shared_relative_position_bias_factory.as_deref()),
            own_bias: bias_of(layer.relative_position_bias_factory.as_deref()),
            sparse: None,
            side_bias: None,
            reach: Reach::All,
        }
    }
}

impl Decoder {
    pub(super) fn parts(&self) -> StackParts<'_> {
        let layer = &self.layer_factory.0;
        StackParts {
            name: "t5_architecture.Decoder",
            stack: &self.stack,
            dropouts: vec![&self.dropout_factory, &layer.layer.dropout_factory],
            last_dropout: &self.dropout_factory,
            norms: vec![&self.stack.layer_norm_factory, &layer.layer.layer_norm_factory],
            attentions: attentions_of(layer),
            own_embed: self.token_embedder_factory.as_deref(),
            reads_encoding: layer.encoder_decoder_attention.is_some(),
            layer_prompt: None,
            mlp: &layer.mlp,
            shared_bias: bias_of(self.shared_relative_position_bias_factory.as_deref()),
            own_bias: bias_of(layer.relative_position_bias_factory.as_deref()),
            side_bias: None,
            reach: Reach::All,
            sparse: None,
        }
    }
}

impl SparseEncoder {
    fn parts(&self) -> StackParts<'_> {
        let layer = &self.sparse_layer_factory.0;
        let sparse = SparseParts { stack: &self.sparse, layer: &layer.sparse, mlp: &layer.mlp };
        let mut parts = self.encoder.parts().with_experts("moe_architecture.SparseEncoder", sparse);
        parts.attentions.push(("SparseEncoderLayer.attention", layer.attention.parts()));
        parts
    }
}

impl SparseDecoder {
    fn parts(&self) -> StackParts<'_> {
        let layer = &self.sparse_layer_factory.0;
        let sparse = SparseParts { stack: &self.sparse, layer: &layer.sparse, mlp: &layer.mlp };
        let mut parts = self.decoder.parts().with_experts("moe_architecture.SparseDecoder", sparse);
        let own = [("SparseDecoderLayer.self_attention", layer.self_attention.parts())];
        let cross = layer.encoder_decoder_attention.as_ref();
        let cross = cross
            .map(|attention| ("SparseDecoderLayer.encoder_decoder_attention", attention.parts()));
        parts.reads_encoding |= cross.is_some();
        parts.attentions.extend(own.into_iter().chain(cross));
        parts
    }
}

/// The attentions of a layer of a decoder.
fn attentions_of(layer: &DecoderLayer) -> Vec<(&'static str, AttentionParts<'_>)> {
    let own = [("DecoderLayer.self_attention", layer.self_attention.parts())];
    let cross = layer.encoder_decoder_attention.as_ref();
    let cross =
        cross.map(|attention| ("DecoderLayer.encoder_decoder_attention", attention.parts()));
    own.into_iter().chain(cross).collect()
}

impl EncoderFactory {
    pub(super) fn parts(&self) -> StackParts<'_> {
        match self {
            Self::Dense(encoder) => encoder.parts(),
            Self::Sparse(encoder) => encoder.parts(),
        }
    }
}

impl DecoderFactory {
    pub(super) fn parts(&self) -> StackParts<'_> {
        match self {
            Self::Dense(decoder) => decoder.parts(),
            Self::Sparse(decoder) => decoder.parts(),
        }
    }

    pub(super) fn logits(&self) -> Option<&DenseGeneral> {
        match self {
            Self::Dense(decoder) => decoder.output_logits_factory.as_deref(),
            Self::Sparse(sparse) => sparse.decoder.output_logits_factory.as_deref(),
        }
    }
}

impl MultiHeadAttention {
    fn parts(&self) -> AttentionParts<'_> {
        let parts = self.attention.parts("dense_attention.MultiHeadDotProductAttention");
        let q_kernel_init = self.q_kernel_init.as_ref().unwrap_or(parts.q_kernel_init);
        let scales = [&self.k_conv, &self.v_conv].map(|conv| conv.as_ref().map(|ia3| ia3.dtype));
        AttentionParts { q_kernel_init, scales, ..parts }
    }
}

fn bias_of(biases: Option<&RelativePositionBiases>) -> Option<BiasParts<'_>> {
    let name = "relative_position_biases.RelativePositionBiases";
    biases.map(|biases| BiasParts { name, parameters: &biases.bias })
}

impl<'a> NetworkParts<'a> {
    pub fn stacks(&self) -> impl Iterator<Item = &StackParts<'a>> {
        self.encoder.iter().chain([&self.decoder])
    }
}

impl<'a> StackParts<'a> {
    /// The same stack with the layers `sparse`, as the configurable `name` has it.
    fn with_experts(mut self, name: &'static str, sparse: SparseParts<'a>) -> Self {
        self.dropouts.push(&sparse.layer.layer.dropout_factory);
        self.norms.push(&sparse.layer.layer.layer_norm_factory);
        Self { name, sparse: Some(sparse), ..self }
    }

    /// The attention, whose dimensions all of a layer share.
    pub fn attention(&self) -> &AttentionParts<'a> {
        &self.attentions[0].1
    }

    /// The feed-forward blocks without experts.
    pub fn mlps(&self) -> impl Iterator<Item = &'a MlpBlock> {
        let extra = self.sparse.as_ref().and_then(|sparse| sparse.layer.extra_mlp.as_ref());
        [self.mlp].into_iter().chain(extra)
    }

    /// The bias of relative position, of all layers or of each.
    pub fn bias(&self) -> Option<BiasParts<'a>> {
        self.shared_bias.or(self.own_bias)
    }
}

impl AttentionParts<'_> {
    /// Width of one head, in a stream of that width.
    pub fn head_dim(&self, emb_dim: usize) -> usize {
        let shared =
            || self.parameters.qkv_features.unwrap_or(emb_dim) / self.parameters.num_heads.max(1);
        self.parameters.head_dim.unwrap_or_else(shared)
    }
}
