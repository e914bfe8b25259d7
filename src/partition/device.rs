//! The device of a process, in torch's words.

use tch::Device;

use super::mesh::{LocalDevice, Mesh};

impl LocalDevice {
    /// The first GPU, or the processors of a machine without one.
    pub fn available() -> Self {
        match Device::cuda_if_available() {
            Device::Cuda(index) => Self::Cuda(index),
            _ => Self::Cpu,
        }
    }
}

impl Mesh {
    /// The device of this process.
    pub fn device(&self) -> Device {
        match self.local_device() {
            LocalDevice::Cpu => Device::Cpu,
            LocalDevice::Cuda(index) => Device::Cuda(index),
        }
    }
}
