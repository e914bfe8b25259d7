//! Parameters of parts, by their names and axes. Source: T5X `examples/t5/layers.py`.

use crate::nn::{Dtype, Initializer, ParamSpec};

/// A kernel of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelSpec {
    /// Its path, without `/kernel`.
    pub path: String,
    /// The divisor of its products, and of its bias.
    pub divisor: Option<f64>,
    /// Whether `{path}/bias` is added to its products.
    pub has_bias: bool,
}

/// The kernel at a path.
pub fn kernel(
    path: &str,
    shape: [usize; 2],
    axes: [&'static str; 2],
    initializer: Initializer,
) -> ParamSpec {
    param(format!("{path}/kernel"), shape.to_vec(), axes.to_vec(), initializer)
}

/// The kernel at a path, and its bias, which begins with 0.
pub fn biased_kernel(
    path: &str,
    shape: [usize; 2],
    axes: [&'static str; 2],
    initializer: Initializer,
) -> [ParamSpec; 2] {
    let bias = param(format!("{path}/bias"), vec![shape[1]], vec![axes[1]], Initializer::ZEROS);
    [kernel(path, shape, axes, initializer), bias]
}

/// A parameter in float32.
pub fn param(
    name: String,
    shape: Vec<usize>,
    axes: Vec<&'static str>,
    initializer: Initializer,
) -> ParamSpec {
    ParamSpec { name, shape, axes, initializer, dtype: Dtype::Float32, layers: None }
}
