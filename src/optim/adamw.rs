//! AdamW's step on tensors, equal to optax's in float32 up to rounding.

use tch::{Kind, Tensor};

use super::optax::AdamW;
use super::optimizer::ParamState;
use super::spec::OptimError;
use crate::nn::bridge::{FusedAdamW, fused_adamw};

/// Indices of the state's arrays, in the order of the layout's slots.
const MU: usize = 0;
const NU: usize = 1;

/// The values that all parameters share in one update.
#[derive(Debug)]
pub(super) struct Update {
    spec: AdamW,
    learning_rate: f64,
    /// The number of this update, from 1.
    number: i64,
}

impl Update {
    /// Prepares the update that follows `count` others.
    pub(super) fn new(spec: &AdamW, count: i64) -> Result<Self, OptimError> {
        let learning_rate = spec.learning_rate(count)?;
        Ok(Self { spec: spec.clone(), learning_rate, number: count + 1 })
    }

    /// Updates parameters and their states.
    pub(super) fn apply(&self, updated: Vec<(Tensor, Tensor, &mut ParamState)>) {
        // libtorch's kernel supports neither Nesterov's moment nor a floor under the root, and
        // keeps both moments in one format.
        let spec = &self.spec;
        if !spec.nesterov && spec.eps_root == 0.0 && spec.mu_dtype.is_none_or(|d| d.size() == 4) {
            return self.apply_fused(updated);
        }
        for (param, grad, state) in updated {
            self.apply_one(param, grad, state);
        }
    }

    /// Updates with one kernel for as many tensors as fit into its arguments.
    fn apply_fused(&self, updated: Vec<(Tensor, Tensor, &mut ParamState)>) {
        let Some((first, ..)) = updated.first() else { return };
        let number = Tensor::full([], self.number as f64, (Kind::Float, first.device()));
        let (mut params, mut grads) = (Vec::new(), Vec::new());
        let (mut means, mut squares) = (Vec::new(), Vec::new());
        for (param, grad, state) in updated {
            means.push(state.arrays[MU].shallow_clone());
            squares.push(state.arrays[NU].shallow_clone());
            params.push(param);
            grads.push(grad);
        }
        let AdamW { b1, b2, eps, weight_decay, .. } = self.spec;
        let learning_rate = self.learning_rate;
        let factors = FusedAdamW { learning_rate, b1, b2, eps, weight_decay };
        fused_adamw(&factors, [&params, &grads, &means, &squares], &number);
    }

    /// Applies optax's formula; the gradient's memory is used as scratch space.
    fn apply_one(&self, mut param: Tensor, grad: Tensor, state: &mut ParamState) {
        let AdamW { b1, b2, eps, eps_root, weight_decay, nesterov, .. } = self.spec;
        // Optax scales the old mean in its storage format.
        let old = &state.arrays[MU];
        let narrow_b1 = Tensor::from(b1).to_kind(old.kind()).double_value(&[]);
        let kept = (old.to_kind(Kind::Float) * narrow_b1).to_kind(old.kind());
        let mean = kept.to_kind(Kind::Float) + &grad * (1.0 - b1);
        let square = &mut state.arrays[NU];
        let _ = square.g_mul_scalar_(b2);
        let _ = square.g_add_(&(grad.square() * (1.0 - b2)));
        let corrected = match nesterov {
            true => {
                let ahead = &mean * (b1 / correction(b1, self.number + 1));
                ahead + grad * ((1.0 - b1) / correction(b1, self.number))
            }
            false => &mean / correction(b1, self.number),
        };
        let root = (&*square / correction(b2, self.number) + eps_root).sqrt() + eps;
        let update = corrected / root + &param * weight_decay;
        let _ = param.g_sub_(&(update * self.learning_rate));
        state.arrays[MU].copy_(&mean);
    }
}

/// Returns the divisor that corrects a mean of decay `decay`, which began at zero, after that many
/// updates. In float32, as in optax.
fn correction(decay: f64, updates: i64) -> f64 {
    f64::from(1.0 - (decay as f32).powf(updates as f32))
}
