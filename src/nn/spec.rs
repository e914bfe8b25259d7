//! The description of a parameter, without its values: name, shape, logical axes, initializer,
//! dtype.

use crate::gin::Configurable;

/// The number format of activations or parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum Dtype {
    /// IEEE single precision.
    Float32,
    /// The upper half of a float32.
    Bfloat16,
    /// IEEE half precision, for activations on GPUs: numbers up to 65504, and more digits than bfloat16 has.
    Float16,
}

impl Dtype {
    /// Bytes per element.
    pub fn size(self) -> u64 {
        match self {
            Dtype::Float32 => 4,
            Dtype::Bfloat16 | Dtype::Float16 => 2,
        }
    }
}

/// The number format of an optimizer's state, or of gradients on their way: one with the range of float32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum StateDtype {
    /// IEEE single precision.
    Float32,
    /// The upper half of a float32.
    Bfloat16,
}

impl From<StateDtype> for Dtype {
    fn from(dtype: StateDtype) -> Self {
        match dtype {
            StateDtype::Float32 => Self::Float32,
            StateDtype::Bfloat16 => Self::Bfloat16,
        }
    }
}

/// Options of projections in 8-bit floats, as in NVIDIA's Transformer Engine. Sums stay
/// float32, and everything else keeps the format of activations. Source: t5x `te_helper.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.te_helper.TransformerEngineConfig")]
pub struct TransformerEngineConfig {
    /// Whether projections compute in fp8; needs an H100 or newer, or a CPU. Its scales are not
    /// part of a checkpoint.
    #[gin(default = false)]
    pub enable_fp8: bool,
    /// The formats of inputs, kernels and gradients.
    #[gin(default = Fp8Format::Hybrid)]
    pub fp8_format: Fp8Format,
    /// Powers of two by which scaled tensors stay below the format's largest number.
    #[gin(default = 0.0)]
    pub margin: f64,
    /// Number of forward passes, one for each microbatch, whose largest magnitude scales a tensor;
    /// with 0, the magnitude of the current pass, which needs one more pass over the tensor.
    #[gin(default = 1024)]
    pub amax_history_len: usize,
}

/// The 8-bit formats of projections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum Fp8Format {
    /// 4 bits of exponent and 3 of mantissa for everything.
    E4m3,
    /// The same, but 5 bits of exponent and 2 of mantissa for gradients, whose magnitudes vary more.
    Hybrid,
}

/// The size of additions of low rank to kernels, and the dropout of their inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LowRankScale {
    /// An addition is multiplied by it, and divided by its rank.
    pub alpha: f64,
    /// Probability that an input of an addition is dropped in training.
    pub dropout_rate: f64,
}

/// The direction of attention: whether keys after the query have buckets of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelativePosition {
    /// Half the buckets for keys before the query, half for keys after it: the encoder.
    Bidirectional,
    /// Keys after the query share the bucket of distance 0: the decoder.
    Causal,
}

/// The greatest number of scores of an attention by blocks that are in memory at once, unless one block of queries has
/// more.
pub const SCORES_AT_ONCE: i64 = 1 << 23;

/// An elementwise nonlinearity, by its flax name (`flax.linen`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum Activation {
    /// `max(x, 0)`.
    Relu,
    /// The tanh approximation of GELU, flax's default (transformers: `gelu_new`).
    Gelu,
    /// GELU by the error function (transformers: `gelu`). flax has no name for it.
    GeluExact,
    /// The identity.
    Linear,
    /// `x * sigmoid(x)`.
    Silu,
    /// Another name of silu.
    Swish,
    /// The logistic function.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// `x` above 0, `exp(x) - 1` below.
    Elu,
    /// `log(1 + exp(x))`.
    Softplus,
}

impl Activation {
    /// Returns names as gin writes a tuple of them.
    pub fn tuple(names: &[&str]) -> String {
        let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
        match &quoted[..] {
            [one] => format!("({one},)"),
            all => format!("({})", all.join(", ")),
        }
    }
}

/// The kind of the norms of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// Root-mean-square norms, with a scale (Zhang & Sennrich 2019, arXiv:1910.07467).
    Rms,
    /// Layer norms, which subtract the mean, with a scale and a bias (Ba et al. 2016, arXiv:1607.06450).
    Layer,
}

