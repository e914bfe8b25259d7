//! RMS normalization, alone or after the sum that is its input.
//!
//! Autograd would keep the input in float32 and the factor of the scale; this operation keeps the
//! input in its own dtype and one number a row.

use tch::{Kind, Tensor};

use super::kernels::{self, Kernel};
use crate::nn::Dropout;
use crate::nn::autograd::custom_function;
use crate::nn::profiler::{Activity, part};

/// The kernel keeps a row in registers.
const WIDEST_ROW: i64 = 8192;
/// Blocks among which the kernel divides the rows of the scale's gradient; a few per
/// multiprocessor.
const SCALE_PARTS: i64 = 512;

/// The parameters of a root-mean-square norm.
#[derive(Debug)]
pub struct RmsNorm {
    /// The learned factors, `[embed]`.
    pub scale: Tensor,
    /// The addend of the mean square.
    pub epsilon: f64,
}

/// Root-mean-square normalization over the last axis (Zhang & Sennrich 2019, arXiv:1910.07467), without
/// mean or bias. Computed in float32, cast to the dtype of the scale, then scaled.
pub fn rms_norm(inputs: &Tensor, norm: &RmsNorm) -> Tensor {
    let _part = part(Activity::Elementwise);
    let scale = &norm.scale;
    let rows = tch::no_grad(|| Rows::norm(inputs.detach(), norm));
    let (normal, backward) = (rows.normal.shallow_clone(), Backward::new(rows, scale, None));
    let gradients = move |of: Vec<Tensor>| {
        let (input, _, scale) = backward.gradients(&of[0], None);
        vec![input, scale]
    };
    custom_function(&[inputs, scale], vec![normal], gradients).remove(0)
}

/// Returns the sum of the residual stream `[batch, length, embed]` and a branch of that shape, with
/// dropout by one mask along the length; and the [`rms_norm`] of it.
pub fn add_and_norm(
    residual: &Tensor,
    branch: &Tensor,
    norm: &RmsNorm,
    dropout: Dropout,
) -> (Tensor, Tensor) {
    let _part = part(Activity::Elementwise);
    let scale = &norm.scale;
    let (rows, mask) = tch::no_grad(|| {
        let mask = dropout.mask_along_length(branch);
        (Rows::add_and_norm(residual, branch, norm, mask.as_ref()), mask)
    });
    let outputs = vec![rows.sum.shallow_clone(), rows.normal.shallow_clone()];
    let kept = Rows { sum: rows.sum.detach(), ..rows };
    let backward = Backward::new(kept, scale, mask);
    let gradients = move |of: Vec<Tensor>| {
        let (residual, branch, scale) = backward.gradients(&of[1], Some(&of[0]));
        vec![residual, branch, scale]
    };
    let mut outputs = custom_function(&[residual, branch, scale], outputs, gradients);
    let normal = outputs.remove(1);
    (outputs.remove(0), normal)
}

/// The results of a forward pass.
struct Rows {
    sum: Tensor,         // [.., embed]
    normal: Tensor,      // [.., embed]
    inverse_rms: Tensor, // float32 [.., 1]
}

impl Rows {
    fn norm(inputs: Tensor, norm: &RmsNorm) -> Self {
        let RmsNorm { scale, epsilon } = norm;
        if fits(&inputs, scale) {
            let (inputs, absent) = (inputs.contiguous(), Tensor::new());
            return Self::by_kernel([&inputs, &absent, &absent], norm, &inputs);
        }
        let wide = inputs.to_kind(Kind::Float);
        let squares = wide.square();
        let inverse_rms = (squares.mean_dim(-1, true, Kind::Float) + *epsilon).rsqrt_();
        // The squares' memory becomes the normal's.
        let normal = wide.mul_out(&squares, &inverse_rms).to_kind(scale.kind()).g_mul_(scale);
        Self { sum: inputs, normal, inverse_rms }
    }

