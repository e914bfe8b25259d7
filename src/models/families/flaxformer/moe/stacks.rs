//! Stacks of which some layers have experts.

use super::experts::MoeLayer;
use crate::gin::{Configurable, Parameters, Ref};
use crate::models::flaxformer::attention::MultiHeadAttention;
use crate::models::flaxformer::components::RelativePositionBiases;
use crate::models::flaxformer::dense::MlpBlock;
use crate::models::flaxformer::stacks::{Decoder, Encoder, LayerParameters};
use crate::models::transformer::LayerLayout;

/// Parameters of every stack with experts. Source: flaxformer `architectures/moe/moe_architecture.py`.
#[derive(Clone, Debug, PartialEq, Parameters)]
pub struct SparseStackParameters {
    /// Number of layers with experts.
    pub num_sparse_layers: usize,
    /// Their places.
    #[gin(default = LayerLayout::Mixed)]
    pub sparse_layout: LayerLayout,
}

/// Parameters of every layer with experts. Source: flaxformer `architectures/moe/moe_architecture.py`.
#[derive(Clone, Debug, PartialEq, Parameters)]
pub struct SparseLayerParameters {
    /// Parameters of every layer.
    #[gin(flatten)]
    pub layer: LayerParameters,
    /// A block without experts after that (ST-MoE; Zoph et al. 2022, arXiv:2202.08906).
    #[gin(default = None)]
    pub extra_mlp: Option<MlpBlock>,
    /// The layer's own bias of relative position.
    #[gin(default = None)]
    pub relative_position_bias_factory: Option<Ref<RelativePositionBiases>>,
}

/// An encoder of which some layers have experts. Source: flaxformer `architectures/moe/moe_architecture.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "flaxformer.architectures.moe.moe_architecture.SparseEncoder")]
pub struct SparseEncoder {
    /// Parameters of a stack without experts.
    #[gin(flatten)]
    pub encoder: Encoder,
    /// A layer with experts.
    #[gin(call(supplies = ["shared_relative_position_bias"]))]
    pub sparse_layer_factory: Ref<SparseEncoderLayer>,
    /// Parameters of every stack with experts.
    #[gin(flatten)]
    pub sparse: SparseStackParameters,
}

/// A layer of the encoder with experts. Its attention, dropout and norms are those of layers without. Source: flaxformer
/// `architectures/moe/moe_architecture.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.architectures.moe.moe_architecture.SparseEncoderLayer",
    ignored(shared_relative_position_bias = "`SparseEncoder` gives it"),
    ignored(activation_partitioning_dims = "the partitioner's rules decide"),
    ignored(sow_intermediates = "it keeps results for inspection"),
    ignored(scanned = "layers have arrays of their own")
)]
pub struct SparseEncoderLayer {
    /// The attention.
    pub attention: MultiHeadAttention,
    /// The block of experts after it.
    pub mlp: MoeLayer,
    /// Parameters of every layer with experts.
    #[gin(flatten)]
    pub sparse: SparseLayerParameters,
}

/// A decoder of which some layers have experts. Source: flaxformer `architectures/moe/moe_architecture.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "flaxformer.architectures.moe.moe_architecture.SparseDecoder")]
pub struct SparseDecoder {
    /// Parameters of a stack without experts.
    #[gin(flatten)]
    pub decoder: Decoder,
    /// A layer with experts.
    #[gin(call(supplies = ["shared_relative_position_bias"]))]
    pub sparse_layer_factory: Ref<SparseDecoderLayer>,
    /// Parameters of every stack with experts.
    #[gin(flatten)]
    pub sparse: SparseStackParameters,
}

/// A layer of the decoder with experts. Its attentions, dropout and norms are those of layers without. Source: flaxformer
/// `architectures/moe/moe_architecture.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.architectures.moe.moe_architecture.SparseDecoderLayer",
    ignored(shared_relative_position_bias = "`SparseDecoder` gives it"),
    ignored(activation_partitioning_dims = "the partitioner's rules decide"),
    ignored(sow_intermediates = "it keeps results for inspection"),
    ignored(scanned = "layers have arrays of their own")
)]
pub struct SparseDecoderLayer {
    /// The attention to targets.
    pub self_attention: MultiHeadAttention,
    /// The attention to the encoding, with the dimensions of the other one; None in a decoder alone.
    pub encoder_decoder_attention: Option<MultiHeadAttention>,
    /// The block of experts after them.
    pub mlp: MoeLayer,
    /// Parameters of every layer with experts.
    #[gin(flatten)]
    pub sparse: SparseLayerParameters,
}
