//! Attentions.

use super::components::InitFn;
use super::ia3::IA3Attention;
use super::values::{
    BroadcastDropout, NoBias, NoConvolution, NoExtraLogit, NoFusedKernels, NoOutputWidth,
    NoRotation, OutputProjection,
};
use crate::gin::{Configurable, Parameters, Ref};
use crate::nn::{Distribution, Dtype, FanMode};

/// Parameters of every attention. Source: flaxformer `components/attention/dense_attention.py`.
#[derive(Clone, Debug, PartialEq, Parameters)]
pub struct AttentionParameters {
    /// Heads.
    pub num_heads: usize,
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

/// T5's attention. Source: flaxformer `components/attention/dense_attention.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.components.attention.dense_attention.MultiHeadDotProductAttention",
    ignored(precision = "products have the precision of the device"),
    ignored(bias_init = "projections have no bias"),
    ignored(qkv_kernel_init = "kernels are not fused"),
    ignored(kv_kernel_init = "kernels are not fused"),
    ignored(rotary_embedding_max_timescale = "positions are biases of attention scores"),
    ignored(sharding_over_head_dimension = "the partitioner's rules decide"),
    ignored(sow_intermediates = "it keeps results for inspection")
)]
pub struct MultiHeadAttention {
    /// Parameters of every attention.
    #[gin(flatten)]
    pub attention: AttentionParameters,
    /// Only False is supported.
    pub use_bias: NoBias,
    /// The same of queries; None is `kernel_init`.
    #[gin(default = None)]
    pub q_kernel_init: Option<InitFn>,
    /// The function of queries, keys and values; each gives the same results.
    #[gin(default = Ref(AttentionFn::DotProduct(DotProductAttention {})))]
    pub attention_fn: Ref<AttentionFn>,
    /// Only False is supported.
    #[gin(default = NoRotation)]
    pub use_rotary_embedding: NoRotation,
    /// Only None is supported.
    #[gin(default = NoConvolution)]
    pub q_conv: NoConvolution,
    /// Learned factors of keys; None is none.
    #[gin(default = None)]
    pub k_conv: Option<IA3Attention>,
    /// The same of values: both or none, and in all attentions and feed-forward blocks or in none.
    #[gin(default = None)]
    pub v_conv: Option<IA3Attention>,
}

/// The function of queries, keys and values. Attention is computed here as the device does it best, without all weights
/// in memory.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum AttentionFn {
    /// The usual one.
    DotProduct(DotProductAttention),
    /// One that does not keep all weights.
    MemoryEfficient(MemoryEfficientAttention),
}

/// Attention. Source: flaxformer `components/attention/dense_attention.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "flaxformer.components.attention.dense_attention.dot_product_attention")]
pub struct DotProductAttention {}

/// Attention without all weights in memory, with the same results. Source: flaxformer
/// `components/attention/memory_efficient_attention.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.components.attention.memory_efficient_attention.dot_product_attention_multihead"
)]
pub struct MemoryEfficientAttention {}

/// Attention whose heads share keys and values. No layer here has it: files bind its function beside that of T5's attention.
/// Source: flaxformer `components/attention/dense_attention.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "flaxformer.components.attention.dense_attention.MultiQueryDotProductAttention")]
pub struct MultiQueryAttention {
    /// The function of queries, keys and values.
    #[gin(default = None)]
    pub attention_fn: Option<Ref<MemoryEfficientMultiQuery>>,
}

/// The function of [`MemoryEfficientAttention`] for shared keys and values. Source: flaxformer
/// `components/attention/memory_efficient_attention.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.components.attention.memory_efficient_attention.dot_product_attention_multiquery"
)]
pub struct MemoryEfficientMultiQuery {}
