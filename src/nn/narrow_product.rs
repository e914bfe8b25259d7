//! Products with float32 results whose factors are multiplied as bfloat16: the Rust side of
//! `bridge/narrow_product.cpp`.

use std::ffi::c_char;

use tch::{Device, Kind, Tensor};

use super::autograd::{RawTensor, check, raw};

#[repr(C)]
struct RawProduct {
    first: RawTensor,
    second: RawTensor,
    scale: f64,
    halves: bool,
    add: bool,
}

unsafe extern "C" {
    safe fn gimlet_narrow_products_suit() -> bool;
    fn gimlet_narrow_product(product: RawProduct, result: RawTensor) -> *mut c_char;
}

/// A product of two matrices: on a CPU float32 or bfloat16 ones, on CUDA bfloat16 ones alone.
#[derive(Debug)]
pub struct NarrowProduct<'a> {
    /// `[rows, depth]`
    pub first: &'a Tensor,
    /// `[depth, columns]`
    pub second: &'a Tensor,
    /// Of the second factor.
    pub scale: f64,
    /// Whether a float32 second factor keeps 16 bits of each number instead of 8.
    pub halves: bool,
}

impl NarrowProduct<'_> {
    /// Whether this device is a CPU on which such products are faster than those of float32.
    pub fn suits(device: Device) -> bool {
        device == Device::Cpu && gimlet_narrow_products_suit()
    }

    /// Writes the product to `result`, float32 `[rows, columns]` in one piece, or adds it.
    ///
    /// # Panics
    /// If the matrices do not have these shapes and formats, which is a bug.
    pub fn write(&self, result: &Tensor, add: bool) {
        debug_assert_eq!(result.kind(), Kind::Float);
        let Self { first, second, scale, halves } = *self;
        let product = RawProduct { first: raw(first), second: raw(second), scale, halves, add };
        // SAFETY: all tensors outlive the call.
        check(unsafe { gimlet_narrow_product(product, raw(result)) });
    }
}