    fn add_and_norm(
        residual: &Tensor,
        branch: &Tensor,
        norm: &RmsNorm,
        mask: Option<&Tensor>,
    ) -> Self {
        // The kernel reads one mask for all positions of a row.
        let fits_mask = mask.is_none_or(|mask| mask.size()[mask.dim() - 2] == 1);
        if fits_mask && fits(residual, &norm.scale) && residual.kind() == branch.kind() {
            let (residual, branch) = (residual.contiguous(), branch.contiguous());
            let (sum, absent) = (residual.empty_like(), Tensor::new());
            return Self::by_kernel([&residual, &branch, mask.unwrap_or(&absent)], norm, &sum);
        }
        let sum = match mask {
            Some(mask) => residual.addcmul(branch, mask),
            None => residual + branch,
        };
        Self::norm(sum, norm)
    }

    /// Runs the kernel; `sum` is the tensor for the sum, or the input if there is no branch.
    fn by_kernel([residual, branch, mask]: [&Tensor; 3], norm: &RmsNorm, sum: &Tensor) -> Self {
        let mut rows = residual.size();
        *rows.last_mut().expect("activations have axes") = 1;
        let normal = residual.empty_like();
        let inverse_rms = Tensor::empty(rows, (Kind::Float, residual.device()));
        let tensors = [residual, branch, mask, &norm.scale, sum, &normal, &inverse_rms];
        kernels::launch(c"rms_norm", &tensors, &[norm.epsilon]);
        Self { sum: sum.shallow_clone(), normal, inverse_rms }
    }
}

/// The inputs of a backward pass.
struct Backward {
    sum: Tensor,
    inverse_rms: Tensor,
    scale: Tensor,
    mask: Option<Tensor>, // [batch, 1, embed]
}

impl Backward {
    fn new(rows: Rows, scale: &Tensor, mask: Option<Tensor>) -> Self {
        let Rows { sum, inverse_rms, .. } = rows;
        Self { sum, inverse_rms, scale: scale.detach(), mask }
    }

    /// Returns gradients of the residual stream, the branch and the scale from that of the normal
    /// and, unless the sum is the input itself, of the sum.
    fn gradients(&self, normal: &Tensor, sum: Option<&Tensor>) -> (Tensor, Tensor, Tensor) {
        let _part = part(Activity::Elementwise);
        if fits(&self.sum, &self.scale) {
            return self.gradients_by_kernel(normal, sum);
        }
        let wide_scale = self.scale.to_kind(Kind::Float);
        let gradient = normal.to_kind(Kind::Float);
        let mut unscaled = self.sum.to_kind(Kind::Float) * &self.inverse_rms;
        let width = self.scale.size()[0];
        let product = (&gradient * &unscaled).reshape([-1, width]);
        let scale = product.sum_dim_intlist(0, false, Kind::Float).to_kind(self.scale.kind());
        let mean = (product.mv(&wide_scale) / width as f64).view_as(&self.inverse_rms);
        let mut residual = gradient * wide_scale;
        residual -= unscaled.g_mul_(&mean);
        let residual = residual.g_mul_(&self.inverse_rms).to_kind(self.sum.kind());
        let residual = match sum {
            Some(sum) => residual + sum,
            None => residual,
        };
        let branch = self.branch_gradient(&residual);
        (residual, branch, scale)
    }

    fn gradients_by_kernel(
        &self,
        normal: &Tensor,
        sum: Option<&Tensor>,
    ) -> (Tensor, Tensor, Tensor) {
        let absent = Tensor::new();
        let (normal, sum) = (normal.contiguous(), sum.map(Tensor::contiguous));
        let residual = self.sum.empty_like();
        let branch = self.mask.as_ref().map(|_| residual.empty_like());
        let parts = self.inverse_rms.numel().min(SCALE_PARTS as usize) as i64;
        let width = self.scale.size()[0];
        let scales = Tensor::empty([parts, width], (Kind::Float, residual.device()));
        let tensors = [
            &normal,
            sum.as_ref().unwrap_or(&absent),
            self.mask.as_ref().unwrap_or(&absent),
            &self.sum,
            &self.scale,
            &self.inverse_rms,
            &residual,
            branch.as_ref().unwrap_or(&absent),
            &scales,
        ];
        kernels::launch(c"rms_norm_backward", &tensors, &[]);
        let scale = scales.sum_dim_intlist(0, false, Kind::Float).to_kind(self.scale.kind());
        let branch = branch.unwrap_or_else(|| residual.shallow_clone());
        (residual, branch, scale)
    }

