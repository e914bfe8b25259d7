//! Layers, stacks, and the network of two stacks.

use super::attention::MultiHeadAttention;
use super::components::{Dropout, Embed, RelativePositionBiases, T5LayerNorm};
use super::dense::{DenseGeneral, MlpBlock};
use super::moe::{SparseDecoder, SparseEncoder};
use super::prompt::EncoderLayerFactory;
use super::values::{NoOwnEmbedder, NoPositionEmbedder, NoScan, NotParallel};
use crate::gin::{Configurable, Parameters, Ref};
use crate::nn::{Dtype, RematPolicy};

/// T5's network. Source: flaxformer `architectures/t5/t5_architecture.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.architectures.t5.t5_architecture.EncoderDecoder",
    ignored(dtype = "it is the format of masks; those of activations are the components'"),
    ignored(spmd_annotations = "layers have arrays of their own")
)]
pub struct EncoderDecoder {
    /// The encoder.
    #[gin(call(supplies = ["shared_token_embedder", "spmd_annotations"]))]
    pub encoder_factory: Ref<EncoderFactory>,
    /// The decoder.
    #[gin(call(supplies = ["shared_token_embedder", "spmd_annotations"]))]
    pub decoder_factory: Ref<DecoderFactory>,
    /// Only False is supported.
    #[gin(default = NoScan)]
    pub scan_layers: NoScan,
    /// The embedding of inputs and targets; it must be given.
    #[gin(default = None)]
    pub shared_token_embedder_factory: Option<Ref<Embed>>,
}

/// A decoder alone. Source: flaxformer `architectures/t5/t5_architecture.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.architectures.t5.t5_architecture.DecoderOnly",
    ignored(dtype = "it is the format of masks; those of activations are the components'")
)]
pub struct DecoderOnly {
    /// The decoder, whose layers have no attention to an encoding, and which has an embedding of its own.
    #[gin(call(supplies = ["shared_token_embedder"]))]
    pub decoder_factory: Ref<DecoderFactory>,
    /// Only False is supported.
    #[gin(default = NoScan)]
    pub scan_layers: NoScan,
}

/// Any encoder.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum EncoderFactory {
    /// T5's.
    Dense(Box<Encoder>),
    /// One with layers of experts.
    Sparse(Box<SparseEncoder>),
}

/// Any decoder.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum DecoderFactory {
    /// T5's.
    Dense(Box<Decoder>),
    /// One with layers of experts.
    Sparse(Box<SparseDecoder>),
}

impl EncoderFactory {
    /// Parameters of the stack.
    pub(super) fn stack_mut(&mut self) -> &mut StackParameters {
        match self {
            Self::Dense(encoder) => &mut encoder.stack,
            Self::Sparse(sparse) => &mut sparse.encoder.stack,
        }
    }
}

impl DecoderFactory {
    /// Parameters of the stack.
    pub(super) fn stack_mut(&mut self) -> &mut StackParameters {
        match self {
            Self::Dense(decoder) => &mut decoder.stack,
            Self::Sparse(sparse) => &mut sparse.decoder.stack,
        }
    }
}

/// Parameters of every stack. Source: flaxformer `architectures/t5/t5_architecture.py`.
#[derive(Clone, Debug, PartialEq, Parameters)]
pub struct StackParameters {
    /// The norm after the layers.
    pub layer_norm_factory: Ref<T5LayerNorm>,
    /// Number of layers.
    pub num_layers: usize,
    /// Format of activations.
    #[gin(default = Dtype::Float32)]
    pub dtype: Dtype,
    /// The tensors that each layer keeps for its backward pass: less memory for more computing.
    #[gin(default = LayerRemat::Legacy)]
    pub layer_remat: LayerRemat,
    /// Only False is supported.
    #[gin(default = NoScan)]
    pub scan_layers: NoScan,
    /// Only None is supported.
    #[gin(default = NoPositionEmbedder)]
    pub position_embedder_factory: NoPositionEmbedder,
}

/// Parameters of every layer. Source: flaxformer `architectures/t5/t5_architecture.py`.
#[derive(Clone, Debug, PartialEq, Parameters)]
pub struct LayerParameters {
    /// Dropout of the result of each.
    pub dropout_factory: Ref<Dropout>,
    /// The norm before each.
    pub layer_norm_factory: Ref<T5LayerNorm>,
    /// Only False is supported.
    #[gin(default = NotParallel)]
    pub parallel: NotParallel,
}

