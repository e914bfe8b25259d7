//! The layers of a Transformer and the stack that they form.

use gimlet_gin::{Configurable, Ref};

use crate::mesh_tf::values::{
    Activations, BlockScope, Buckets, CombineDims, FoldScaling, NamedLayer, NoAttentionFunction,
    NoAttentionOptions, NoBias, NoClassifierScale, NoMemoryHeads, NoQueryHeadsDims, NoSharedKv,
    NormEpsilon,
};

/// Attention to the same sequence. Source: mesh `transformer/transformer_layers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh_tensorflow.transformer.transformer_layers.SelfAttention")]
pub struct SelfAttention {
    /// Heads.
    #[gin(default = 8)]
    pub num_heads: u64,
    /// Only 0 is supported.
    #[gin(default = NoMemoryHeads)]
    pub num_memory_heads: NoMemoryHeads,
    /// Width of a head.
    #[gin(default = 128)]
    pub key_value_size: u64,
    /// Only False is supported.
    #[gin(default = NoSharedKv)]
    pub shared_kv: NoSharedKv,
    /// Probability that a weight of attention is dropped in training.
    #[gin(default = 0.0)]
    pub dropout_rate: f64,
    /// Only None is supported.
    #[gin(default = NoAttentionOptions)]
    pub attention_kwargs: NoAttentionOptions,
    /// The relative positions: 'bias_shared' has one table for all layers of a stack; no other value is supported.
    #[gin(default = None)]
    pub relative_attention_type: Option<RelativeAttentionType>,
    /// Only 32 is supported.
    #[gin(default = Buckets)]
    pub relative_attention_num_buckets: Buckets,
    /// Only None is supported.
    #[gin(default = NoAttentionFunction)]
    pub attention_func: NoAttentionFunction,
    /// Only True is supported.
    #[gin(default = CombineDims)]
    pub combine_dims: CombineDims,
    /// Only False is supported.
    #[gin(default = NoQueryHeadsDims)]
    pub keep_query_heads_dims: NoQueryHeadsDims,
    /// Only True is supported.
    #[gin(default = FoldScaling)]
    pub fold_scaling_into_initializer: FoldScaling,
}

/// The kind of relative positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum RelativeAttentionType {
    /// One table of biases for all layers of a stack.
    BiasShared,
}

/// Attention to the encoder's result, with the parameters of `SelfAttention` except for relative positions.
/// Source: mesh `transformer/transformer_layers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh_tensorflow.transformer.transformer_layers.EncDecAttention")]
pub struct EncDecAttention {
    /// Only None is supported.
    #[gin(default = None)]
    pub relative_attention_type: Option<RelativeAttentionType>,
    /// The parameters that its base class has in the same scope.
    #[gin(method, call(inherits))]
    pub base: SelfAttention,
}

/// The feed-forward layer. Source: mesh `transformer/transformer_layers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh_tensorflow.transformer.transformer_layers.DenseReluDense")]
pub struct DenseReluDense {
    /// Width between the two projections.
    #[gin(default = 4096)]
    pub hidden_size: u64,
    /// Probability that an element between the projections is dropped in training.
    #[gin(default = 0.0)]
    pub dropout_rate: f64,
    /// The activation, or several, whose results are multiplied.
    #[gin(default = Activations(vec!["relu".to_string()]))]
    pub activation: Activations,
    /// Only False is supported.
    #[gin(default = NoBias)]
    pub use_bias: NoBias,
}

/// Any layer.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum Layer {
    /// Attention to the same sequence.
    SelfAttention(SelfAttention),
    /// Attention to the encoder's result.
    EncDecAttention(EncDecAttention),
    /// The feed-forward layer, or a task adapter.
    DenseReluDense(DenseReluDense),
}

/// The stack of all blocks. Source: mesh `transformer/transformer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh_tensorflow.transformer.transformer.make_layer_stack")]
pub struct MakeLayerStack {
    /// The layers of a block: T5's, with names or without, and a last `DenseReluDense` for a task adapter.
    #[gin(call(inherits))]
    pub layers: Vec<NamedLayer<Layer>>,
    /// Blocks.
    #[gin(default = 6)]
    pub num_layers: u64,
    /// Only True is supported.
    #[gin(default = BlockScope)]
    pub block_scope: BlockScope,
    /// The class of the stack, in the same scope.
    #[gin(method, call(inherits, supplies = ["layers"]))]
    pub layer_stack: LayerStack,
}

