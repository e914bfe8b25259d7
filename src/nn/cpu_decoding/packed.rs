//! Kernels laid out once for many products without gradients, as in decoding: the Rust side of
//! `bridge/packed.cpp`.

use std::cell::OnceCell;
use std::ffi::c_char;
use std::ptr::null_mut;

use tch::{Device, Kind, Tensor};

use super::screen::Screen;
use crate::nn::autograd::{RawTensor, check, raw};
use crate::nn::cpu;
use crate::nn::fused::{RmsNorm, gated_gelu, rms_norm};
use crate::nn::joined::Joined;

/// Columns of a panel, as in `bridge/panels.h`.
const PANEL_COLUMNS: i64 = 32;

#[repr(C)]
struct RawProduct {
    inputs: RawTensor,
    panels: RawTensor,
    scale: RawTensor,
    residual: RawTensor,
    out: i64,
    epsilon: f64,
    gated: bool,
}

unsafe extern "C" {
    fn gimlet_packed_product(of: RawProduct, result: RawTensor) -> *mut c_char;
}

/// A kernel, or two of which one gates the other. It has no gradient.
#[derive(Debug)]
pub struct PackedKernel {
    kernel: Tensor,
    out: i64, // columns of a product
    layout: KernelLayout,
    gated: bool,
    screen: OnceCell<Screen>, // once the largest columns are asked for
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KernelLayout {
    /// `[in, out]`; gate and linear side by side.
    Plain,
    /// `[panels, in, 32]`, for few rows; half of each panel belongs to the gate.
    Panels,
}

/// Operations of a product besides multiplying.
#[derive(Default)]
struct Extras<'a> {
    norm: Option<&'a RmsNorm>,
    residual: Option<&'a Tensor>,
}

impl PackedKernel {
    /// As many rows as whole sequences have: there, reading the kernel takes little of the time.
    pub const MANY_ROWS: i64 = i64::MAX;

    /// Up to this number of rows, reading the kernel takes most of the time.
    pub const FEW_ROWS: i64 = 32;

    /// Whether products with so many rows use the packed layout on this device.
    pub fn packs(device: Device, rows: i64) -> bool {
        !device.is_cuda() && rows <= Self::FEW_ROWS && cpu::packed_products_suit_few_rows()
    }

    /// Packs `kernel` `[in, out]`, for inputs of `rows` rows in the same dtype.
    pub fn new(kernel: &Tensor, rows: i64) -> Self {
        Self::laid_out(kernel, layout(kernel, rows))
    }

    /// Packs two kernels for products `gelu(inputs gate) * (inputs linear)`, by the tanh
    /// approximation. Both are `[in, out]`.
    pub fn gated_gelu(kernels: [&Tensor; 2], rows: i64) -> Self {
        Self::gated_laid_out(kernels, layout(kernels[0], rows))
    }

    fn laid_out(kernel: &Tensor, layout: KernelLayout) -> Self {
        let (kernel, out) = (kernel.detach(), kernel.size()[1]);
        let kernel = match layout {
            KernelLayout::Plain => kernel,
            KernelLayout::Panels => {
                let filled = filled(&kernel, PANEL_COLUMNS);
                panels(&filled.view([filled.size()[0], -1, 2, PANEL_COLUMNS / 2]))
            }
        };
        Self { kernel, out, layout, gated: false, screen: OnceCell::new() }
    }

    fn gated_laid_out([gate, linear]: [&Tensor; 2], layout: KernelLayout) -> Self {
        let (gate, linear, out) = (gate.detach(), linear.detach(), gate.size()[1]);
        let kernel = match layout {
            KernelLayout::Plain => Tensor::cat(&[gate, linear], 1),
            KernelLayout::Panels => {
                let halves = [gate, linear].map(|part| {
                    let part = filled(&part, PANEL_COLUMNS / 2);
                    part.view([part.size()[0], -1, PANEL_COLUMNS / 2])
                });
                panels(&Tensor::stack(&halves, 2))
            }
        };
        Self { kernel, out, layout, gated: true, screen: OnceCell::new() }
    }

