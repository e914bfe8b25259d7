//! The Rust side of `bridge/bridge.cpp`: features of libtorch that `tch` does not have.

use std::ffi::{CStr, c_char};

// The crate has no items of Rust; its name here links its C++.
use gimlet_bridge as _;
use tch::{Device, Tensor};

use super::autograd::{RawTensor, check, raw, raw_tensors};

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

/// The memory of tensors on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct DeviceMemory {
    /// Bytes now.
    pub current_bytes: i64,
    /// Peak bytes since the last query.
    pub peak_bytes: i64,
}

/// The factors of AdamW, as libtorch's fused kernel takes them.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct FusedAdamW {
    /// Decay of the gradients' mean.
    pub b1: f64,
    /// Decay of the squared gradients' mean.
    pub b2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Relative decay of the parameter by an update, before the factor of the learning rate.
    pub weight_decay: f64,
}

/// A c10d transport that a build of libtorch may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
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
    safe fn gimlet_has_tiles() -> bool;
    safe fn gimlet_register_bytes() -> i64;
    safe fn gimlet_set_deterministic(on: bool) -> bool;
    safe fn gimlet_allow_tf32(on: bool) -> bool;
    fn gimlet_cuda_memory(index: i32, memory: *mut DeviceMemory) -> bool;
    safe fn gimlet_set_cuda_device(index: i32) -> bool;
    safe fn gimlet_torch_version() -> *const c_char;
    safe fn gimlet_cuda_version() -> i64;
    fn gimlet_fused_adamw(
        factors: *const FusedAdamW,
        params: *const RawTensor,
        grads: *const RawTensor,
        means: *const RawTensor,
        squares: *const RawTensor,
        count: usize,
        learning_rate: RawTensor,
        number: RawTensor,
    ) -> *mut c_char;
    fn gimlet_has_process_group(type_info: *const c_char) -> bool;
    fn gimlet_cuda_device(index: i32, device: *mut RawDevice) -> bool;
}

/// Makes the CPU treat denormal numbers as zero on this thread and on those it starts later, so
/// call it before the first tensor operation. False if the CPU cannot.
pub fn flush_denormals() -> bool {
    gimlet_set_flush_denormal(true)
}

/// The libraries for matrix products that differ from libtorch's choice. See `bridge/matmul.cpp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Products {
    /// oneDNN instead of MKL for float32.
    pub float_by_onednn: bool,
    /// MKL instead of oneDNN for bfloat16, with factors that are widened to float32.
    pub bfloat16_by_mkl: bool,
}

/// Sets the libraries for the whole process, before the first product; results change by rounding
/// only.
pub fn set_products(products: Products) {
    gimlet_set_products(products.float_by_onednn, products.bfloat16_by_mkl);
}

/// Whether oneDNN multiplies tiles of bfloat16 (AMX). With `ONEDNN_MAX_CPU_ISA=AVX512_CORE` in the environment it does
/// not, so that a CPU that has them computes as one without.
pub fn has_tiles() -> bool {
    gimlet_has_tiles()
}

/// Returns the bytes of the registers that the bridge's own kernels use: 64, 32, or 16 if the CPU
/// has no larger ones or the compiler did not support them.
pub fn register_bytes() -> i64 {
    gimlet_register_bytes()
}

/// Makes operations without a deterministic implementation fail; others use theirs, some at a
/// cost. libtorch's own state is off. Returns true if operations are now deterministic.
pub fn set_deterministic(on: bool) -> bool {
    gimlet_set_deterministic(on)
}

/// Runs `body`, in which CUDA's tensor cores round the factors of float32 products to TF32's 10 bits. Everywhere
/// else they do not, as in libtorch by default: float32 is float32.
pub fn with_tf32<R>(body: impl FnOnce() -> R) -> R {
    struct Off;
    impl Drop for Off {
        fn drop(&mut self) {
            gimlet_allow_tf32(false);
        }
    }
    let _off = Off;
    gimlet_allow_tf32(true);
    body()
}

