//! Layers of experts and their routers.

use crate::gin::{Configurable, Parameters};
use crate::models::flaxformer::components::{InitFn, Normal};
use crate::models::flaxformer::dense::MlpBlock;
use crate::nn::Dtype;

gimlet_gin::only! {
    /// Experts with initial values of their own.
    ExpertsApart = gimlet_gin::ValueKind::Bool(true), "experts that begin alike stay alike as far as the router treats \
        them so; each has initial values of its own";
    /// Groups that may be smaller than asked for.
    FlexibleGroups = gimlet_gin::ValueKind::Bool(false), "groups are smaller where a batch has fewer tokens, as in every \
        step of decoding";
}

/// A feed-forward block with experts. Source: flaxformer `architectures/moe/moe_layers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.architectures.moe.moe_layers.MoeLayer",
    ignored(num_expert_partitions = "the partitioner decides where experts are"),
    ignored(num_model_partitions = "the partitioner decides where experts are"),
    ignored(dropout_rate = "flaxformer does not read it either; experts have a rate of their own"),
    ignored(input_hidden_dims_axes = "the partitioner's rules decide"),
    ignored(output_hidden_dims_axes = "the partitioner's rules decide"),
    ignored(precision = "products have the precision of the device")
)]
pub struct MoeLayer {
    /// Number of experts.
    pub num_experts: usize,
    /// Greatest number of tokens, over all processes, that are routed together. Groups are as many as the experts or a
    /// multiple, so they may be smaller.
    pub max_group_size: usize,
    /// Tokens of a group that an expert takes in training, as a multiple of an equal share.
    pub train_capacity_factor: f64,
    /// The same in evaluation and prediction.
    pub eval_capacity_factor: f64,
    /// An expert.
    pub expert: MlpBlock,
    /// The router.
    pub router: Router,
    /// Smallest number of tokens of a group that an expert takes.
    #[gin(default = 4)]
    pub min_expert_capacity: usize,
    /// Format in which experts compute; that of `expert`.
    #[gin(default = Dtype::Bfloat16)]
    pub dtype: Dtype,
    /// Only True is supported.
    #[gin(default = ExpertsApart)]
    pub split_params: ExpertsApart,
    /// Only False is supported.
    #[gin(default = FlexibleGroups)]
    pub strict_group_size: FlexibleGroups,
}

/// Any router.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum Router {
    /// Tokens choose experts.
    TokensChoose(TokensChooseMaskedRouter),
    /// The same, but that padding is treated in another way.
    TokensChooseScatter(TokensChooseScatterRouter),
    /// Experts choose tokens.
    ExpertsChoose(ExpertsChooseMaskedRouter),
}

/// Parameters of every router. Source: flaxformer `architectures/moe/routing.py`.
#[derive(Clone, Debug, PartialEq, Parameters)]
pub struct RouterParameters {
    /// The projection to scores.
    pub router_weights: RouterWeights,
    /// In training, the router's inputs are multiplied by uniform noise of this half width around 1.
    pub jitter_noise: f64,
    /// Format of the probabilities by which results are multiplied.
    pub dtype: Dtype,
}

/// Gives each token to the experts with the highest probabilities that have places. Source: flaxformer
/// `architectures/moe/routing.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "flaxformer.architectures.moe.routing.TokensChooseMaskedRouter")]
pub struct TokensChooseMaskedRouter {
    /// Parameters of every router.
    #[gin(flatten)]
    pub router: RouterParameters,
    /// Whether padding gets no places.
    pub ignore_padding_tokens: bool,
    /// Experts of a token.
    pub num_selected_experts: usize,
    /// Whether tokens with higher probabilities get places first, instead of earlier tokens. Only for encoders: a
    /// decoder's tokens would depend on later ones.
    pub batch_prioritized_routing: bool,
}

/// The router of [`TokensChooseMaskedRouter`], which flaxformer computes in another way. Results differ in one thing:
/// padding that is ignored still takes places that are free. Source: flaxformer `architectures/moe/routing.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "flaxformer.architectures.moe.routing.TokensChooseScatterRouter")]
pub struct TokensChooseScatterRouter {
    /// Parameters of every router.
    #[gin(flatten)]
    pub router: RouterParameters,
    /// Whether padding has no probability.
    pub ignore_padding_tokens: bool,
    /// Experts of a token.
    pub num_selected_experts: usize,
    /// Whether tokens with higher probabilities get places first, instead of earlier tokens.
    pub batch_prioritized_routing: bool,
}

/// Gives each expert the tokens with the highest probabilities. Only for encoders: a decoder's tokens would depend on later
/// ones. Source: flaxformer `architectures/moe/routing.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "flaxformer.architectures.moe.routing.ExpertsChooseMaskedRouter")]
pub struct ExpertsChooseMaskedRouter {
    /// Parameters of every router.
    #[gin(flatten)]
    pub router: RouterParameters,
    /// Whether padding has no probability.
    pub ignore_padding_tokens: bool,
}

/// The projection of tokens to scores of experts. Source: flaxformer `architectures/moe/routing.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.architectures.moe.routing.RouterWeights",
    ignored(bias_init = "the bias begins with zeros"),
    ignored(precision = "products have the precision of the device"),
    ignored(axis = "the last axis is projected"),
    ignored(kernel_axis_names = "axes have T5X's names"),
    ignored(reshape_kernel = "the kernel has two axes")
)]
pub struct RouterWeights {
    /// Whether scores have a bias.
    #[gin(default = true)]
    pub use_bias: bool,
    /// Format in which scores are computed.
    #[gin(default = Dtype::Bfloat16)]
    pub dtype: Dtype,
    /// Initial values of the kernel.
    #[gin(default = InitFn::Normal(Normal { stddev: 2e-2 }))]
    pub kernel_init: InitFn,
}
