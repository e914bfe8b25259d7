//! The attentions of LongT5's encoder.

use super::attention::AttentionParameters;
use super::components::BiasParameters;
use super::values::{NoBias, NoRotation, NotCausal};
use crate::gin::Configurable;

/// Any attention of LongT5's encoder.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum LongAttention {
    /// Attention to neighbours.
    Local(EncoderLocalSelfAttention),
    /// The same, and to tokens that each layer makes of blocks.
    TransientGlobal(EtcTransientGlobalSelfAttention),
}

/// Attention to neighbours. Source: flaxformer `architectures/longt5/long_attention.py` (Guo et al. 2022,
/// arXiv:2112.07916).
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.architectures.longt5.long_attention.EncoderLocalSelfAttention",
    ignored(relpos_bias = "`LongEncoder` gives it"),
    ignored(side_relpos_bias = "`LongEncoder` gives it"),
    ignored(precision = "products have the precision of the device"),
    ignored(bias_init = "projections have no bias"),
    ignored(concat_3_blocks_implementation = "each gives the same results"),
    ignored(rotary_embedding_max_timescale = "positions are biases of attention scores")
)]
pub struct EncoderLocalSelfAttention {
    /// Parameters of every attention.
    #[gin(flatten)]
    pub attention: AttentionParameters,
    /// Tokens that a token attends to on either side.
    #[gin(default = 127)]
    pub local_radius: usize,
    /// Only False is supported; flaxformer's default is True.
    pub use_bias: NoBias,
    /// Only False is supported.
    #[gin(default = NoRotation)]
    pub use_rotary_embedding: NoRotation,
}

/// Attention to neighbours, and to the normalized sums of blocks of tokens, which each layer computes again. Source:
/// flaxformer `architectures/longt5/long_attention.py` (Guo et al. 2022, arXiv:2112.07916).
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.architectures.longt5.long_attention.EtcTransientGlobalSelfAttention",
    ignored(relpos_bias = "`LongEncoder` gives it"),
    ignored(side_relpos_bias = "`LongEncoder` gives it"),
    ignored(precision = "products have the precision of the device"),
    ignored(bias_init = "projections have no bias"),
    ignored(concat_3_blocks_implementation = "each gives the same results")
)]
pub struct EtcTransientGlobalSelfAttention {
    /// Parameters of every attention.
    #[gin(flatten)]
    pub attention: AttentionParameters,
    /// Tokens of a block, at least 2.
    pub tokens_per_block: usize,
    /// Tokens that a token attends to on either side.
    #[gin(default = 127)]
    pub local_radius: usize,
    /// Only False is supported.
    #[gin(default = NotCausal)]
    pub causal: NotCausal,
    /// Only False is supported; flaxformer's default is True.
    pub use_bias: NoBias,
}

/// T5's bias of relative position, for any pairs of positions. Source: flaxformer
/// `architectures/longt5/relative_position_biases_general.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.architectures.longt5.relative_position_biases_general.RelativePositionBiasesGeneral"
)]
pub struct RelativePositionBiasesGeneral {
    /// Parameters of every bias of relative position.
    #[gin(flatten)]
    pub bias: BiasParameters,
}
