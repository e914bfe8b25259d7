//! Dropout, norms, embeddings and initializers.

use super::values::{Buckets, EmbedderName, MaxDistance, NoConvolution, ScaleAsIs, Scaled};
use crate::gin::{Configurable, Parameters};
use crate::models::transformer::LAYER_NORM_EPSILON;
use crate::nn::{Distribution, Dtype, FanMode, Initializer};

/// Dropout. Source: flax `linen/stochastic.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flax.linen.Dropout",
    ignored(deterministic = "the run decides"),
    ignored(rng_collection = "the run's seed decides")
)]
pub struct Dropout {
    /// Probability that an activation is dropped in training; one for the whole network.
    pub rate: f64,
    /// Axes along which activations share a mask: (-2,), the length. The encoder's result may also have ().
    #[gin(default = Vec::new())]
    pub broadcast_dims: Vec<i64>,
}

/// Any distribution of initial values.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum InitFn {
    /// A Gaussian of one deviation.
    Normal(Normal),
    /// Flat above 0.
    Uniform(Uniform),
    /// A deviation that depends on the shape.
    VarianceScaling(VarianceScaling),
}

/// A Gaussian around 0. Source: flax `linen/initializers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flax.linen.initializers.normal",
    alias = "jax.nn.initializers.normal",
    ignored(dtype = "parameters are float32")
)]
pub struct Normal {
    /// Standard deviation.
    #[gin(default = 0.01)]
    pub stddev: f64,
}

/// Values from 0 to below a number, each as likely. Source: flax `linen/initializers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flax.linen.initializers.uniform",
    alias = "jax.nn.initializers.uniform",
    ignored(dtype = "parameters are float32")
)]
pub struct Uniform {
    /// The number.
    #[gin(default = 0.01)]
    pub scale: f64,
}

/// Values of variance `scale` divided by the number of inputs, or of inputs and outputs. Source: flax
/// `linen/initializers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flax.linen.initializers.variance_scaling",
    alias = "jax.nn.initializers.variance_scaling",
    ignored(dtype = "parameters are float32")
)]
pub struct VarianceScaling {
    /// Numerator of the variance.
    pub scale: f64,
    /// Its denominator.
    pub mode: FanMode,
    /// Shape of the draw.
    pub distribution: Distribution,
}

impl InitFn {
    /// A deviation that depends on the shape.
    pub(super) fn scaled(mode: FanMode, distribution: Distribution) -> Self {
        Self::VarianceScaling(VarianceScaling { scale: 1.0, mode, distribution })
    }

    /// flax's default of `uniform`.
    pub(super) fn uniform() -> Self {
        Self::Uniform(Uniform { scale: 0.01 })
    }

    /// The distribution.
    pub fn initializer(&self) -> Initializer {
        match self {
            Self::Normal(Normal { stddev }) => Initializer::Normal { stddev: *stddev },
            Self::Uniform(Uniform { scale }) => Initializer::Uniform { scale: *scale },
            Self::VarianceScaling(VarianceScaling { scale, mode, distribution }) => {
                let (mode, distribution) = (*mode, *distribution);
                Initializer::VarianceScaling { scale: *scale, mode, distribution }
            }
        }
    }

    /// The distribution of values that are divided by the square root of that number after they are drawn.
    pub fn over_sqrt(&self, number: f64) -> Initializer {
        self.initializer().over_sqrt(number)
    }
}

/// T5's norm. Source: flaxformer `components/layer_norm.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.components.layer_norm.T5LayerNorm",
    ignored(scale_axis_name = "axes have T5X's names")
)]
pub struct T5LayerNorm {
    /// The addend of the mean square, the same in all norms.
    #[gin(default = LAYER_NORM_EPSILON)]
    pub epsilon: f64,
    /// Format of its result, that of all activations.
    #[gin(default = Dtype::Float32)]
    pub dtype: Dtype,
    /// Only True is supported.
    #[gin(default = Scaled)]
    pub use_scale: Scaled,
    /// Only None is supported.
    #[gin(default = NoConvolution)]
    pub conv: NoConvolution,
    /// Only False is supported.
    #[gin(default = ScaleAsIs)]
    pub center_scale_at_zero: ScaleAsIs,
}

/// The embedding of tokens. Source: flaxformer `components/embedding.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.components.embedding.Embed",
    ignored(cast_input_dtype = "token ids are integers"),
    ignored(one_hot = "a lookup gives the same rows as a product with one-hot rows"),
    ignored(axes = "axes have T5X's names"),
    ignored(input_axis_names = "axes have T5X's names")
)]
pub struct Embed {
    /// Rows; at least the vocabulary's size, often padded to a multiple of 128.
    pub num_embeddings: usize,
    /// Width of the residual stream.
    pub features: usize,
    /// Format of its result, that of all activations.
    #[gin(default = Dtype::Float32)]
    pub dtype: Dtype,
    /// Format of logits, where the embedding also maps to them: float32. None is `dtype`.
    #[gin(default = None)]
    pub attend_dtype: Option<Dtype>,
    /// Initial values; flaxformer's default is not supported.
    pub embedding_init: InitFn,
    /// Only 'token_embedder' is supported.
    #[gin(default = EmbedderName)]
    pub name: EmbedderName,
}

/// Parameters of every bias of relative position.
#[derive(Clone, Debug, PartialEq, Parameters)]
pub struct BiasParameters {
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

/// T5's bias of relative position: one number for each head and bucket of distances. Source: flaxformer
/// `components/relative_position_biases.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flaxformer.components.relative_position_biases.RelativePositionBiases",
    ignored(head_axis_name = "axes have T5X's names"),
    ignored(on_device_computation = "buckets are computed on the host")
)]
pub struct RelativePositionBiases {
    /// Parameters of every bias of relative position.
    #[gin(flatten)]
    pub bias: BiasParameters,
}