/// The encoder. Source: flaxformer `architectures/t5/t5_architecture.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.architectures.t5.t5_architecture.Encoder",
    ignored(shared_token_embedder = "`EncoderDecoder` gives it"),
    ignored(spmd_annotations = "layers have arrays of their own"),
    ignored(scan_axis = "layers have arrays of their own"),
    ignored(sow_intermediates = "it keeps results for inspection"),
    ignored(capture_gradients = "it keeps results for inspection")
)]
pub struct Encoder {
    /// A layer; in a stack with experts, one without.
    #[gin(call(supplies = ["shared_relative_position_bias"]))]
    pub layer_factory: Ref<EncoderLayerFactory>,
    /// Dropout of embedded tokens.
    pub input_dropout_factory: Ref<Dropout>,
    /// Dropout of the encoder's result.
    pub output_dropout_factory: Ref<Dropout>,
    /// Parameters of every stack.
    #[gin(flatten)]
    pub stack: StackParameters,
    /// The bias of relative position of all layers; None if each layer has its own.
    #[gin(default = None)]
    pub shared_relative_position_bias_factory: Option<Ref<RelativePositionBiases>>,
    /// Only None is supported.
    #[gin(default = NoOwnEmbedder)]
    pub token_embedder_factory: NoOwnEmbedder,
}

/// A layer of the encoder. Source: flaxformer `architectures/t5/t5_architecture.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.architectures.t5.t5_architecture.EncoderLayer",
    ignored(shared_relative_position_bias = "`Encoder` gives it"),
    ignored(activation_partitioning_dims = "the partitioner's rules decide"),
    ignored(sow_intermediates = "it keeps results for inspection"),
    ignored(scanned = "layers have arrays of their own")
)]
pub struct EncoderLayer {
    /// The attention.
    pub attention: MultiHeadAttention,
    /// The feed-forward block after it.
    pub mlp: MlpBlock,
    /// Parameters of every layer.
    #[gin(flatten)]
    pub layer: LayerParameters,
    /// The layer's own bias of relative position.
    #[gin(default = None)]
    pub relative_position_bias_factory: Option<Ref<RelativePositionBiases>>,
}

/// The decoder. Source: flaxformer `architectures/t5/t5_architecture.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.architectures.t5.t5_architecture.Decoder",
    ignored(shared_token_embedder = "`EncoderDecoder` gives it"),
    ignored(spmd_annotations = "layers have arrays of their own"),
    ignored(scan_axis = "layers have arrays of their own"),
    ignored(sow_intermediates = "it keeps results for inspection"),
    ignored(capture_gradients = "it keeps results for inspection")
)]
pub struct Decoder {
    /// A layer; in a stack with experts, one without.
    #[gin(call(supplies = ["shared_relative_position_bias"]))]
    pub layer_factory: Ref<DecoderLayer>,
    /// Dropout of embedded tokens and of the decoder's result.
    pub dropout_factory: Ref<Dropout>,
    /// Parameters of every stack.
    #[gin(flatten)]
    pub stack: StackParameters,
    /// The bias of relative position of all layers; None if each layer has its own.
    #[gin(default = None)]
    pub shared_relative_position_bias_factory: Option<Ref<RelativePositionBiases>>,
    /// The projection to logits (T5 1.1); None takes the embedding (T5 1.0).
    #[gin(default = None)]
    pub output_logits_factory: Option<Ref<DenseGeneral>>,
    /// The embedding of a decoder alone; None in `EncoderDecoder`, which has one for both stacks.
    #[gin(default = None)]
    pub token_embedder_factory: Option<Ref<Embed>>,
}

/// A layer of the decoder. Source: flaxformer `architectures/t5/t5_architecture.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.architectures.t5.t5_architecture.DecoderLayer",
    ignored(shared_relative_position_bias = "`Decoder` gives it"),
    ignored(activation_partitioning_dims = "the partitioner's rules decide"),
    ignored(sow_intermediates = "it keeps results for inspection"),
    ignored(scanned = "layers have arrays of their own")
)]
pub struct DecoderLayer {
    /// The attention to targets.
    pub self_attention: MultiHeadAttention,
    /// The attention to the encoding, with the dimensions of the other one; None in a decoder alone.
    pub encoder_decoder_attention: Option<MultiHeadAttention>,
    /// The feed-forward block after them.
    pub mlp: MlpBlock,
    /// Parameters of every layer.
    #[gin(flatten)]
    pub layer: LayerParameters,
    /// The layer's own bias of relative position.
    #[gin(default = None)]
    pub relative_position_bias_factory: Option<Ref<RelativePositionBiases>>,
}

/// The tensors that a layer keeps for its backward pass. Source: flaxformer `architectures/t5/t5_architecture.py`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum LayerRemat {
    /// Everything.
    None,
    /// The same, since layers are not scanned.
    Legacy,
    /// Its input.
    Full,
    /// Its input and the results of projections.
    Minimal,
}

impl LayerRemat {
    /// The same in T5X's names.
    pub fn policy(self) -> RematPolicy {
        match self {
            Self::None | Self::Legacy => RematPolicy::None,
            Self::Full => RematPolicy::Full,
            Self::Minimal => RematPolicy::Minimal,
        }
    }
}

impl From<RematPolicy> for LayerRemat {
    fn from(policy: RematPolicy) -> Self {
        match policy {
            RematPolicy::None => Self::None,
            RematPolicy::Full => Self::Full,
            RematPolicy::Minimal => Self::Minimal,
        }
    }
}
