//! The feed-forward block of a layer, laid out for predictions.

use tch::Tensor;

use super::spec::T5Config;
use crate::nn::{Activation, PackedKernel, activated_product};

/// A layer's feed-forward block with its norm and residual, in the compute dtype.
#[derive(Debug)]
pub(super) struct PackedMlp {
    norm: Tensor,
    inputs: PackedKernel, // [embed, mlp] where it is gated, else [embed, activations * mlp]
    activations: Vec<Activation>, // of what the product leaves to do
    output: PackedKernel,
}

impl PackedMlp {
    /// Creates it for products with `rows` rows. `read` returns the layer's parameter of a name.
    pub fn new(config: &T5Config, rows: i64, read: impl Fn(&str) -> Tensor) -> Self {
        let names = config.input_projections();
        let kernels: Vec<_> =
            names.iter().map(|name| read(&format!("mlp/{name}/kernel"))).collect();
        let (inputs, activations) = match (&config.mlp_activations[..], &kernels[..]) {
            ([Activation::Gelu, Activation::Linear], [gate, linear]) => {
                (PackedKernel::gated_gelu([gate, linear], rows), Vec::new())
            }
            (activations, _) => {
                (PackedKernel::new(&Tensor::cat(&kernels, 1), rows), activations.to_vec())
            }
        };
        Self {
            norm: read("pre_mlp_layer_norm/scale"),
            inputs,
            activations,
            output: PackedKernel::new(&read("mlp/wo/kernel"), rows),
        }
    }

    /// Whether its products apply the activations too.
    pub fn is_all_packed(&self) -> bool {
        self.activations.is_empty()
    }

    /// Maps `[rows, embed]` to the same shape.
    pub fn forward(&self, hidden: &Tensor) -> Tensor {
        let product = self.inputs.apply_to_normal(hidden, &self.norm);
        let product = if self.activations.is_empty() {
            product
        } else {
            let parts = product.chunk(self.activations.len() as i64, -1);
            activated_product(&self.activations, &parts)
        };
        self.output.apply_and_add(&product, hidden)
    }
}
