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
/// Inputs of a kernel in paired tiles are a multiple of this: a CPU multiplies so many at once.
const PAIRED_TILE_INPUTS: i64 = 32;

#[repr(C)]
struct RawProduct {
    inputs: RawTensor,
    panels: RawTensor,
    scale: RawTensor,
    residual: RawTensor,
    out: i64,
    length: i64,
    width: i64,
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
    /// `[panels, in, 32]`; half of each panel belongs to the gate.
    Panels,
    /// `[tiles, in, 64]`, for many rows: the columns of two panels.
    Tiles,
    /// bfloat16 `[tiles, in / 2, 64, 2]`: tiles whose rows lie in pairs, as the CPU multiplies them.
    PairedTiles,
}

/// Operations of a product besides multiplying.
#[derive(Default)]
struct Extras<'a> {
    norm: Option<&'a RmsNorm>,
    residual: Option<&'a Tensor>,
    /// Length and width of the tiles of the result, unless it lies row by row.
    tile: Option<(i64, i64)>,
}

impl PackedKernel {
    /// As many rows as whole sequences have: there, reading the kernel takes little of the time.
    pub const MANY_ROWS: i64 = i64::MAX;

    /// Up to this number of rows, reading the kernel takes most of the time.
    pub const FEW_ROWS: i64 = 32;

    /// `FEW_ROWS` for bfloat16 on a CPU that multiplies tiles. With 16 rows panels took as long as tiles there, with 32 rows
    /// 1.6 times as long: a kernel of 512 x 131,072, two virtual cores of a Xeon with AMX.
    const FEW_NARROW_ROWS: i64 = 16;

    /// Whether so many rows of this kind are few.
    fn are_few(kind: Kind, rows: i64) -> bool {
        let by_tiles = kind == Kind::BFloat16 && cpu::multiplies_tiles();
        rows <= if by_tiles { Self::FEW_NARROW_ROWS } else { Self::FEW_ROWS }
    }