    fn branch_gradient(&self, residual: &Tensor) -> Tensor {
        match &self.mask {
            Some(mask) => residual * mask,
            None => residual.shallow_clone(),
        }
    }
}

/// Whether the kernel accepts such rows: everything it reads and writes is of one dtype.
fn fits(rows: &Tensor, scale: &Tensor) -> bool {
    rows.kind() == scale.kind() && kernels::suit(Kernel::Norm, rows, WIDEST_ROW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Device;

    fn random(size: &[i64], kind: Kind) -> Tensor {
        Tensor::randn(size, (Kind::Float, Device::Cpu)).to_kind(kind)
    }

    /// The formula, for autograd.
    fn textbook(inputs: &Tensor, norm: &RmsNorm) -> Tensor {
        let RmsNorm { scale, epsilon } = norm;
        let wide = inputs.to_kind(Kind::Float);
        let mean_square = wide.square().mean_dim(-1, true, Kind::Float);
        (wide * (mean_square + *epsilon).rsqrt()).to_kind(scale.kind()) * scale
    }

    fn check_close(found: &[Tensor], expected: &[Tensor], tolerance: f64) {
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(found.kind(), expected.kind());
            let wide = expected.to_kind(Kind::Double);
            let error = (found.to_kind(Kind::Double) - &wide).norm() / wide.norm();
            let error = error.double_value(&[]);
            assert!(error < tolerance, "relative error {error}");
        }
    }

    /// Compares values and gradients of the sum and its norm with autograd's, in `kind`.
    fn check(kind: Kind, dropout: Dropout, tolerance: f64) {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tch::manual_seed(1);
        let [residual, branch] = [(); 2].map(|()| random(&[3, 5, 16], kind));
        let scale = random(&[16], kind);
        let [residual, branch, scale] =
            [residual, branch, scale].map(|tensor| tensor.set_requires_grad(true));
        let norm = RmsNorm { scale: scale.shallow_clone(), epsilon: 1e-6 };
        let weights = [(); 2].map(|()| random(&[3, 5, 16], kind));
        let results = |fused: bool| {
            tch::manual_seed(2);
            let (sum, normal) = if fused {
                add_and_norm(&residual, &branch, &norm, dropout)
            } else {
                let sum = dropout.apply_along_length(branch.shallow_clone()) + &residual;
                let normal = textbook(&sum, &norm);
                (sum, normal)
            };
            let loss =
                (&sum * &weights[0]).sum(Kind::Float) + (&normal * &weights[1]).sum(Kind::Float);
            let mut all =
                Tensor::run_backward(&[loss], &[&residual, &branch, &scale], false, false);
            all.extend([sum.detach(), normal.detach()]);
            all
        };
        check_close(&results(true), &results(false), tolerance);
    }

    #[test]
    fn the_sum_and_its_norm_are_those_of_separate_operations() {
        check(Kind::Float, Dropout::off(), 1e-6);
        check(Kind::Float, Dropout::train(0.3), 1e-6);
        check(Kind::BFloat16, Dropout::off(), 1e-2);
        check(Kind::BFloat16, Dropout::train(0.3), 1e-2);
        check(Kind::Half, Dropout::train(0.3), 2e-3);
    }

    #[test]
    fn the_norm_alone_is_that_of_the_formula() {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tch::manual_seed(3);
        // A large epsilon shows that it is added at the right place.
        for (kind, epsilon, tolerance) in
            [(Kind::Float, 1e-6, 1e-6), (Kind::Float, 0.5, 1e-6), (Kind::BFloat16, 1e-6, 1e-2)]
        {
            let inputs = random(&[4, 7, 24], kind).set_requires_grad(true);
            let scale = random(&[24], kind).set_requires_grad(true);
            let weights = random(&[4, 7, 24], kind);
            let of = RmsNorm { scale: scale.shallow_clone(), epsilon };
            let results = |norm: fn(&Tensor, &RmsNorm) -> Tensor| {
                let normal = norm(&inputs, &of);
                let loss = (&normal * &weights).sum(Kind::Float);
                let mut all = Tensor::run_backward(&[loss], &[&inputs, &scale], false, false);
                all.push(normal.detach());
                all
            };
            check_close(&results(rms_norm), &results(textbook), tolerance);
        }
    }
}