    /// Multiplies `inputs` `[rows, in]` by the kernel: `[rows, out]`.
    pub fn apply(&self, inputs: &Tensor) -> Tensor {
        self.product(inputs, &Extras::default())
    }

    /// The first of the largest columns of `apply(inputs)` for each row: int64 `[rows]`. With few float32 rows most
    /// of the kernel is only read in 8 bits.
    pub fn largest(&self, inputs: &Tensor) -> Tensor {
        let is_screened = self.layout == KernelLayout::Panels
            && !self.gated
            && Screen::suits(&self.kernel)
            && inputs.size()[0] <= Self::FEW_ROWS;
        if !is_screened {
            return largest_columns(&self.apply(inputs));
        }
        let screen = self.screen.get_or_init(|| Screen::new(&self.kernel));
        screen.largest(inputs, &self.kernel, self.out)
    }

    /// Multiplies `rms_norm(inputs, norm)` by the kernel.
    pub fn apply_to_normal(&self, inputs: &Tensor, norm: &RmsNorm) -> Tensor {
        self.product(inputs, &Extras { norm: Some(norm), ..Extras::default() })
    }

    /// Multiplies `inputs` by the kernel, and adds `residual` `[rows, out]`.
    pub fn apply_and_add(&self, inputs: &Tensor, residual: &Tensor) -> Tensor {
        self.product(inputs, &Extras { residual: Some(residual), ..Extras::default() })
    }

    fn product(&self, inputs: &Tensor, extras: &Extras) -> Tensor {
        match self.layout {
            KernelLayout::Plain => self.plain_product(inputs, extras),
            KernelLayout::Panels => self.packed_product(inputs, extras),
        }
    }

    fn plain_product(&self, inputs: &Tensor, extras: &Extras) -> Tensor {
        let normal = extras.norm.map(|norm| rms_norm(inputs, norm));
        let mut product = normal.as_ref().unwrap_or(inputs).matmul(&self.kernel);
        if self.gated {
            assert!(extras.residual.is_none(), "nothing is added to a gated product");
            product = gated_gelu(&Joined::new(vec![product], 2));
        }
        match extras.residual {
            Some(residual) => product.g_add_(residual),
            None => product,
        }
    }

    fn packed_product(&self, inputs: &Tensor, extras: &Extras) -> Tensor {
        let result = Tensor::new();
        let optional = |tensor: Option<&Tensor>| tensor.map_or(null_mut(), raw);
        let of = RawProduct {
            inputs: raw(inputs),
            panels: raw(&self.kernel),
            scale: optional(extras.norm.map(|norm| &norm.scale)),
            residual: optional(extras.residual),
            out: self.out,
            epsilon: extras.norm.map_or(0.0, |norm| norm.epsilon),
            gated: self.gated,
        };
        // SAFETY: the tensors outlive the call; the bridge checks their shapes, and null means no
        // tensor.
        check(unsafe { gimlet_packed_product(of, raw(&result)) });
        result
    }
}

/// The first of the largest columns of each row, `[rows, columns]`: int64 `[rows]`.
pub fn largest_columns(product: &Tensor) -> Tensor {
    // On CPUs `argmax` takes three times as long.
    product.max_dim(-1, false).1
}

fn layout(kernel: &Tensor, rows: i64) -> KernelLayout {
    match PackedKernel::packs(kernel.device(), rows) {
        true => KernelLayout::Panels,
        false => KernelLayout::Plain,
    }
}

/// Lays out halves of panels, `[in, panels, 2, 16]`, as panels.
fn panels(halves: &Tensor) -> Tensor {
    let (inputs, count, _, _) = halves.size4().expect("halves have four axes");
    // The bridge reads two bfloat16 as halves of 32 bits: columns 0, 16, 1, 17, ...
    let narrow = halves.kind() == Kind::BFloat16;
    let axes = if narrow { [1, 0, 3, 2] } else { [1, 0, 2, 3] };
    halves.permute(axes).contiguous().view([count, inputs, PANEL_COLUMNS])
}

