//! Stacks of which some layers have experts.

use super::experts::MoeLayer;
use crate::gin::{Configurable, Ref};
use crate::models::t5::flaxformer::attention::MultiHeadAttention;
use crate::models::t5::flaxformer::components::{
    Dropout, Embed, RelativePositionBiases, T5LayerNorm,
};
use crate::models::t5::flaxformer::dense::{DenseGeneral, MlpBlock};
use crate::models::t5::flaxformer::stacks::{DecoderLayer, EncoderLayer, LayerRemat};
use crate::models::t5::flaxformer::values::{
    NoOwnEmbedder, NoPositionEmbedder, NoScan, NotParallel,
};
use crate::models::transformer::LayerLayout;
use crate::nn::Dtype;

/// An encoder of which some layers have experts. Source: flaxformer `architectures/moe/moe_architecture.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.architectures.moe.moe_architecture.SparseEncoder",
    ignored(shared_token_embedder = "`EncoderDecoder` gives it"),
    ignored(spmd_annotations = "layers have arrays of their own"),
    ignored(scan_axis = "layers have arrays of their own"),
    ignored(sow_intermediates = "it keeps results for inspection"),
    ignored(capture_gradients = "it keeps results for inspection")
)]
pub struct SparseEncoder {
    /// A layer without experts.
    #[gin(call(supplies = ["shared_relative_position_bias"]))]
    pub layer_factory: Ref<EncoderLayer>,
    /// A layer with experts.
    #[gin(call(supplies = ["shared_relative_position_bias"]))]
    pub sparse_layer_factory: Ref<SparseEncoderLayer>,
    /// Number of layers with experts.
    pub num_sparse_layers: usize,
    /// Their places.
    #[gin(default = LayerLayout::Mixed)]
    pub sparse_layout: LayerLayout,
    /// Dropout of embedded tokens.
    pub input_dropout_factory: Ref<Dropout>,
    /// Dropout of the encoder's result.
    pub output_dropout_factory: Ref<Dropout>,
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
    /// The bias of relative position of all layers; None if each layer has its own.
    #[gin(default = None)]
    pub shared_relative_position_bias_factory: Option<Ref<RelativePositionBiases>>,
    /// Only None is supported.
    #[gin(default = NoOwnEmbedder)]
    pub token_embedder_factory: NoOwnEmbedder,
    /// Only None is supported.
    #[gin(default = NoPositionEmbedder)]
    pub position_embedder_factory: NoPositionEmbedder,
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
    /// A block without experts after that (ST-MoE; Zoph et al. 2022, arXiv:2202.08906).
    #[gin(default = None)]
    pub extra_mlp: Option<MlpBlock>,
    /// Dropout of the result of each.
    pub dropout_factory: Ref<Dropout>,
    /// The norm before each.
    pub layer_norm_factory: Ref<T5LayerNorm>,
    /// The layer's own bias of relative position.
    #[gin(default = None)]
    pub relative_position_bias_factory: Option<Ref<RelativePositionBiases>>,
    /// Only False is supported.
    #[gin(default = NotParallel)]
    pub parallel: NotParallel,
}

/// A decoder of which some layers have experts. Source: flaxformer `architectures/moe/moe_architecture.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.architectures.moe.moe_architecture.SparseDecoder",
    ignored(shared_token_embedder = "`EncoderDecoder` gives it"),
    ignored(spmd_annotations = "layers have arrays of their own"),
    ignored(scan_axis = "layers have arrays of their own"),
    ignored(sow_intermediates = "it keeps results for inspection"),
    ignored(capture_gradients = "it keeps results for inspection")
)]
pub struct SparseDecoder {
    /// A layer without experts.
    #[gin(call(supplies = ["shared_relative_position_bias"]))]
    pub layer_factory: Ref<DecoderLayer>,
    /// A layer with experts.
    #[gin(call(supplies = ["shared_relative_position_bias"]))]
    pub sparse_layer_factory: Ref<SparseDecoderLayer>,
    /// Number of layers with experts.
    pub num_sparse_layers: usize,
    /// Their places.
    #[gin(default = LayerLayout::Mixed)]
    pub sparse_layout: LayerLayout,
    /// Dropout of embedded tokens and of the decoder's result.
    pub dropout_factory: Ref<Dropout>,
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
    /// The bias of relative position of all layers; None if each layer has its own.
    #[gin(default = None)]
    pub shared_relative_position_bias_factory: Option<Ref<RelativePositionBiases>>,
    /// The projection to logits (T5 1.1); None takes the embedding (T5 1.0).
    #[gin(default = None)]
    pub output_logits_factory: Option<Ref<DenseGeneral>>,
    /// The embedding of a decoder alone; None in `EncoderDecoder`, which has one for both stacks.
    #[gin(default = None)]
    pub token_embedder_factory: Option<Ref<Embed>>,
    /// Only None is supported.
    #[gin(default = NoPositionEmbedder)]
    pub position_embedder_factory: NoPositionEmbedder,
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
    /// A block without experts after that (ST-MoE; Zoph et al. 2022, arXiv:2202.08906).
    #[gin(default = None)]
    pub extra_mlp: Option<MlpBlock>,
    /// Dropout of the result of each.
    pub dropout_factory: Ref<Dropout>,
    /// The norm before each.
    pub layer_norm_factory: Ref<T5LayerNorm>,
    /// The layer's own bias of relative position.
    #[gin(default = None)]
    pub relative_position_bias_factory: Option<Ref<RelativePositionBiases>>,
    /// Only False is supported.
    #[gin(default = NotParallel)]
    pub parallel: NotParallel,
}
