//! The capabilities of the loaded libtorch.

use std::ffi::c_int;
use std::path::Path;

use super::{Fact, processors};
use crate::nn::bridge::{
    CudaDevice, Transport, cuda_devices, cuda_version, has_transport, torch_version,
};
use crate::partition::LocalDevice;

/// Facts about this build: `gimlet --version` looks for them in the program's file.
#[used]
pub static BUILD: &str =
    concat!("\0gimlet-torch is built for libtorch ", env!("GIMLET_LIBTORCH"), "\0");

/// Returns libtorch's part of the report.
pub fn libtorch() -> Vec<Fact> {
    let threads = format!("{}, {} threads", torch_version(), tch::get_num_threads());
    let devices = cuda_devices();
    let mut facts = vec![("libtorch", threads), ("CUDA", cuda(&devices))];
    facts.extend(devices.iter().map(|device| ("device", describe(device))));
    facts.push(("c10d", process_groups()));
    facts
}

fn cuda(devices: &[CudaDevice]) -> String {
    match cuda_version() {
        None if has_nvidia_driver() => {
            "not in this build, though there is a GPU: `make cuda` or `make wheel-cuda`".to_string()
        }
        None => "not in this build; for NVIDIA GPUs: `make cuda` or `make wheel-cuda`".to_string(),
        Some((major, minor)) if !devices.is_empty() => format!("{major}.{minor}"),
        Some((major, minor)) if has_nvidia_driver() => {
            format!("{major}.{minor}, but no device can be used: see `nvidia-smi`")
        }
        Some((major, minor)) => {
            format!("{major}.{minor}, but there is no NVIDIA driver: training runs on the CPU")
        }
    }
}

fn describe(device: &CudaDevice) -> String {
    let gib = device.memory_bytes >> 30;
    let (major, minor) = device.capability;
    let bfloat16 = if device.capability >= (8, 0) { "fast" } else { "slow" };
    format!(
        "{}, {gib} GiB, compute capability {major}.{minor}; bfloat16 is {bfloat16}",
        device.name
    )
}

/// Describes the device of a process for the record of a run.
pub fn describe_device(device: LocalDevice) -> String {
    match device {
        LocalDevice::Cpu => processors(),
        LocalDevice::Cuda(index) => {
            let name = cuda_devices()
                .get(index)
                .map(|device| format!("{}, {} GiB", device.name, device.memory_bytes >> 30));
            format!("GPU {index}: {}", name.unwrap_or_default())
        }
    }
}

fn process_groups() -> String {
    let known = [(Transport::Gloo, "gloo"), (Transport::Nccl, "nccl")];
    let present = known.iter().filter(|(group, _)| has_transport(*group));
    let names: Vec<String> = present.map(|(group, name)| with_version(*group, name)).collect();
    if names.is_empty() { "none in this libtorch".to_string() } else { names.join(", ") }
}

fn with_version(transport: Transport, name: &str) -> String {
    match nccl_version().filter(|_| transport == Transport::Nccl) {
        Some(version) => format!("{name} {version}"),
        None => name.to_string(),
    }
}

/// Returns the version of the NCCL that libtorch has loaded.
fn nccl_version() -> Option<String> {
    // SAFETY: looks a name up among the loaded libraries; the function of that name writes one number and
    // returns a status (nccl.h).
    let code = unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, c"ncclGetVersion".as_ptr());
        if found.is_null() {
            return None;
        }
        let get: unsafe extern "C" fn(*mut c_int) -> c_int = std::mem::transmute(found);
        let mut code = 0;
        (get(&raw mut code) == 0).then_some(code)?
    };
    Some(nccl_name(code))
}

/// Returns `2.27.3` for 22703, as nccl.h counts versions since 2.9.
fn nccl_name(code: c_int) -> String {
    format!("{}.{}.{}", code / 10_000, code / 100 % 100, code % 100)
}

/// Whether the machine has an NVIDIA GPU with its driver, independently of this build.
fn has_nvidia_driver() -> bool {
    Path::new("/proc/driver/nvidia/version").exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::version::facts;

    #[test]
    fn versions_of_nccl_are_told_as_its_releases_are_named() {
        assert_eq!(nccl_name(22_703), "2.27.3");
    }

    #[test]
    fn the_version_finds_what_this_build_is_for() {
        let found = facts(BUILD.as_bytes()).expect("it is there");
        assert!(found.starts_with("libtorch 2.11.0, "), "{found}");
    }
}
