//! Embedding and the feed-forward block.

use tch::{Kind, Tensor};

use super::dropout::Dropout;
use super::fused::gated_gelu;
use super::params::Params;
use super::spec::{Activation, Dtype};

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
        dropout.apply_along_length(self.product(inputs)).matmul(&self.output)
    }

    fn product(&self, inputs: &Tensor) -> Tensor {
        let project = |(_, kernel): &(Activation, Tensor)| inputs.matmul(kernel);
        if let [gate @ (Activation::Gelu, _), linear @ (Activation::Linear, _)] = &self.inputs[..] {
            return gated_gelu(&project(gate), &project(linear));
        }
        let activated = self.inputs.iter().map(|input| activate(input.0, &project(input)));
        activated.reduce(|a, b| a * b).expect("a feed-forward block has activations")
    }
}