/// The tensors that a layer keeps of its forward pass for its backward pass; the rest is
/// recomputed. Source:
/// T5X `examples/scalable_t5/network.py`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum RematPolicy {
    /// Everything: the fastest, and the most memory.
    None,
    /// Its input and the results of its projections. Norms, activations and attention weights are
    /// recomputed.
    Minimal,
    /// Its input only.
    Full,
}

/// The divisor of a variance; the last two axes are input and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum FanMode {
    /// The number of inputs.
    FanIn,
    /// The mean of the numbers of inputs and outputs.
    FanAvg,
}

/// The shape of a random draw of a given variance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum Distribution {
    /// Gaussian.
    Normal,
    /// Gaussian cut at two standard deviations, widened so that the variance stays (jax's way).
    TruncatedNormal,
    /// Gaussian cut at two standard deviations, with less variance than was asked for (TensorFlow's way).
    NarrowedTruncatedNormal,
    /// Flat around 0.
    Uniform,
}

/// The distribution of a parameter's initial values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initializer {
    /// One number everywhere.
    Constant {
        /// The number.
        value: f64,
    },
    /// Gaussian around 0.
    Normal {
        /// Standard deviation.
        stddev: f64,
    },
    /// Flat from 0 to below a number, as `jax.nn.initializers.uniform`.
    Uniform {
        /// The number.
        scale: f64,
    },
    /// Variance `scale / fan`, as `jax.nn.initializers.variance_scaling`.
    VarianceScaling {
        /// Numerator of the variance.
        scale: f64,
        /// Denominator of the variance.
        mode: FanMode,
        /// Shape of the draw.
        distribution: Distribution,
    },
}

impl Initializer {
    /// All ones.
    pub const ONES: Self = Self::Constant { value: 1.0 };

    /// All zeros.
    pub const ZEROS: Self = Self::Constant { value: 0.0 };

    /// The distribution of values that are multiplied by a factor after they are drawn.
    pub fn times(self, factor: f64) -> Self {
        match self {
            Self::Constant { value } => Self::Constant { value: value * factor },
            Self::Normal { stddev } => Self::Normal { stddev: stddev * factor },
            Self::Uniform { scale } => Self::Uniform { scale: scale * factor },
            Self::VarianceScaling { scale, mode, distribution } => {
                Self::VarianceScaling { scale: scale * factor * factor, mode, distribution }
            }
        }
    }

    /// The distribution of values that are divided by the square root of a number after they are drawn.
    pub fn over_sqrt(self, number: f64) -> Self {
        match self {
            Self::Constant { value } => Self::Constant { value: value / number.sqrt() },
            Self::Normal { stddev } => Self::Normal { stddev: stddev / number.sqrt() },
            Self::Uniform { scale } => Self::Uniform { scale: scale / number.sqrt() },
            Self::VarianceScaling { scale, mode, distribution } => {
                Self::VarianceScaling { scale: scale / number, mode, distribution }
            }
        }
    }
}

/// One parameter of a model. Initialization, optimizers, partitioning, checkpoints and reports read it.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamSpec {
    /// Path in T5X's parameter tree: `encoder/layers_0/mlp/wo/kernel`.
    pub name: String,
    /// Extent of each axis.
    pub shape: Vec<usize>,
    /// Logical name of each axis, for partitioning and factoring: `embed`, `mlp`, `joined_kv`.
    pub axes: Vec<&'static str>,
    /// Distribution of its initial values.
    pub initializer: Initializer,
    /// Format of its storage; T5 keeps float32 for any format of activations.
    pub dtype: Dtype,
    /// The parameters that the network reads instead of it, if it consists of those of layers or of several kernels.
    pub layers: Option<LayerParts>,
}

/// The parameters of which an array consists: those of layers, or kernels of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerParts {
    /// Path of each parameter, as the network reads it, with its initializer.
    pub parts: Vec<(String, Initializer)>,
    /// Its shape, with the heads of attentions joined.
    pub shape: Vec<usize>,
    /// The axis of the parts, unless the array has one only.
    pub axis: Option<usize>,
}

impl LayerParts {
    /// Whether the array has the axis number `dim` and the next one where the network reads one axis; `inner` is the shape
    /// of a layer.
    pub fn joined_dim(&self, inner: &[usize]) -> Option<usize> {
        (inner.len() > self.shape.len()).then(|| usize::from(inner[0] == self.shape[0]))
    }
}

impl ParamSpec {
    /// Number of elements.
    pub fn num_elements(&self) -> u64 {
        self.shape.iter().map(|&extent| extent as u64).product()
    }
}
