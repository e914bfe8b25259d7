//! Gradients of a loss that was multiplied by a scale, and whether all of them are finite.

use tch::{Kind, Tensor};

use crate::nn::Axes;

/// The scale by which a loss was multiplied, and the processes that make the update together or leave it out together.
#[derive(Clone, Debug)]
pub struct LossScale {
    /// The scale.
    pub scale: f64,
    /// The processes.
    pub axes: Axes,
}

impl LossScale {
    /// Whether the gradients of all processes are finite.
    pub(super) fn are_finite<'a>(&self, grads: impl Iterator<Item = &'a Tensor>) -> bool {
        // Sums in float64 of finite numbers are finite, and others do not vanish in them.
        let sums: Vec<Tensor> = grads.map(|grad| grad.sum(Kind::Double)).collect();
        let sum = Tensor::stack(&sums, 0).sum(Kind::Double);
        let is_broken = sum.isfinite().logical_not().to_kind(Kind::Float);
        self.axes.max_in_place(&is_broken);
        is_broken.double_value(&[]) == 0.0
    }
}
