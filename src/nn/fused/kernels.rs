//! Gimlet's own kernels for CUDA devices and CPUs: the Rust side of `bridge/kernels.cpp`, which documents
//! their arguments; and which kernels are trusted, Gimlet's and libtorch's.

use std::ffi::{CStr, c_char};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tch::{Device, Kind, Tensor};

use crate::nn::autograd::{RawTensor, check, raw_tensors};
use crate::nn::bridge::cuda_devices;

unsafe extern "C" {
    fn gimlet_launch(
        name: *const c_char,
        tensors: *const RawTensor,
        num_tensors: usize,
        numbers: *const f64,
        num_numbers: usize,
    ) -> *mut c_char;
}

/// The work that kernels do, each with a fall-back of libtorch's plain operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// RMS normalization, alone or after a sum.
    Norm,
    /// Gated GELU.
    GatedGelu,
    /// The loss.
    CrossEntropy,
    /// Gradients of relative position biases.
    RelativePosition,
    /// Casts to fp8.
    Fp8Cast,
    /// libtorch's products in fp8, which devices before compute capability 8.9 do not have.
    Fp8Product,
    /// libtorch's products of bfloat16 matrices with float32 results, for logits and their gradients.
    HeadProduct,
    /// Updates by Adafactor.
    Adafactor,
    /// cuDNN's attention over runs, with a bias.
    CudnnAttention,
    /// libtorch's attention over runs of keys.
    FlashAttention,
    /// libtorch's attention with a bias.
    EfficientAttention,
}

/// A bit for each kernel that is not used.
static DISTRUSTED: AtomicU32 = AtomicU32::new(0);

impl Kernel {
    /// Whether the kernel is used where it suits.
    pub fn is_trusted(self) -> bool {
        DISTRUSTED.load(Ordering::Relaxed) & self.bit() == 0
    }

    /// Whether all kernels are.
    pub fn are_all_trusted() -> bool {
        DISTRUSTED.load(Ordering::Relaxed) == 0
    }

    /// Sets whether it is.
    pub fn trust(self, on: bool) {
        match on {
            true => DISTRUSTED.fetch_and(!self.bit(), Ordering::Relaxed),
            false => DISTRUSTED.fetch_or(self.bit(), Ordering::Relaxed),
        };
    }

    /// Whether Gimlet has it for CPUs too.
    fn is_for_cpus(self) -> bool {
        matches!(self, Self::Norm | Self::GatedGelu | Self::CrossEntropy | Self::Adafactor)
    }

    fn bit(self) -> u32 {
        1 << self as u32
    }
}

static ENABLED: AtomicBool = AtomicBool::new(true);

/// Sets whether kernels are used if possible: always, except in comparisons with libtorch.
pub fn enable(on: bool) {
    ENABLED.store(on, Ordering::Relaxed);
}

/// Whether the kernel is trusted, there is one for the tensor's device, and it accepts rows of this tensor: see
/// [`accept`].
pub fn suit(kernel: Kernel, tensor: &Tensor, widest: i64) -> bool {
    let exists = kernel.is_for_cpus() || tensor.device() != Device::Cpu;
    kernel.is_trusted() && exists && accept(tensor, widest)
}

/// Whether Gimlet's kernels accept rows of this tensor, as [`fit`] says, and its dtype: float32 or bfloat16.
pub fn accept(tensor: &Tensor, widest: i64) -> bool {
    matches!(tensor.kind(), Kind::Float | Kind::BFloat16) && fit(tensor, widest)
}

/// Whether kernels were compiled for the tensor's device, and its last extent, up to `widest`, is a multiple of the 8 numbers
/// that they read at once.
pub fn fit(tensor: &Tensor, widest: i64) -> bool {
    ENABLED.load(Ordering::Relaxed)
        && are_compiled_for(tensor.device())
        && tensor.size().last().is_some_and(|&width| width % 8 == 0 && width <= widest)
}

/// Whether kernels were compiled for the device: a CPU, or an A100 or newer. Older devices use libtorch.
fn are_compiled_for(device: Device) -> bool {
    device == Device::Cpu || generation(device) >= 8
}

/// The first number of a CUDA device's compute capability, 8 for A100s and 9 for H100s and H200s; 0 for other devices and builds.
pub fn generation(device: Device) -> i64 {
    static FOUND: OnceLock<Vec<i64>> = OnceLock::new();
    let Device::Cuda(index) = device else { return 0 };
    let ask = || cuda_devices().iter().map(|device| i64::from(device.capability.0)).collect();
    let found = FOUND.get_or_init(ask).get(index).filter(|_| cfg!(feature = "cuda"));
    found.copied().unwrap_or(0)
}

/// Launches a kernel on the tensors' device. An undefined tensor (`Tensor::new`) is an absent one.
///
/// # Panics
/// If the kernel does not accept the tensors, which is a bug, or the device fails.
pub fn launch(name: &CStr, tensors: &[&Tensor], numbers: &[f64]) {
    let raw = raw_tensors(tensors.iter().copied());
    // SAFETY: the tensors outlive the call, and libtorch's allocator keeps their memory for the stream.
    check(unsafe {
        gimlet_launch(name.as_ptr(), raw.as_ptr(), raw.len(), numbers.as_ptr(), numbers.len())
    });
}
