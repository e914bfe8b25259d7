//! The attentions of LongT5's encoder.

use super::components::InitFn;
use super::values::{
    BroadcastDropout, Buckets, MaxDistance, NoBias, NoExtraLogit, NoFusedKernels, NoOutputWidth,
    NoRotation, NotCausal, OutputProjection,
};
use crate::gin::Configurable;
use crate::nn::{Distribution, Dtype, FanMode};

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
    /// Heads.
    pub num_heads: usize,
    /// Tokens that a token attends to on either side.
    #[gin(default = 127)]
    pub local_radius: usize,
    /// Format of activations.
    #[gin(default = Dtype::Float32)]
    pub dtype: Dtype,
    /// Width of all heads, if `head_dim` is None; None is the width of the stream.
    #[gin(default = None)]
    pub qkv_features: Option<usize>,
    /// Width of one head; None shares `qkv_features` among the heads.
    #[gin(default = None)]
    pub head_dim: Option<usize>,
    /// Only None is supported.
    #[gin(default = NoOutputWidth)]
    pub out_features: NoOutputWidth,
    /// Only True is supported.
    #[gin(default = BroadcastDropout)]
    pub broadcast_dropout: BroadcastDropout,
    /// Probability that a weight of attention is dropped in training; one for the whole network.
    #[gin(default = 0.0, limit = BelowOne)]
    pub dropout_rate: f64,
    /// Initial values of kernels. Those of queries are divided by sqrt(head_dim), unless `rescale_logits` is True.
    #[gin(default = InitFn::scaled(FanMode::FanIn, Distribution::TruncatedNormal))]
    pub kernel_init: InitFn,
    /// Only False is supported; flaxformer's default is True.
    pub use_bias: NoBias,
    /// Whether scores are divided by sqrt(head_dim).
    #[gin(default = false)]
    pub rescale_logits: bool,
    /// Only False is supported.
    #[gin(default = NoExtraLogit)]
    pub use_extra_logit: NoExtraLogit,
    /// Whether scores are computed in float32, for any `dtype`.
    #[gin(default = false)]
    pub float32_logits: bool,
    /// Only True is supported.
    #[gin(default = OutputProjection)]
    pub output_projection: OutputProjection,
    /// Whether kernels have an axis of heads in checkpoints: `[embed, heads, kv]`.
    #[gin(default = false)]
    pub split_head_kernel: bool,
    /// Only None is supported.
    #[gin(default = NoFusedKernels)]
    pub kernels_to_fuse: NoFusedKernels,
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
    /// Heads.
    pub num_heads: usize,
    /// Tokens of a block, at least 2.
    pub tokens_per_block: usize,
    /// Tokens that a token attends to on either side.
    #[gin(default = 127)]
    pub local_radius: usize,
    /// Only False is supported.
    #[gin(default = NotCausal)]
    pub causal: NotCausal,
    /// Format of activations.
    #[gin(default = Dtype::Float32)]
    pub dtype: Dtype,
    /// Width of all heads, if `head_dim` is None; None is the width of the stream.
    #[gin(default = None)]
    pub qkv_features: Option<usize>,
    /// Width of one head; None shares `qkv_features` among the heads.
    #[gin(default = None)]
    pub head_dim: Option<usize>,
    /// Only None is supported.
    #[gin(default = NoOutputWidth)]
    pub out_features: NoOutputWidth,
    /// Only True is supported.
    #[gin(default = BroadcastDropout)]
    pub broadcast_dropout: BroadcastDropout,
    /// Probability that a weight of attention is dropped in training; one for the whole network.
    #[gin(default = 0.0, limit = BelowOne)]
    pub dropout_rate: f64,
    /// Initial values of kernels. Those of queries are divided by sqrt(head_dim), unless `rescale_logits` is True.
    #[gin(default = InitFn::scaled(FanMode::FanIn, Distribution::TruncatedNormal))]
    pub kernel_init: InitFn,
    /// Only False is supported; flaxformer's default is True.
    pub use_bias: NoBias,
    /// Whether scores are divided by sqrt(head_dim).
    #[gin(default = false)]
    pub rescale_logits: bool,
    /// Only False is supported.
    #[gin(default = NoExtraLogit)]
    pub use_extra_logit: NoExtraLogit,
    /// Whether scores are computed in float32, for any `dtype`.
    #[gin(default = false)]
    pub float32_logits: bool,
    /// Only True is supported.
    #[gin(default = OutputProjection)]
    pub output_projection: OutputProjection,
    /// Whether kernels have an axis of heads in checkpoints: `[embed, heads, kv]`.
    #[gin(default = false)]
    pub split_head_kernel: bool,
    /// Only None is supported.
    #[gin(default = NoFusedKernels)]
    pub kernels_to_fuse: NoFusedKernels,
}

/// T5's bias of relative position, for any pairs of positions. Source: flaxformer
/// `architectures/longt5/relative_position_biases_general.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.architectures.longt5.relative_position_biases_general.RelativePositionBiasesGeneral"
)]
pub struct RelativePositionBiasesGeneral {
    /// Only 32 is supported.
    pub num_buckets: Buckets,
    /// Only 128 is supported.
    pub max_distance: MaxDistance,
    /// Attention heads.
    pub num_heads: usize,
    /// Format of its result, that of all activations.
    pub dtype: Dtype,
    /// Initial values; flaxformer's default is not supported.
    pub embedding_init: InitFn,
}
