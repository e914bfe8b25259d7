//! The processes of a run as a mesh of two axes, and the part of each array on one of them.

use std::ops::Range;

use super::rules::{Rules, mesh_axes};
use super::spec::Partitioner;

/// The place of this process among those of a run. Each process drives one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number, from 0.
    pub rank: usize,
    /// Number of processes.
    pub count: usize,
}

impl Process {
    /// The one process of a run.
    pub const ALONE: Self = Self { rank: 0, count: 1 };
}

/// The device of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalDevice {
    /// The processors of the machine.
    Cpu,
    /// The GPU of that number.
    Cuda(usize),
}

/// One axis of a mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeshAxis {
    /// Processes along the axis.
    pub size: usize,
    /// The place of this process.
    pub index: usize,
}

/// The processes of a run: the model axis divides parameters, the data axis divides batches, and with
/// two-dimensional rules parameters too. Neighbours on the model axis have consecutive ranks, as T5X's
/// devices do. Source: T5X `partitioning.py`, `default_mesh`.
#[derive(Clone, Debug, PartialEq)]
pub struct Mesh {
    process: Process,
    data: MeshAxis,
    model: MeshAxis,
    /// The size of the model axis that the partitioner asks for.
    asked: usize,
    rules: Rules,
    device: LocalDevice,
}

impl Mesh {
    /// The mesh of these processes. Its model axis is as large as the partitioner asks for, if that
    /// divides the number of processes; else it is the largest smaller size that does.
    pub fn new(partitioner: &Partitioner, process: Process, device: LocalDevice) -> Self {
        let Partitioner::Pjit(pjit) = partitioner;
        let asked = pjit.requested_partitions().unwrap_or(1);
        let divides = |size: &usize| process.count.is_multiple_of(*size);
        let size = (1..=asked.min(process.count)).rev().find(divides).unwrap_or(1);
        Self {
            process,
            data: MeshAxis { size: process.count / size, index: process.rank / size },
            model: MeshAxis { size, index: process.rank % size },
            asked,
            rules: pjit.rules(),
            device,
        }
    }

    /// The mesh on which each process holds the whole model, and batches are divided among all.
    pub fn of_replicas(partitioner: &Partitioner, process: Process, device: LocalDevice) -> Self {
        Self {
            data: MeshAxis { size: process.count, index: process.rank },
            model: MeshAxis { size: 1, index: 0 },
            rules: vec![("batch".to_string(), Some("data".to_string()))],
            ..Self::new(partitioner, process, device)
        }
    }

    /// This process.
    pub fn process(&self) -> Process {
        self.process
    }

    /// The axis along which batches are divided.
    pub fn data(&self) -> MeshAxis {
        self.data
    }

    /// The axis along which parameters are divided.
    pub fn model(&self) -> MeshAxis {
        self.model
    }

    /// The size of the model axis that was asked for.
    pub fn asked(&self) -> usize {
        self.asked
    }

    /// The device of this process.
    pub fn local_device(&self) -> LocalDevice {
        self.device
    }

    /// The part of an array on this process. `axes` names its logical axes; an array without names
    /// is whole everywhere, and so is an extent that its mesh axis does not divide.
    pub fn shard(&self, axes: &[&str], shape: &[usize]) -> Shard {
        let mut split = mesh_axes(axes, &self.rules);
        split.resize(shape.len(), None);
        let range = |(axis, &extent): (&Option<String>, &usize)| {
            let axis = match axis.as_deref() {
                Some("model") => self.model,
                Some("data") => self.data,
                _ => MeshAxis { size: 1, index: 0 },
            };
            let part = extent / axis.size;
            match part * axis.size == extent {
                true => part * axis.index..part * (axis.index + 1),
                false => 0..extent,
            }
        };
        Shard { ranges: split.iter().zip(shape).map(range).collect(), whole: shape.to_vec() }
    }
}

/// The part of an array on one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The part along each axis.
    pub ranges: Vec<Range<usize>>,
    /// Extents of the whole array.
    pub whole: Vec<usize>,
}

impl Shard {
    /// Extents of the part.
    pub fn shape(&self) -> Vec<usize> {
        self.ranges.iter().map(ExactSizeIterator::len).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::spec::{LogicalAxisRules, PjitPartitioner, StandardLogicalAxisRules};
    use super::*;
    use crate::nn::Dtype;

    fn mesh(partitions: usize, parameter_dims: usize, rank: usize, count: usize) -> Mesh {
        let rules = StandardLogicalAxisRules {
            activation_partitioning_dims: 1,
            parameter_partitioning_dims: parameter_dims,
            additional_rules: None,
        };
        let partitioner = Partitioner::Pjit(PjitPartitioner {
            num_partitions: Some(partitions),
            model_parallel_submesh: None,
            logical_axis_rules: Some(LogicalAxisRules::Standard(rules)),
            reduce_dtype: Dtype::Float32,
        });
        Mesh::new(&partitioner, Process { rank, count }, LocalDevice::Cpu)
    }

    #[test]
    fn one_process_holds_everything_whatever_is_asked_for() {
        let mesh = mesh(4, 2, 0, 1);
        assert_eq!((mesh.data().size, mesh.model().size, mesh.asked()), (1, 1, 4));
        assert_eq!(mesh.shard(&["embed", "mlp"], &[6, 8]).ranges, [0..6, 0..8]);
    }

    #[test]
    fn neighbours_share_a_replica() {
        let mesh = mesh(2, 1, 3, 4);
        assert_eq!(mesh.data(), MeshAxis { size: 2, index: 1 });
        assert_eq!(mesh.model(), MeshAxis { size: 2, index: 1 });
        assert_eq!(mesh.shard(&["embed", "mlp"], &[6, 8]).ranges, [0..6, 4..8]);
        assert_eq!(mesh.shard(&["batch", "length"], &[8, 5]).ranges, [4..8, 0..5]);
        // A model axis of 3 does not divide 4 processes.
        assert_eq!(self::mesh(3, 1, 0, 4).model().size, 2);
    }

    #[test]
    fn parts_cover_a_parameter_once_and_odd_extents_stay_whole() {
        let parts = (0..4).map(|rank| mesh(2, 2, rank, 4).shard(&["embed", "mlp"], &[4, 6]));
        let mut cells: Vec<(usize, usize)> = parts
            .flat_map(|part| {
                assert_eq!(part.shape(), [2, 3]);
                let [rows, columns] = [0, 1].map(|axis| part.ranges[axis].clone());
                rows.flat_map(move |row| columns.clone().map(move |column| (row, column)))
            })
            .collect();
        cells.sort_unstable();
        let all: Vec<_> = (0..4).flat_map(|row| (0..6).map(move |column| (row, column))).collect();
        assert_eq!(cells, all);
        assert_eq!(mesh(2, 1, 0, 2).shard(&["vocab", "embed"], &[7, 4]).ranges, [0..7, 0..4]);
        assert_eq!(mesh(2, 1, 0, 2).shard(&[], &[8]).shape(), [8]);
    }
}
