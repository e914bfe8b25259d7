//! Norms of tensors, and scaling of gradients to a greatest norm.

use tch::{Kind, Tensor};

use super::parts::OwnPart;

/// Scales all gradients so that their joint norm is at most `threshold`; the norm by which they are divided has an addend.
pub(super) fn clip_global_norm(grads: &[(&Tensor, &OwnPart)], threshold: f64, addend: f64) {
    let Some((_, first)) = grads.first() else { return };
    let own = |(grad, part): &(&Tensor, &OwnPart)| part.shared(square_sum(grad));
    let squares: Vec<Tensor> = grads.iter().map(own).collect();
    let square = Tensor::stack(&squares, 0).sum(Kind::Float);
    first.peers().sum_in_place(&square);
    let scale = (square.sqrt() + addend).reciprocal().clamp_max(1.0 / threshold) * threshold;
    for (grad, _) in grads {
        let _ = grad.shallow_clone().g_mul_(&scale);
    }
}

/// Returns the root mean square over `dims`, which stay with size 1.
pub(super) fn root_mean_square(tensor: &Tensor, dims: &[usize]) -> Tensor {
    // In two steps: libtorch's norm of many millions of numbers loses four digits in one.
    let Some((last, rest)) = dims.split_last() else {
        return tensor.abs();
    };
    let norm = |tensor: &Tensor, dims: &[usize]| {
        tensor.norm_scalaropt_dim(2.0, as_dims(dims).as_slice(), true)
    };
    let inner = norm(tensor, &[*last]);
    let whole = if rest.is_empty() { inner } else { norm(&inner, rest) };
    let count: i64 = dims.iter().map(|&dim| tensor.size()[dim]).product();
    whole / (count as f64).sqrt()
}

/// Returns the root of the sum of squares, a scalar.
pub(super) fn norm(tensor: &Tensor) -> Tensor {
    square_sum(tensor).sqrt()
}

/// The sum of squares, a scalar.
pub(super) fn square_sum(tensor: &Tensor) -> Tensor {
    let dims: Vec<usize> = (0..tensor.dim()).collect();
    let mean_root = root_mean_square(tensor, &dims);
    mean_root.square().sum(Kind::Float) * tensor.numel() as f64
}

pub(super) fn as_dims(dims: &[usize]) -> Vec<i64> {
    dims.iter().map(|&dim| dim as i64).collect()
}
