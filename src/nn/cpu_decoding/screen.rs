//! The most probable token of each row without all of the logits: the Rust side of `bridge/screen.cpp`.

use std::ffi::c_char;

use tch::{Kind, Tensor};

use crate::nn::autograd::{RawTensor, check, raw};

#[repr(C)]
struct RawScreen {
    narrow: RawTensor,
    steps: RawTensor,
    radii: RawTensor,
}

unsafe extern "C" {
    fn gimlet_screen_new(
        panels: RawTensor,
        narrow: RawTensor,
        steps: RawTensor,
        radii: RawTensor,
    ) -> *mut c_char;
    fn gimlet_screen_largest(
        inputs: RawTensor,
        panels: RawTensor,
        of: RawScreen,
        out: i64,
        result: RawTensor,
    ) -> *mut c_char;
}

/// A kernel's numbers in 8 bits with bounds on what that loses. They show which columns of a product may be the
/// largest of a row, so that only these are read whole.
#[derive(Debug)]
pub(super) struct Screen {
    narrow: Tensor, // int8 [panels, in, 32]
    steps: Tensor,  // float32 [panels, 32]
    radii: Tensor,  // float32 [panels, 32]
}

impl Screen {
    /// Whether such panels, `[panels, in, 32]`, can have a screen.
    pub fn suits(panels: &Tensor) -> bool {
        panels.kind() == Kind::Float && panels.size()[1] % 2 == 0
    }

    /// Makes the screen of a kernel in float32 panels `[panels, in, 32]`.
    pub fn new(panels: &Tensor) -> Self {
        let screen = Self { narrow: Tensor::new(), steps: Tensor::new(), radii: Tensor::new() };
        let RawScreen { narrow, steps, radii } = screen.raw();
        // SAFETY: the tensors outlive the call; the bridge checks the panels.
        check(unsafe { gimlet_screen_new(raw(panels), narrow, steps, radii) });
        screen
    }

    /// The first of the largest columns of `inputs kernel` for each row of `inputs`, float32 `[rows, in]`: int64
    /// `[rows]`. The kernel is that of the screen, with `out` columns.
    pub fn largest(&self, inputs: &Tensor, panels: &Tensor, out: i64) -> Tensor {
        let (inputs, result) = (inputs.contiguous(), Tensor::new());
        // SAFETY: the tensors outlive the call; the bridge checks their shapes and kinds.
        check(unsafe {
            gimlet_screen_largest(raw(&inputs), raw(panels), self.raw(), out, raw(&result))
        });
        result
    }

    fn raw(&self) -> RawScreen {
        RawScreen { narrow: raw(&self.narrow), steps: raw(&self.steps), radii: raw(&self.radii) }
    }
}
