//! Embedding, RMS normalization and the feed-forward block.

use tch::{Kind, Tensor};

use super::dropout::Dropout;
use super::params::Params;
use super::remat::project;
use super::spec::{Activation, Dtype};

/// Floor of the mean square under RMS normalization. T5X `layers.py`.
const EPSILON: f64 = 1e-6;

/// Torch's name of a dtype.
pub fn kind(dtype: Dtype) -> Kind {
    match dtype {
        Dtype::Float32 => Kind::Float,
        Dtype::Bfloat16 => Kind::BFloat16,
    }
}

/// Rows of `embedding` `[vocab, embed]` for int64 `tokens` of any shape, in `kind`.
pub fn embed(embedding: &Tensor, tokens: &Tensor, kind: Kind) -> Tensor {
    // Rows are cast after the lookup: the same numbers as casting the whole table.
    Tensor::embedding(embedding, tokens, -1, false, false).to_kind(kind)
}

/// Root-mean-square normalization over the last axis (Zhang & Sennrich 2019, arXiv:1910.07467), without
/// mean or bias. Computed in float32, cast to the dtype of `scale`, then scaled.
pub fn rms_norm(inputs: &Tensor, scale: &Tensor) -> Tensor {
    let wide = inputs.to_kind(Kind::Float);
    let mean_square = wide.square().mean_dim(-1, true, Kind::Float);
    let normal = wide * (mean_square + EPSILON).rsqrt();
    normal.to_kind(scale.kind()) * scale
}

/// The activation of that name, elementwise.
pub fn activate(activation: Activation, inputs: &Tensor) -> Tensor {
    match activation {
        Activation::Relu => inputs.relu(),
        Activation::Gelu => inputs.gelu("tanh"),
        Activation::Linear => inputs.shallow_clone(),
        Activation::Silu | Activation::Swish => inputs.silu(),
        Activation::Sigmoid => inputs.sigmoid(),
        Activation::Tanh => inputs.tanh(),
        Activation::Elu => inputs.elu(),
        Activation::Softplus => inputs.softplus(),
    }
}

/// The feed-forward block: the product of one activation per input projection, projected back.
#[derive(Debug)]
pub struct Mlp {
    inputs: Vec<(Activation, Tensor)>, // each [embed, mlp]
    output: Tensor,                    // [mlp, embed]
}

impl Mlp {
    /// Reads `{prefix}/{projection}/kernel` and `{prefix}/wo/kernel`.
    pub fn new(
        params: &Params,
        prefix: &str,
        projections: impl IntoIterator<Item = (Activation, String)>,
        kind: Kind,
    ) -> Self {
        let kernel = |name: &str| params.cast(&format!("{prefix}/{name}/kernel"), kind);
        let projections = projections.into_iter();
        let inputs = projections.map(|(activation, name)| (activation, kernel(&name))).collect();
        Self { inputs, output: kernel("wo") }
    }

    /// `[batch, length, embed]` to the same.
    pub fn forward(&self, inputs: &Tensor, dropout: Dropout) -> Tensor {
        let activated =
            self.inputs.iter().map(|(a, kernel)| activate(*a, &project(inputs, kernel)));
        let product = activated.reduce(|a, b| a * b).expect("a feed-forward block has activations");
        project(&dropout.apply_along_length(product), &self.output)
    }
}
