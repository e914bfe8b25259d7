//! Feed-forward blocks, and the projection to logits.

use super::components::InitFn;
use super::ia3::IA3;
use super::values::{
    NoBias, NoDropoutModule, NoFusedMlp, NoOutputWidth, NoQuantization, NotPrecomputed,
    NotQuantized,
};
use crate::gin::Configurable;
use crate::nn::{Activation, Distribution, Dtype, FanMode};

/// T5's feed-forward block. Source: flaxformer `components/dense.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.components.dense.MlpBlock",
    ignored(wi_fused_kernel_init = "kernels are not fused"),
    ignored(bias_init = "projections have no bias"),
    ignored(input_axis_name = "axes have T5X's names"),
    ignored(activations_axis_name = "axes have T5X's names"),
    ignored(intermediate_axis_name = "axes have T5X's names"),
    ignored(output_axis_name = "axes have T5X's names"),
    ignored(data_sharding_constraints = "the partitioner's rules decide"),
    ignored(activation_partitioning_dims = "the partitioner's rules decide"),
    ignored(possibly_use_quantized_vars = "kernels are not quantized")
)]
pub struct MlpBlock {
    /// Only False is supported.
    pub use_bias: NoBias,
    /// Width between the two projections (papers: d_ff).
    #[gin(default = 2048)]
    pub intermediate_dim: usize,
    /// One activation per input projection; their results are multiplied (`('gelu', 'linear')` is gated GELU).
    #[gin(default = vec![Activation::Relu])]
    pub activations: Vec<Activation>,
    /// Initial values of kernels.
    #[gin(default = InitFn::scaled(FanMode::FanAvg, Distribution::Uniform))]
    pub kernel_init: InitFn,
    /// Probability that a product between the projections is dropped in training; one for the whole network.
    #[gin(default = 0.1, limit = BelowOne)]
    pub intermediate_dropout_rate: f64,
    /// The same of the block's result, before the dropout of every block's result: 0, or the network's.
    #[gin(default = 0.1, limit = BelowOne)]
    pub final_dropout_rate: f64,
    /// Only None is supported.
    #[gin(default = NoDropoutModule)]
    pub intermediate_dropout: NoDropoutModule,
    /// Only None is supported.
    #[gin(default = NoDropoutModule)]
    pub final_dropout: NoDropoutModule,
    /// Format of activations.
    #[gin(default = Dtype::Float32)]
    pub dtype: Dtype,
    /// Only None is supported.
    #[gin(default = NoOutputWidth)]
    pub out_dim: NoOutputWidth,
    /// Learned factors of what is between the projections; None is none.
    #[gin(default = None)]
    pub intermediate_conv: Option<IA3>,
    /// Only False is supported.
    #[gin(default = NotPrecomputed)]
    pub precomputed_intermediates: NotPrecomputed,
    /// Only False is supported.
    #[gin(default = NoFusedMlp)]
    pub fuse_kernels: NoFusedMlp,
    /// Only False is supported.
    #[gin(default = NotQuantized)]
    pub use_aqt: NotQuantized,
    /// Only None is supported.
    #[gin(default = NoQuantization)]
    pub weight_params: NoQuantization,
    /// Only None is supported.
    #[gin(default = NoQuantization)]
    pub act_params: NoQuantization,
}

/// A projection; here the one to logits. Source: flaxformer `components/dense.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.components.dense.DenseGeneral",
    ignored(axis = "the last axis is projected"),
    ignored(bias_init = "projections have no bias"),
    ignored(precision = "products have the precision of the device"),
    ignored(kernel_axis_names = "axes have T5X's names"),
    ignored(reshaped_kernel_axis_name_map = "axes have T5X's names"),
    ignored(reshape_kernel = "the kernel has two axes")
)]
pub struct DenseGeneral {
    /// Number of logits, which is that of rows of the embedding.
    pub features: usize,
    /// Only False is supported.
    pub use_bias: NoBias,
    /// Format of logits: float32.
    #[gin(default = Dtype::Float32)]
    pub dtype: Dtype,
    /// Initial values of its kernel.
    #[gin(default = InitFn::scaled(FanMode::FanIn, Distribution::TruncatedNormal))]
    pub kernel_init: InitFn,
}
