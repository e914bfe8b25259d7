//! Gated GELU, `gelu(gate) * linear` with the tanh approximation (Shazeer 2020, arXiv:2002.05202).
//!
//! Autograd would keep the activation beside both factors; this computes it again.

use tch::Tensor;

use super::kernels;
use crate::nn::autograd::custom_function;
use crate::nn::profiler::{Part, part};

/// `gelu(gate) * linear`, elementwise; both `[.., mlp]` and of one dtype.
pub fn gated_gelu(gate: &Tensor, linear: &Tensor) -> Tensor {
    let _part = part(Part::Elementwise);
    let factors = Factors { gate: gate.detach(), linear: linear.detach() };
    let product = tch::no_grad(|| factors.product());
    let gradients = move |of: Vec<Tensor>| factors.gradients(&of[0]).into();
    custom_function(&[gate, linear], vec![product], gradients).remove(0)
}

struct Factors {
    gate: Tensor,
    linear: Tensor,
}

impl Factors {
    fn product(&self) -> Tensor {
        let Some([gate, linear]) = self.matrices() else {
            return self.gate.gelu("tanh").g_mul_(&self.linear);
        };
        let product = Tensor::empty(self.gate.size(), (gate.kind(), gate.device()));
        kernels::launch(c"gated_gelu", &[&gate, &linear, &product], &[]);
        product
    }

    /// Gradients of the gate and of what it multiplies.
    fn gradients(&self, product: &Tensor) -> [Tensor; 2] {
        let _part = part(Part::Elementwise);
        let Some([gate, linear]) = self.matrices() else {
            let of_gelu = product * &self.linear;
            let gate = self.gate.gelu_backward(&of_gelu, "tanh");
            return [gate, self.gate.gelu("tanh").g_mul_(product)];
        };
        let product = product.contiguous();
        let gradients = [product.empty_like(), product.empty_like()];
        let tensors = [&product, &gate, &linear, &gradients[0], &gradients[1]];
        kernels::launch(c"gated_gelu_backward", &tensors, &[]);
        gradients
    }

    /// Both as `[rows, mlp]` for the kernel, if it takes them.
    fn matrices(&self) -> Option<[Tensor; 2]> {
        let suits = |tensor: &Tensor| kernels::suit(tensor, i64::MAX);
        let [gate, linear] = [&self.gate, &self.linear];
        if gate.kind() != linear.kind() || !suits(gate) || !suits(linear) {
            return None;
        }
        let width = gate.size()[gate.dim() - 1];
        // Halves of one matrix stay where they are.
        Some([gate, linear].map(|tensor| tensor.reshape([-1, width])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    #[test]
    fn product_and_gradients_are_those_of_separate_operations() {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tch::manual_seed(4);
        for (kind, tolerance) in [(Kind::Float, 1e-6), (Kind::BFloat16, 1e-2)] {
            let random = || Tensor::randn([3, 7, 16], (Kind::Float, Device::Cpu)).to_kind(kind);
            let [gate, linear] = [(); 2].map(|()| random().set_requires_grad(true));
            let weights = random();
            let results = |product: Tensor| {
                let loss = (&product * &weights).sum(Kind::Float);
                let mut all = Tensor::run_backward(&[loss], &[&gate, &linear], false, false);
                all.push(product.detach());
                all
            };
            let found = results(gated_gelu(&gate, &linear));
            let expected = results(gate.gelu("tanh") * &linear);
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(found.kind(), kind);
                assert!(found.allclose(expected, tolerance, tolerance, false));
            }
        }
    }
}
