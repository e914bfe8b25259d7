//! Embedding and the feed-forward block.

use tch::{Kind, Tensor};

use super::dropout::Dropout;
use super::fused::gated_gelu;
use super::params::Params;
use super::profiler::{Activity, part};
use super::projection::{Projection, Projections};
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
    let _part = part(Activity::Embeddings);
    // Rows are cast after the lookup, with the same result as a cast of the whole table.
    Tensor::embedding(embedding, tokens, -1, false, false).to_kind(kind)
}

/// Applies the activation, elementwise.
fn activate(activation: Activation, inputs: &Tensor) -> Tensor {
    let _part = part(Activity::Elementwise);
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

/// Returns the product of one activation of each part, elementwise.
pub fn activated_product(activations: &[Activation], parts: &[Tensor]) -> Tensor {
    let activated = activations.iter().zip(parts).map(|(a, part)| activate(*a, part));
    activated.reduce(|a, b| a * b).expect("a feed-forward block has activations")
}

/// The feed-forward block: the product of one activation per input projection, projected back.
#[derive(Debug)]
pub struct Mlp {
    inputs: Projections, // one for each activation, [embed, mlp]
    activations: Vec<Activation>,
    output: Projection, // [mlp, embed]
}

impl Mlp {
    /// Reads `{prefix}/{projection}/kernel` and `{prefix}/wo/kernel`.
    pub fn new(
        params: &Params,
        prefix: &str,
        projections: impl IntoIterator<Item = (Activation, String)>,
        kind: Kind,
    ) -> Self {
        let projection = |name: &str| Projection::new(params, &format!("{prefix}/{name}"), kind);
        let inputs = projections.into_iter();
        let (activations, inputs): (_, Vec<Projection>) =
            inputs.map(|(activation, name)| (activation, projection(&name))).unzip();
        Self { inputs: Projections::new(inputs), activations, output: projection("wo") }
    }

    /// Maps `[batch, length, embed]` to the same shape.
    pub fn forward(&self, inputs: &Tensor, dropout: Dropout) -> Tensor {
        self.output.forward(&dropout.apply_along_length(self.product(inputs)))
    }

    fn product(&self, inputs: &Tensor) -> Tensor {
        let inputs = self.inputs.forward(inputs);
        if let [Activation::Gelu, Activation::Linear] = &self.activations[..] {
            return gated_gelu(&inputs);
        }
        activated_product(&self.activations, &inputs.parts())
    }
}
