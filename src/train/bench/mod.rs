//! Measures the speed of a run's training step and decoding: its own model, optimizer, shapes and
//! precision, on full rows of made-up tokens. No data are read and nothing is written.

mod breakdown;
mod decode;
mod synthetic;
mod train_step;

use tch::Device;

use crate::nn::bridge::{cuda_devices, device_memory};
use crate::telemetry::peak_resident_bytes;

pub use breakdown::{Breakdown, Longest, Timeline};
pub use decode::{DecodeFigures, bench_decode};
pub use train_step::{Exchanged, TrainStepFigures, bench_train_step};

/// The numbers of repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Repetitions before the clock starts.
    pub warmup: usize,
    /// Repetitions that are timed.
    pub steps: usize,
    /// Whether a step may be one launch on a GPU.
    pub graphs: bool,
}

/// The machine of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The device's name, or `cpu`.
    pub device: String,
    /// Threads of libtorch on a CPU; `None` on a GPU.
    pub num_threads: Option<i32>,
    /// Peak dense bfloat16 operations a second of the device, if known.
    pub peak_flops: Option<f64>,
}

/// NVIDIA's figures for dense products in bfloat16, by the beginnings of product names after
/// `NVIDIA `; the first that fits counts.
const PEAK_FLOPS: [(&str, f64); 7] = [
    ("H100 PCIe", 756e12),
    ("H100 NVL", 835e12),
    ("H100", 989e12),
    ("H200 NVL", 835e12),
    ("H200", 989e12),
    ("GH200", 989e12),
    ("A100", 312e12),
];

impl Machine {
    /// Describes the machine of a device.
    pub fn of(device: Device) -> Self {
        let cuda = match device {
            Device::Cuda(index) => cuda_devices().into_iter().nth(index),
            _ => None,
        };
        match cuda {
            Some(cuda) => {
                let peak_flops = peak_flops(&cuda.name);
                Self { device: cuda.name, num_threads: None, peak_flops }
            }
            None => Self {
                device: "cpu".to_string(),
                num_threads: Some(tch::get_num_threads()),
                peak_flops: None,
            },
        }
    }
}

fn peak_flops(device: &str) -> Option<f64> {
    let product = device.trim_start_matches("NVIDIA ");
    let found = PEAK_FLOPS.iter().find(|(name, _)| product.starts_with(name));
    found.map(|(_, peak)| *peak)
}

/// Waits until the device has finished its work.
fn synchronize(device: Device) {
    if let Device::Cuda(index) = device {
        tch::Cuda::synchronize(index as i64);
    }
}

/// Returns peak memory: of tensors since the last call on a GPU, of the process since its start on a CPU.
fn peak_bytes(device: Device) -> u64 {
    match device_memory(device) {
        Some(memory) => memory.peak_bytes as u64,
        None => peak_resident_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_those_of_known_products_only() {
        let check = |name: &str, expected: Option<f64>| assert_eq!(peak_flops(name), expected);
        check("NVIDIA H200", Some(989e12));
        check("NVIDIA H200 NVL", Some(835e12));
        check("NVIDIA H100 80GB HBM3", Some(989e12));
        check("NVIDIA H100 PCIe", Some(756e12));
        check("NVIDIA A100-SXM4-80GB", Some(312e12));
        check("NVIDIA A10", None);
        check("NVIDIA GeForce RTX 4090", None);
    }
}
