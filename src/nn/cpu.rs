//! The setup of a process that computes on the CPU.

use std::sync::OnceLock;

use super::bridge::{self, Products};

/// Prepares this process for tensors: denormals are flushed, and matrix products use all of the CPU. Call it first,
/// before libtorch starts threads.
///
/// Measured for a training step of T5 1.1 small on two cores of an AMD EPYC: it saves half of the
/// CPU time in float32, most of it by the products, and the kept memory saves a fifth of the rest.
pub fn prepare() {
    // Saturated logits leave denormal gradients, which cost a CPU many times a normal number.
    bridge::flush_denormals();
    bridge::set_products(fastest_products());
}

/// Whether this CPU has the instructions with registers of 64 bytes that libtorch asks for before it lets oneDNN
/// multiply.
pub fn has_avx512() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512vl")
        && std::arch::is_x86_feature_detected!("avx512dq");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// The abilities of this CPU for matrix products.
#[derive(Clone, Copy, Debug)]
struct Abilities {
    intel: bool,
    /// Registers of 64 bytes.
    avx512: bool,
    /// Tiles of bfloat16, multiplied by one instruction (AMX).
    tiles: bool,
}

impl Abilities {
    fn get() -> Self {
        static FOUND: OnceLock<Abilities> = OnceLock::new();
        *FOUND.get_or_init(Self::find)
    }

    fn find() -> Self {
        Self { intel: is_intel(), avx512: has_avx512(), tiles: bridge::has_tiles() }
    }

    /// Whether bfloat16 products are faster in float32: see `bridge/matmul.cpp`.
    fn widens_bfloat16(self) -> bool {
        !self.tiles && (self.intel || !self.avx512)
    }
}

/// Whether this CPU is one of Intel's.
fn is_intel() -> bool {
    // "GenuineIntel" begins in ebx.
    #[cfg(target_arch = "x86_64")]
    return std::arch::x86_64::__cpuid(0).ebx == u32::from_le_bytes(*b"Genu");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Selects the libraries: MKL uses AVX-512 on Intel's CPUs only; oneDNN needs AMX to be fast in
/// bfloat16 on them, and has no bfloat16 without AVX-512.
fn fastest_products() -> Products {
    let cpu = Abilities::get();
    Products { float_by_onednn: cpu.avx512 && !cpu.intel, bfloat16_by_mkl: cpu.widens_bfloat16() }
}

/// Whether packing [`super::PackedKernel`] is worthwhile for a few rows: sixteen registers of 16 or 32
/// bytes cannot hold the sums of its products, which then go through memory.
pub(super) fn packed_products_suit_few_rows() -> bool {
    bridge::register_bytes() == 64
}