/// The computations around each layer. Source: mesh `transformer/transformer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.transformer.LayerStack",
    ignored(layers = "`make_layer_stack` gives them")
)]
pub struct LayerStack {
    /// Computations before the first layer; only T5's are supported.
    #[gin(default = None)]
    pub sublayers_initial: Option<Vec<Ref<Sublayer>>>,
    /// Computations around each layer; only T5's are supported.
    #[gin(default = None)]
    pub sublayers_per_layer: Option<Vec<Ref<Sublayer>>>,
    /// Computations after the last layer; only T5's are supported.
    #[gin(default = None)]
    pub sublayers_final: Option<Vec<Ref<Sublayer>>>,
    /// Dropout of older models; with `norm_epsilon`, it stands for T5's sublayers.
    #[gin(default = None)]
    pub dropout_rate: Option<f64>,
    /// Only 1e-06 and None are supported.
    #[gin(default = None)]
    pub norm_epsilon: Option<NormEpsilon>,
    /// Whether activations are computed again in the backward pass.
    #[gin(default = false)]
    pub recompute_grads: bool,
}

/// A computation around layers.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum Sublayer {
    /// The layer itself.
    CallLayer(SublayerCallLayer),
    /// Norm.
    RmsNorm(SublayerRmsNorm),
    /// Dropout.
    Dropout(SublayerDropout),
    /// Residual connection.
    Residual(SublayerResidual),
    /// Dropout of older models.
    LegacyDropout(SublayerLegacyDropout),
    /// Norm of older models.
    LegacyRmsNorm(SublayerLegacyRmsNorm),
    /// Final norm of older models.
    LegacyFinalRmsNorm(SublayerLegacyFinalRmsNorm),
}

/// Calls the layer. Source: mesh `transformer/transformer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh_tensorflow.transformer.transformer.sublayer_call_layer")]
pub struct SublayerCallLayer {}

/// Divides by the root mean square. Source: mesh `transformer/transformer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh_tensorflow.transformer.transformer.sublayer_rms_norm")]
pub struct SublayerRmsNorm {
    /// Only 1e-06 is supported.
    #[gin(default = NormEpsilon)]
    pub epsilon: NormEpsilon,
    /// Name of its variable.
    #[gin(default = "rms_norm".to_string())]
    pub name: String,
}

/// Drops elements, the same at all positions. Source: mesh `transformer/transformer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh_tensorflow.transformer.transformer.sublayer_dropout")]
pub struct SublayerDropout {
    /// Probability that an element is dropped in training.
    #[gin(default = 0.0)]
    pub dropout_rate: f64,
}

/// Adds the input of the layer. Source: mesh `transformer/transformer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh_tensorflow.transformer.transformer.sublayer_residual")]
pub struct SublayerResidual {}

/// Drops elements at the rate of the stack. Source: mesh `transformer/transformer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh_tensorflow.transformer.transformer.sublayer_legacy_dropout")]
pub struct SublayerLegacyDropout {}

/// Divides by the root mean square, with older names. Source: mesh `transformer/transformer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh_tensorflow.transformer.transformer.sublayer_legacy_rms_norm")]
pub struct SublayerLegacyRmsNorm {}

/// Divides the result by the root mean square, with older names. Source: mesh `transformer/transformer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh_tensorflow.transformer.transformer.sublayer_legacy_final_rms_norm")]
pub struct SublayerLegacyFinalRmsNorm {}

/// The embedding of tokens. Source: mesh `transformer/transformer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.transformer.VocabEmbedding",
    ignored(
        mesh = "the model gives it",
        vocab_dim = "the model gives it",
        output_dim = "the model gives it",
        variable_dtype = "the model gives it",
        name = "the model gives it",
        ensemble_dim = "the model gives it"
    )
)]
pub struct VocabEmbedding {
    /// Only False is supported.
    #[gin(default = NoClassifierScale)]
    pub scale_variable_like_classifier_weights: NoClassifierScale,
}