/// Returns `[in, out]` with zeros after the last column, so that they are a multiple of `columns`.
fn filled(kernel: &Tensor, columns: i64) -> Tensor {
    match kernel.size()[1] % columns {
        0 => kernel.contiguous(),
        rest => kernel.constant_pad_nd([0, columns - rest]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(tensor: &Tensor) -> Tensor {
        tensor.to_kind(Kind::Float)
    }

    /// Compares every way of applying packed kernels with plain operations in float32, within
    /// `tolerance` of the largest value. There are more rows than the kernels were packed for,
    /// which must not matter.
    fn check_against_plain(kind: Kind, [rows, inputs, out]: [i64; 3], tolerance: f64) {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tch::manual_seed(5);
        let draw = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu)).to_kind(kind);
        let (kernel, gate, given) =
            (draw(&[inputs, out]), draw(&[inputs, out]), draw(&[rows, inputs]));
        let (scale, residual) = (draw(&[inputs]), draw(&[rows, out]));
        // So large that its place shows.
        let norm = RmsNorm { scale, epsilon: 0.1 };
        let packed = PackedKernel::laid_out(&kernel, KernelLayout::Panels);
        let gated = PackedKernel::gated_laid_out([&gate, &kernel], KernelLayout::Panels);
        let product = |inputs: &Tensor| wide(inputs).matmul(&wide(&kernel));
        let normal = rms_norm(&given, &norm);
        let gate = wide(&normal).matmul(&wide(&gate)).gelu("tanh");
        for (found, expected) in [
            (packed.apply(&given), product(&given)),
            (packed.apply_to_normal(&given, &norm), product(&normal)),
            (packed.apply_and_add(&given, &residual), product(&given) + wide(&residual)),
            (gated.apply_to_normal(&given, &norm), gate * product(&normal)),
        ] {
            assert_eq!((found.kind(), found.size()), (kind, expected.size()));
            let error = (wide(&found) - &expected).abs().max().double_value(&[]);
            let largest = expected.abs().max().double_value(&[]);
            assert!(error < tolerance * largest, "{error} of {largest}, {rows} x {inputs} x {out}");
        }
    }

    #[test]
    fn packed_products_are_plain_products() {
        for size in
            [[8, 64, 96], [1, 7, 1], [11, 100, 333], [33, 40, 1000], [97, 20, 100], [301, 600, 40]]
        {
            check_against_plain(Kind::Float, size, 2e-6);
            check_against_plain(Kind::BFloat16, size, 1e-2);
        }
    }

    #[test]
    fn the_largest_columns_are_those_of_the_product() {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tch::manual_seed(6);
        let draw = |size: [i64; 2]| Tensor::randn(size, (Kind::Float, Device::Cpu));
        let check = |kernel: &Tensor, given: &Tensor| {
            let packed = PackedKernel::laid_out(kernel, KernelLayout::Panels);
            let (product, found) = (packed.apply(given), packed.largest(given));
            assert_eq!(found, product.max_dim(-1, false).1, "{:?}", kernel.size());
        };
        for [rows, inputs, out] in
            [[1, 64, 1], [8, 256, 5000], [11, 100, 333], [32, 40, 1000], [2, 7, 50]]
        {
            let (kernel, given) = (draw([inputs, out]), draw([rows, inputs]));
            check(&kernel, &given);
            check(&(kernel.abs() * -1.0), &given.abs()); // columns that fill panels would win
            // Columns that 8 bits cannot tell apart, and some that nothing can: the first wins.
            let close = draw([inputs, 1]) + 1e-5 * &kernel;
            check(&close, &given);
            check(&Tensor::cat(&[&close, &close], 1), &given);
            check(&(kernel.zeros_like()), &given);
            // Columns of very different sizes.
            check(&(kernel * draw([1, out]).exp()), &given);
        }
    }

    #[test]
    #[should_panic(expected = "inputs are not [rows, 7]")]
    fn inputs_of_another_width_are_refused() {
        let ones = |size: [i64; 2]| Tensor::ones(size, (Kind::Float, Device::Cpu));
        let packed = PackedKernel::laid_out(&ones([7, 3]), KernelLayout::Panels);
        let _ = packed.apply(&ones([2, 8]));
    }
}
