//! Kernels laid out once for many products with few rows, as steps of decoding are: the Rust side of
//! `bridge/packed.cpp`.

use std::ffi::c_char;
use std::ptr::null_mut;

use tch::{Kind, Tensor};

use super::autograd::{RawTensor, check, raw};
use super::fused::rms_norm;

/// Columns of a panel, as in `bridge/packed.cpp`.
const PANEL_COLUMNS: i64 = 32;
/// With more rows, reading the kernel is no longer what takes the time.
const MOST_ROWS: i64 = 32;

unsafe extern "C" {
    fn gimlet_packed_product(
        inputs: RawTensor,
        panels: RawTensor,
        out: i64,
        scale: RawTensor,
        residual: RawTensor,
        result: RawTensor,
    ) -> *mut c_char;
}

/// A kernel of products with few rows. No gradient goes through it.
#[derive(Debug)]
pub struct PackedKernel {
    kernel: Tensor,
    layout: Layout,
}

#[derive(Clone, Copy, Debug)]
enum Layout {
    /// `[in, out]`
    Plain,
    /// `[panels, in, 32]`, of which `out` columns count.
    Panels { out: i64 },
}

impl PackedKernel {
    /// `kernel` `[in, out]`, for inputs of `rows` rows in the same dtype.
    pub fn new(kernel: &Tensor, rows: i64) -> Self {
        let kernel = kernel.detach();
        if kernel.device().is_cuda() || rows > MOST_ROWS {
            return Self { kernel, layout: Layout::Plain };
        }
        let out = kernel.size()[1];
        Self { kernel: panels(&kernel), layout: Layout::Panels { out } }
    }

    /// `inputs` `[rows, in]` times the kernel: `[rows, out]`.
    pub fn apply(&self, inputs: &Tensor) -> Tensor {
        match self.layout {
            Layout::Plain => inputs.matmul(&self.kernel),
            Layout::Panels { out } => self.product(inputs, out, None, None),
        }
    }

    /// The same of `rms_norm(inputs, scale)`.
    pub fn apply_to_normal(&self, inputs: &Tensor, scale: &Tensor) -> Tensor {
        match self.layout {
            Layout::Plain => rms_norm(inputs, scale).matmul(&self.kernel),
            Layout::Panels { out } => self.product(inputs, out, Some(scale), None),
        }
    }

    /// The same, added to `residual` `[rows, out]`.
    pub fn apply_and_add(&self, inputs: &Tensor, residual: &Tensor) -> Tensor {
        match self.layout {
            Layout::Plain => inputs.matmul(&self.kernel) + residual,
            Layout::Panels { out } => self.product(inputs, out, None, Some(residual)),
        }
    }

    fn product(
        &self,
        inputs: &Tensor,
        out: i64,
        scale: Option<&Tensor>,
        residual: Option<&Tensor>,
    ) -> Tensor {
        let (inputs, result) = (inputs.contiguous(), Tensor::new());
        let optional = |tensor: Option<&Tensor>| tensor.map_or(null_mut(), raw);
        let (scale, residual) = (optional(scale), optional(residual));
        let (inputs, panels) = (raw(&inputs), raw(&self.kernel));
        // SAFETY: the tensors outlive the call; the bridge checks their shapes, and null is no tensor.
        check(unsafe { gimlet_packed_product(inputs, panels, out, scale, residual, raw(&result)) });
        result
    }
}

/// `[in, out]` to `[panels, in, 32]`, the last panel filled up with zeros.
fn panels(kernel: &Tensor) -> Tensor {
    let (inputs, out) = kernel.size2().expect("a kernel has two axes");
    let count = (out + PANEL_COLUMNS - 1) / PANEL_COLUMNS;
    let filled = match count * PANEL_COLUMNS - out {
        0 => kernel.shallow_clone(),
        missing => kernel.constant_pad_nd([0, missing]),
    };
    let panels = if kernel.kind() == Kind::BFloat16 {
        // The bridge reads two bfloat16 as halves of 32 bits: columns 0, 16, 1, 17, ...
        filled.view([inputs, count, 2, PANEL_COLUMNS / 2]).permute([1, 0, 3, 2]).contiguous()
    } else {
        filled.view([inputs, count, PANEL_COLUMNS]).transpose(0, 1).contiguous()
    };
    panels.view([count, inputs, PANEL_COLUMNS])
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Device;

    /// Each way of applying a packed kernel against plain operations in float32, within `tolerance` of the
    /// largest value.
    fn check_against_plain(kind: Kind, [rows, inputs, out]: [i64; 3], tolerance: f64) {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tch::manual_seed(5);
        let draw = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu)).to_kind(kind);
        let (kernel, given) = (draw(&[inputs, out]), draw(&[rows, inputs]));
        let (scale, residual) = (draw(&[inputs]), draw(&[rows, out]));
        let packed = PackedKernel::new(&kernel, rows);
        assert!(matches!(packed.layout, Layout::Panels { .. }));
        let wide = |tensor: &Tensor| tensor.to_kind(Kind::Float);
        let product = |inputs: &Tensor| wide(inputs).matmul(&wide(&kernel));
        let normal = rms_norm(&given, &scale);
        for (found, expected) in [
            (packed.apply(&given), product(&given)),
            (packed.apply_to_normal(&given, &scale), product(&normal)),
            (packed.apply_and_add(&given, &residual), product(&given) + wide(&residual)),
        ] {
            assert_eq!(found.kind(), kind);
            let error = (wide(&found) - &expected).abs().max().double_value(&[]);
            let largest = expected.abs().max().double_value(&[]);
            assert!(error < tolerance * largest, "{error} of {largest}, {rows} x {inputs} x {out}");
        }
    }

    #[test]
    fn packed_products_are_plain_products() {
        for size in [[8, 64, 96], [1, 7, 1], [11, 100, 333], [32, 40, 1000]] {
            check_against_plain(Kind::Float, size, 1e-6);
            check_against_plain(Kind::BFloat16, size, 1e-2);
        }
    }

    #[test]
    #[should_panic(expected = "inputs are not [rows, 7]")]
    fn inputs_of_another_width_are_refused() {
        let ones = |size: [i64; 2]| Tensor::ones(size, (Kind::Float, Device::Cpu));
        let _ = PackedKernel::new(&ones([7, 3]), 2).apply(&ones([2, 8]));
    }
}
