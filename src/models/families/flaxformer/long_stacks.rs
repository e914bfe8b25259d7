//! LongT5: its encoder's layer and stack, and the network with T5's decoder.

use super::components::{Dropout, Embed};
use super::dense::MlpBlock;
use super::long_attention::{LongAttention, RelativePositionBiasesGeneral};
use super::stacks::{Decoder, LayerParameters, StackParameters};
use super::values::{NoLayerBias, NoOwnEmbedder, NoScan};
use crate::gin::{Configurable, Ref};

/// LongT5's network: T5's with another encoder. Source: flaxformer `architectures/longt5/longt5_architecture.py` (Guo et al.
/// 2022, arXiv:2112.07916).
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.architectures.longt5.longt5_architecture.LongEncoderDecoder",
    ignored(dtype = "it is the format of masks; those of activations are the components'"),
    ignored(spmd_annotations = "layers have arrays of their own")
)]
pub struct LongEncoderDecoder {
    /// The encoder.
    #[gin(call(supplies = ["shared_token_embedder", "spmd_annotations"]))]
    pub encoder_factory: Ref<LongEncoder>,
    /// The decoder.
    #[gin(call(supplies = ["shared_token_embedder", "spmd_annotations"]))]
    pub decoder_factory: Ref<Decoder>,
    /// Only False is supported.
    #[gin(default = NoScan)]
    pub scan_layers: NoScan,
    /// The embedding of inputs and targets; it must be given.
    #[gin(default = None)]
    pub shared_token_embedder_factory: Option<Ref<Embed>>,
}

/// LongT5's encoder. Source: flaxformer `architectures/longt5/longt5_architecture.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.architectures.longt5.longt5_architecture.LongEncoder",
    ignored(shared_token_embedder = "`LongEncoderDecoder` gives it"),
    ignored(spmd_annotations = "layers have arrays of their own")
)]
pub struct LongEncoder {
    /// A layer.
    #[gin(call(supplies = ["shared_relpos_bias", "shared_side_relpos_bias"]))]
    pub layer_factory: Ref<LongEncoderLayer>,
    /// Dropout of embedded tokens.
    pub input_dropout_factory: Ref<Dropout>,
    /// Dropout of the encoder's result.
    pub output_dropout_factory: Ref<Dropout>,
    /// Parameters of every stack.
    #[gin(flatten)]
    pub stack: StackParameters,
    /// The bias of relative position of all layers; it must be given.
    #[gin(default = None)]
    pub shared_relpos_bias_factory: Option<Ref<RelativePositionBiasesGeneral>>,
    /// The same for tokens of blocks; it must be given if there are such tokens.
    #[gin(default = None)]
    pub shared_side_relpos_bias_factory: Option<Ref<RelativePositionBiasesGeneral>>,
    /// Only None is supported.
    #[gin(default = NoOwnEmbedder)]
    pub token_embedder_factory: NoOwnEmbedder,
}

/// A layer of LongT5's encoder. Source: flaxformer `architectures/longt5/longt5_architecture.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.architectures.longt5.longt5_architecture.LongEncoderLayer",
    ignored(shared_relpos_bias = "`LongEncoder` gives it"),
    ignored(shared_side_relpos_bias = "`LongEncoder` gives it"),
    ignored(activation_partitioning_dims = "the partitioner's rules decide"),
    ignored(sow_intermediates = "it keeps results for inspection"),
    ignored(scanned = "layers have arrays of their own"),
    ignored(use_logit_mask = "no position attends to padding")
)]
pub struct LongEncoderLayer {
    /// The attention.
    #[gin(call(supplies = ["relpos_bias", "side_relpos_bias"]))]
    pub attention_factory: Ref<LongAttention>,
    /// The feed-forward block after it.
    pub mlp: MlpBlock,
    /// Parameters of every layer.
    #[gin(flatten)]
    pub layer: LayerParameters,
    /// Only None is supported.
    #[gin(default = NoLayerBias)]
    pub relpos_bias_factory: NoLayerBias,
    /// Only None is supported.
    #[gin(default = NoLayerBias)]
    pub side_relpos_bias_factory: NoLayerBias,
}
