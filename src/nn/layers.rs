//! Embedding and activations.

use tch::{Kind, Tensor};

use super::fused::gated_gelu;
use super::joined::Joined;
use super::profiler::{Activity, part};
use super::spec::{Activation, Dtype};

/// Torch's name of a dtype.
pub fn kind(dtype: Dtype) -> Kind {
    match dtype {
        Dtype::Float32 => Kind::Float,
        Dtype::Bfloat16 => Kind::BFloat16,
        Dtype::Float16 => Kind::Half,
    }
}

/// Rows of `embedding` `[vocab, embed]` for int64 `tokens` of any shape, in `kind`. The first row has no gradient unless
/// `learns_first`.
pub fn embed(embedding: &Tensor, tokens: &Tensor, kind: Kind, learns_first: bool) -> Tensor {
    let _part = part(Activity::Embeddings);
    // Rows are cast after the lookup, with the same result as a cast of the whole table.
    let without_gradient = if learns_first { -1 } else { 0 };
    Tensor::embedding(embedding, tokens, without_gradient, false, false).to_kind(kind)
}

/// Applies the activation, elementwise.
fn activate(activation: Activation, inputs: &Tensor) -> Tensor {
    let _part = part(Activity::Elementwise);
    match activation {
        Activation::Relu => inputs.relu(),
        Activation::Gelu => inputs.gelu("tanh"),
        Activation::GeluExact => inputs.gelu("none"),
        Activation::Linear => inputs.shallow_clone(),
        Activation::Silu | Activation::Swish => inputs.silu(),
        Activation::Sigmoid => inputs.sigmoid(),
        Activation::Tanh => inputs.tanh(),
        Activation::Elu => inputs.elu(),
        Activation::Softplus => inputs.softplus(),
    }
}

/// Returns the product of one activation of each part, elementwise: `[.., width]`. Without
/// activations there is one part, as it is.
pub fn activated(activations: &[Activation], inputs: &Joined) -> Tensor {
    if let [Activation::Gelu, Activation::Linear] = activations {
        return gated_gelu(inputs);
    }
    let parts = inputs.parts();
    let activated = activations.iter().zip(&parts).map(|(a, part)| activate(*a, part));
    activated.reduce(|a, b| a * b).unwrap_or_else(|| parts[0].shallow_clone())
}
