//! A projection: a kernel, and in what format inputs are multiplied with it.

use tch::{Kind, Tensor};

use super::fp8::Fp8Product;
use super::params::Params;
use super::profiler::{Part, part};
use super::remat::project;

/// Maps the last axis of activations by one kernel.
#[derive(Debug)]
pub struct Projection {
    kernel: Tensor, // [in, out]
    fp8: Option<Fp8Product>,
}

impl Projection {
    /// Reads `{prefix}/kernel` in the compute dtype; products with it are in fp8 if the model computes so.
    pub fn new(params: &Params, prefix: &str, kind: Kind) -> Self {
        let name = format!("{prefix}/kernel");
        Self { kernel: params.cast(&name, kind), fp8: params.fp8_product(&name) }
    }

    /// One whose results are smaller by that factor.
    pub fn over(self, divisor: f64) -> Self {
        Self { kernel: self.kernel / divisor, ..self }
    }

    /// `[.., in]` to `[.., out]`
    pub fn forward(&self, inputs: &Tensor) -> Tensor {
        let _part = part(Part::Products);
        match &self.fp8 {
            None => project(inputs, &self.kernel),
            Some(product) => product.matmul(inputs, &self.kernel),
        }
    }
}
