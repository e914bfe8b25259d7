//! Kernels laid out once for many products with few rows, as steps of decoding are.

use std::ffi::c_char;

use tch::Tensor;

use super::autograd::{RawTensor, check, raw};

unsafe extern "C" {
    fn gimlet_pack_kernel(transposed: RawTensor, rows: i64, packed: RawTensor) -> *mut c_char;
    fn gimlet_packed_product(
        inputs: RawTensor,
        packed: RawTensor,
        result: RawTensor,
    ) -> *mut c_char;
}

/// A kernel of a product with few rows, without a gradient.
#[derive(Debug)]
pub enum PackedKernel {
    /// `[in, out]`, as it is.
    Plain(Tensor),
    /// In oneDNN's own layout.
    OneDnn(Tensor),
}

impl PackedKernel {
    /// `kernel` `[in, out]`, to be multiplied by inputs of `rows` rows.
    pub fn new(kernel: &Tensor, rows: i64) -> Self {
        if kernel.device().is_cuda() {
            return Self::Plain(kernel.detach().contiguous());
        }
        let (transposed, packed) = (kernel.detach().tr().contiguous(), Tensor::new());
        // SAFETY: both tensors outlive the call.
        check(unsafe { gimlet_pack_kernel(raw(&transposed), rows, raw(&packed)) });
        Self::OneDnn(packed)
    }

    /// `[rows, in]` to `[rows, out]`.
    pub fn apply(&self, inputs: &Tensor) -> Tensor {
        match self {
            Self::Plain(kernel) => inputs.matmul(kernel),
            Self::OneDnn(packed) => {
                let result = Tensor::new();
                // SAFETY: the tensors outlive the call.
                check(unsafe { gimlet_packed_product(raw(inputs), raw(packed), raw(&result)) });
                result
            }
        }
    }
}
