//! Gated GELU, `gelu(gate) * linear` with the tanh approximation (Shazeer 2020, arXiv:2002.05202).
//!
//! Autograd would keep the activation beside both factors; this operation computes it again.

use tch::Tensor;

use super::kernels::{self, Kernel};
use crate::nn::Joined;
use crate::nn::autograd::custom_function;
use crate::nn::profiler::{Activity, part};

/// Returns `gelu(gate) * linear`, elementwise, of `factors`, which are gate and linear:
/// `[.., mlp]`, as each of them.
pub fn gated_gelu(factors: &Joined) -> Tensor {
    let _part = part(Activity::Elementwise);
    let read: Vec<&Tensor> = factors.wholes().iter().collect();
    let factors = Factors::new(factors.detach());
    let product = tch::no_grad(|| factors.product());
    let gradients = move |of: Vec<Tensor>| factors.gradients(&of[0]);
    custom_function(&read, vec![product], gradients).remove(0)
}

struct Factors {
    joined: Joined,
    gate: Tensor,
    linear: Tensor,
}

impl Factors {
    fn new(joined: Joined) -> Self {
        let [gate, linear] = joined.parts().try_into().expect("gate and linear");
        Self { joined, gate, linear }
    }

    fn product(&self) -> Tensor {
        let Some([gate, linear]) = self.matrices() else {
            return self.gate.gelu("tanh").g_mul_(&self.linear);
        };
        let product = Tensor::empty(self.gate.size(), (gate.kind(), gate.device()));
        kernels::launch(c"gated_gelu", &[&gate, &linear, &product], &[]);
        product
    }

    /// Returns gradients of the inputs, in the same layout.
    fn gradients(&self, product: &Tensor) -> Vec<Tensor> {
        let _part = part(Activity::Elementwise);
        let gradients = Self::new(self.joined.empty_like());
        match (self.matrices(), gradients.matrices()) {
            (Some([gate, linear]), Some([gate_gradient, linear_gradient])) => {
                let product = product.contiguous();
                let tensors = [&product, &gate, &linear, &gate_gradient, &linear_gradient];
                kernels::launch(c"gated_gelu_backward", &tensors, &[]);
            }
            _ => {
                let of_gelu = product * &self.linear;
                let of_gate = &gradients.gate;
                let _ = self.gate.gelu_backward_grad_input(of_gate, &of_gelu, "tanh");
                // The memory of one temporary tensor serves for both.
                let gelu = self.gate.gelu_out(&of_gelu, "tanh");
                let _ = gelu.mul_out(&gradients.linear, product);
            }
        }
        gradients.joined.into_wholes()
    }

    /// Returns both as `[rows, mlp]` views for the kernel, if it accepts them.
    fn matrices(&self) -> Option<[Tensor; 2]> {
        let width = self.gate.size()[self.gate.dim() - 1];
        let matrix = |tensor: &Tensor| tensor.reshape([-1, width]);
        kernels::suit(Kernel::GatedGelu, &self.gate, i64::MAX)
            .then(|| [matrix(&self.gate), matrix(&self.linear)])
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
        for (kind, tolerance) in [(Kind::Float, 1e-6), (Kind::BFloat16, 1e-2), (Kind::Half, 2e-3)] {
            let random = || Tensor::randn([3, 7, 16], (Kind::Float, Device::Cpu)).to_kind(kind);
            let [gate, linear] = [(); 2].map(|()| random().set_requires_grad(true));
            let weights = random();
            let results = |product: Tensor| {
                let loss = (&product * &weights).sum(Kind::Float);
                let mut all = Tensor::run_backward(&[loss], &[&gate, &linear], false, false);
                all.push(product.detach());
                all
            };
            let expected = results(gate.gelu("tanh") * &linear);
            let apart = vec![gate.shallow_clone(), linear.shallow_clone()];
            for wholes in [apart, vec![Tensor::cat(&[&gate, &linear], -1)]] {
                let found = results(gated_gelu(&Joined::new(wholes, 2)));
                for (found, expected) in found.iter().zip(&expected) {
                    assert_eq!(found.kind(), kind);
                    assert!(found.allclose(expected, tolerance, tolerance, false));
                }
            }
        }
    }
}
