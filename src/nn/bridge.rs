//! The Rust side of `bridge/bridge.cpp`: what libtorch offers and `tch` lacks.

use std::ffi::{CStr, c_char};

/// A CUDA device, as the driver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaDevice {
    /// The product's name.
    pub name: String,
    /// Its memory.
    pub memory_bytes: u64,
    /// Compute capability, such as (9, 0).
    pub capability: (i32, i32),
}

/// A c10d transport that a libtorch may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessGroup {
    /// For CPUs.
    Gloo,
    /// For CUDA devices.
    Nccl,
}

#[repr(C)]
struct RawDevice {
    name: [c_char; 256],
    memory_bytes: i64,
    major: i32,
    minor: i32,
}

unsafe extern "C" {
    safe fn gimlet_set_flush_denormal(on: bool) -> bool;
    safe fn gimlet_set_products(float_by_onednn: bool, bfloat16_by_mkl: bool);
    safe fn gimlet_torch_version() -> *const c_char;
    safe fn gimlet_cuda_version() -> i64;
    fn gimlet_has_process_group(type_info: *const c_char) -> bool;
    fn gimlet_cuda_device(index: i32, device: *mut RawDevice) -> bool;
}

/// Makes the CPU treat denormal numbers as zero on this thread and on those it starts later, so
/// call it before the first tensor operation. False where the CPU cannot.
pub fn flush_denormals() -> bool {
    gimlet_set_flush_denormal(true)
}

/// Which library computes matrix products, other than libtorch's choice. See `bridge/matmul.cpp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Products {
    /// oneDNN instead of MKL for float32.
    pub float_by_onednn: bool,
    /// MKL instead of oneDNN for bfloat16, on factors that are widened to float32.
    pub bfloat16_by_mkl: bool,
}

/// Sets it for the whole process, before the first product; results change by rounding only.
pub fn set_products(products: Products) {
    gimlet_set_products(products.float_by_onednn, products.bfloat16_by_mkl);
}

/// The version of libtorch, such as `2.11.0`.
pub fn torch_version() -> &'static str {
    // SAFETY: a string constant of the bridge.
    let version = unsafe { CStr::from_ptr(gimlet_torch_version()) };
    version.to_str().expect("libtorch's version is ASCII")
}

/// `(major, minor)` of the CUDA runtime, if this libtorch has one; no device need be there.
pub fn cuda_version() -> Option<(i64, i64)> {
    match gimlet_cuda_version() {
        0 => None,
        version => Some((version / 1000, version % 1000 / 10)),
    }
}

/// Whether the loaded libtorch carries this transport.
pub fn has_process_group(group: ProcessGroup) -> bool {
    let type_info = match group {
        ProcessGroup::Gloo => c"_ZTIN4c10d16ProcessGroupGlooE",
        ProcessGroup::Nccl => c"_ZTIN4c10d16ProcessGroupNCCLE",
    };
    // SAFETY: the name is a C string, and is only looked up.
    unsafe { gimlet_has_process_group(type_info.as_ptr()) }
}

/// The CUDA devices that this build can use, in order.
pub fn cuda_devices() -> Vec<CudaDevice> {
    (0..).map_while(cuda_device).collect()
}

fn cuda_device(index: i32) -> Option<CudaDevice> {
    let mut raw = RawDevice { name: [0; 256], memory_bytes: 0, major: 0, minor: 0 };
    // SAFETY: `raw` has the layout of the bridge's struct and outlives the call.
    if !unsafe { gimlet_cuda_device(index, &mut raw) } {
        return None;
    }
    // SAFETY: the bridge ends the name with a zero.
    let name = unsafe { CStr::from_ptr(raw.name.as_ptr()) };
    Some(CudaDevice {
        name: name.to_string_lossy().into_owned(),
        memory_bytes: u64::try_from(raw.memory_bytes).expect("sizes are positive"),
        capability: (raw.major, raw.minor),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bridge_binds_to_the_version_that_tch_binds_to() {
        assert!(torch_version().starts_with("2.11."));
    }

    #[test]
    fn flushing_turns_denormals_to_zero_in_tensor_operations() {
        let flushed = flush_denormals();
        let small = tch::Tensor::from_slice(&[f32::MIN_POSITIVE]) * 0.25;
        assert_eq!(small.double_value(&[0]) == 0.0, flushed);
    }

    #[test]
    fn a_cpu_transport_is_always_there() {
        assert!(has_process_group(ProcessGroup::Gloo));
    }
}
