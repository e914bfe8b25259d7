//! The mesh on tensors.

use tch::{Device, Tensor};

use super::mesh::{LocalDevice, Mesh, Shard};

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

impl Shard {
    /// The part of a whole array, as a view.
    pub fn of(&self, whole: &Tensor) -> Tensor {
        let narrowed = |part: Tensor, (axis, range): (usize, &std::ops::Range<usize>)| {
            part.narrow(axis as i64, range.start as i64, range.len() as i64)
        };
        self.ranges.iter().enumerate().fold(whole.shallow_clone(), narrowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_a_view_of_its_ranges() {
        let whole = Tensor::arange(12, (tch::Kind::Int64, Device::Cpu)).view([3, 4]);
        let part = Shard { ranges: vec![0..3, 2..4], whole: vec![3, 4] }.of(&whole);
        assert_eq!(part, Tensor::from_slice2(&[[2i64, 3], [6, 7], [10, 11]]));
        assert_eq!(Shard { ranges: vec![0..3, 0..4], whole: vec![3, 4] }.of(&whole), whole);
    }
}