    /// Whether products with so many rows use the packed layout for kernels of this kind and
    /// device.
    pub fn packs(kind: Kind, device: Device, rows: i64) -> bool {
        !device.is_cuda()
            && if Self::are_few(kind, rows) {
                cpu::packed_products_suit_few_rows()
            } else {
                cpu::packed_products_suit_many_rows(kind)
            }
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
            _ => {
                let filled = filled(&kernel, layout.columns());
                layout.lay_out(&filled.view([filled.size()[0], -1, 2, PANEL_COLUMNS / 2]))
            }
        };
        Self { kernel, out, layout, gated: false, screen: OnceCell::new() }
    }

    fn gated_laid_out([gate, linear]: [&Tensor; 2], layout: KernelLayout) -> Self {
        let (gate, linear, out) = (gate.detach(), linear.detach(), gate.size()[1]);
        let kernel = match layout {
            KernelLayout::Plain => Tensor::cat(&[gate, linear], 1),
            _ => {
                let halves = [gate, linear].map(|part| {
                    let part = filled(&part, layout.columns() / 2);
                    part.view([part.size()[0], -1, PANEL_COLUMNS / 2])
                });
                layout.lay_out(&Tensor::stack(&halves, 2))
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

    /// Multiplies `inputs` `[batch, length, in]` by the kernel, by heads of `width` columns:
    /// `[batch, heads, length, width]`.
    pub fn apply_by_head(&self, inputs: &Tensor, width: i64) -> Tensor {
        let (batch, length, columns) = inputs.size3().expect("sequences have three axes");
        let inputs = inputs.reshape([-1, columns]);
        if self.layout == KernelLayout::Plain || width % (PANEL_COLUMNS / 2) != 0 {
            return self
                .apply(&inputs)
                .view([batch, length, -1, width])
                .transpose(1, 2)
                .contiguous();
        }
        let tile = Some((length, width));
        let tiles = self.product(&inputs, &Extras { tile, ..Extras::default() });
        tiles.view([batch, -1, length, width])
    }

    fn product(&self, inputs: &Tensor, extras: &Extras) -> Tensor {
        match self.layout {
            KernelLayout::Plain => self.plain_product(inputs, extras),
            _ => self.packed_product(inputs, extras),
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
        let (length, width) = extras.tile.unwrap_or((1, self.out));
        let of = RawProduct {
            inputs: raw(inputs),
            panels: raw(&self.kernel),
            scale: optional(extras.norm.map(|norm| &norm.scale)),
            residual: optional(extras.residual),
            out: self.out,
            length,
            width,
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
    if !PackedKernel::packs(kernel.kind(), kernel.device(), rows) {
        return KernelLayout::Plain;
    }
    if PackedKernel::are_few(kernel.kind(), rows) {
        return KernelLayout::Panels;
    }
    let paired = kernel.kind() == Kind::BFloat16
        && kernel.size()[0] % PAIRED_TILE_INPUTS == 0
        && cpu::multiplies_tiles();
    if paired { KernelLayout::PairedTiles } else { KernelLayout::Tiles }
}

impl KernelLayout {
    /// The number of columns that lie together.
    fn columns(self) -> i64 {
        match self {
            Self::Tiles | Self::PairedTiles => 2 * PANEL_COLUMNS,
            Self::Plain | Self::Panels => PANEL_COLUMNS,
        }
    }

    /// Lays out halves of panels, `[in, panels, 2, 16]`.
    fn lay_out(self, halves: &Tensor) -> Tensor {
        let (inputs, panels, _, _) = halves.size4().expect("halves have four axes");
        match self {
            Self::Tiles => {
                halves.reshape([inputs, -1, self.columns()]).transpose(0, 1).contiguous()
            }
            Self::PairedTiles => {
                let pairs = halves.reshape([inputs / 2, 2, -1, self.columns()]);
                pairs.permute([2, 0, 3, 1]).contiguous()
            }
            Self::Plain | Self::Panels => {
                // The bridge reads two bfloat16 as halves of 32 bits: columns 0, 16, 1, 17, ...
                let narrow = halves.kind() == Kind::BFloat16;
                let axes = if narrow { [1, 0, 3, 2] } else { [1, 0, 2, 3] };
                halves.permute(axes).contiguous().view([panels, inputs, PANEL_COLUMNS])
            }
        }
    }
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
    fn check_against_plain(
        layout: KernelLayout,
        kind: Kind,
        [rows, inputs, out]: [i64; 3],
        tolerance: f64,
    ) {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tch::manual_seed(5);
        let draw = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu)).to_kind(kind);
        let (kernel, gate, given) =
            (draw(&[inputs, out]), draw(&[inputs, out]), draw(&[rows, inputs]));
        let (scale, residual) = (draw(&[inputs]), draw(&[rows, out]));
        // So large that its place shows.
        let norm = RmsNorm { scale, epsilon: 0.1 };
        let packed = PackedKernel::laid_out(&kernel, layout);
        let gated = PackedKernel::gated_laid_out([&gate, &kernel], layout);
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
            check_against_plain(KernelLayout::Panels, Kind::Float, size, 2e-6);
            check_against_plain(KernelLayout::Panels, Kind::BFloat16, size, 1e-2);
        }
    }

    #[test]
    fn products_by_tiles_are_plain_products() {
        for size in [[1, 32, 1], [33, 96, 100], [128, 64, 64], [301, 1024, 72], [5, 32, 16]] {
            check_against_plain(KernelLayout::Tiles, Kind::Float, size, 2e-6);
            check_against_plain(KernelLayout::Tiles, Kind::BFloat16, size, 1e-2);
            if cpu::multiplies_tiles() {
                check_against_plain(KernelLayout::PairedTiles, Kind::BFloat16, size, 1e-2);
            } // else libtorch refuses
        }
        check_against_plain(KernelLayout::Tiles, Kind::Float, [40, 7, 20], 2e-6);
        // So wide that fewer rows are multiplied at a time.
        check_against_plain(KernelLayout::Tiles, Kind::Float, [70, 5000, 40], 1e-5);
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
    fn heads_of_a_product_lie_apart() {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tch::manual_seed(7);
        // Numbers that bfloat16 holds.
        let draw = |size: &[i64]| wide(&Tensor::randn(size, (Kind::BFloat16, Device::Cpu)));
        for (length, heads, width) in [(3, 4, 16), (90, 3, 48), (5, 3, 24)] {
            let (kernel, given) = (draw(&[32, heads * width]), draw(&[2, length, 32]));
            let expected = given.matmul(&kernel).view([2, length, heads, width]).transpose(1, 2);
            let check = |layout, kind, tolerance| {
                let packed = PackedKernel::laid_out(&kernel.to_kind(kind), layout);
                let found = wide(&packed.apply_by_head(&given.to_kind(kind), width));
                let same = found.allclose(&expected, tolerance, tolerance, false);
                assert!(same, "{length}, {heads}, {width}, {layout:?}");
            };
            check(KernelLayout::Panels, Kind::Float, 1e-5);
            check(KernelLayout::Tiles, Kind::Float, 1e-5);
            if cpu::multiplies_tiles() {
                check(KernelLayout::PairedTiles, Kind::BFloat16, 1e-2);
            }
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