/// Returns the memory of tensors on a CUDA device, and its peak since the last call; `None` for
/// CPUs, for which libtorch has no such count.
pub fn device_memory(device: Device) -> Option<DeviceMemory> {
    let Device::Cuda(index) = device else { return None };
    let mut memory = DeviceMemory::default();
    // SAFETY: `memory` has the layout of the bridge's struct and outlives the call.
    let known = unsafe { gimlet_cuda_memory(i32::try_from(index).ok()?, &mut memory) };
    known.then_some(memory)
}

/// Applies AdamW's update to parameters in place, given with their gradients and the means of
/// gradients and of squared gradients: float32 and contiguous, in the same order. The learning rate and
/// `number`, which counts this update from 1, are float32 scalars on their device. Call it under `tch::no_grad`.
pub fn fused_adamw(
    factors: &FusedAdamW,
    lists: [&[Tensor]; 4],
    learning_rate: &Tensor,
    number: &Tensor,
) {
    let count = lists[0].len();
    assert!(lists.iter().all(|list| list.len() == count), "every parameter has all of them");
    let [params, grads, means, squares] = lists.map(raw_tensors);
    // SAFETY: all tensors outlive the call, and each list has `count` of them.
    check(unsafe {
        gimlet_fused_adamw(
            factors,
            params.as_ptr(),
            grads.as_ptr(),
            means.as_ptr(),
            squares.as_ptr(),
            count,
            raw(learning_rate),
            raw(number),
        )
    });
}

/// Makes a CUDA device the one on which this thread launches kernels; false if there is none of that number.
pub fn set_cuda_device(index: usize) -> bool {
    i32::try_from(index).is_ok_and(|index| gimlet_set_cuda_device(index))
}

/// The version of libtorch, such as `2.11.0`.
pub fn torch_version() -> &'static str {
    // SAFETY: a string constant of the bridge.
    let version = unsafe { CStr::from_ptr(gimlet_torch_version()) };
    version.to_str().expect("libtorch's version is ASCII")
}

/// `(major, minor)` of the CUDA runtime, if this libtorch has one; this needs no device.
pub fn cuda_version() -> Option<(i64, i64)> {
    match gimlet_cuda_version() {
        0 => None,
        version => Some((version / 1000, version % 1000 / 10)),
    }
}

/// Whether the loaded libtorch contains this transport.
pub fn has_transport(group: Transport) -> bool {
    let type_info = match group {
        Transport::Gloo => c"_ZTIN4c10d16ProcessGroupGlooE",
        Transport::Nccl => c"_ZTIN4c10d16ProcessGroupNCCLE",
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
    use tch::Kind;

    #[test]
    fn the_bridge_binds_to_the_version_that_tch_binds_to() {
        assert!(torch_version().starts_with("2.11."));
    }

    #[test]
    fn flushing_turns_denormals_to_zero_in_tensor_operations() {
        let small = || (Tensor::from_slice(&[f32::MIN_POSITIVE]) * 0.25).double_value(&[0]);
        gimlet_set_flush_denormal(false);
        assert_eq!(small(), f64::from(f32::MIN_POSITIVE) * 0.25);
        assert!(flush_denormals(), "every CPU that libtorch is built for can flush");
        assert_eq!(small(), 0.0);
        gimlet_set_flush_denormal(false);
    }

    #[test]
    fn operations_without_a_deterministic_way_fail_if_asked_to() {
        let scatter = || {
            let index = Tensor::from_slice(&[0i64, 0]);
            Tensor::zeros([2], (Kind::Float, Device::Cpu)).f_put_(
                &index,
                &Tensor::from_slice(&[1f32, 2.0]),
                false,
            )
        };
        assert!(scatter().is_ok());
        assert!(set_deterministic(true));
        let failed = scatter();
        assert!(!set_deterministic(false));
        assert!(failed.unwrap_err().to_string().contains("deterministic"));
        assert!(scatter().is_ok());
    }

    #[test]
    fn tf32_is_switched() {
        assert!(gimlet_allow_tf32(true));
        assert!(!gimlet_allow_tf32(false));
    }

    #[test]
    fn there_is_no_account_of_memory_without_a_gpu() {
        assert_eq!(device_memory(Device::Cpu), None);
        let no_such = cuda_devices().len();
        assert_eq!(device_memory(Device::Cuda(no_such)), None);
    }

    #[test]
    fn a_cpu_transport_is_always_there() {
        assert!(has_transport(Transport::Gloo));
    }
}
