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
    /// The learned vector that multiplies its inputs or its results, if there is one.
    pub scale: Option<KernelScale>,
}

/// A learned vector that multiplies the inputs of a kernel, or its results (IA3; Liu et al. 2022, arXiv:2205.05638). Source:
/// prompt-tuning `extended/train/ia3.py`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelScale {
    /// The name of the vector.
    pub name: String,
    /// The side of the kernel on which it multiplies.
    pub side: ScaledSide,
}

/// A side of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaledSide {
    /// Its inputs.
    Inputs,
    /// Its results.
    Results,
}

impl KernelScale {
    /// The vector in the layer or part of that path.
    pub fn new(path: &str, side: ScaledSide) -> Self {
        Self { name: format!("{path}/ia3_scaling"), side }
    }

    /// The vector as a parameter, which begins with ones.
    pub fn param(&self, shape: &[usize], axes: &[&'static str]) -> ParamSpec {
        param(self.name.clone(), shape.to_vec(), axes.to_vec(), Initializer::ONES)
    }
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
