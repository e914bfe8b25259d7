//! The processes of a run as a mesh of two axes, and the part of each parameter on one of them.

use super::misfit::Misfit;
use super::rules::{Rules, mesh_axes};
use super::spec::Partitioner;
use crate::nn::{MeshDim, Shard};

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
    /// The rules that divide parameters.
    rules: Rules,
    /// The rules that divide the optimizer's state.
    state_rules: Rules,
    splits_length: bool,
    /// Whether the data axis divides experts.
    divides_experts: bool,
    device: LocalDevice,
}

impl Mesh {
    /// The mesh of these processes. One process alone holds everything, whatever the partitioner asks for.
    ///
    /// # Errors
    /// The size of the model axis does not divide the number of processes.
    pub fn new(
        partitioner: &Partitioner,
        process: Process,
        device: LocalDevice,
    ) -> Result<Self, Misfit> {
        let pjit = partitioner.pjit();
        let (asked, count) = (pjit.requested_partitions().unwrap_or(1), process.count);
        let size = if count == 1 { 1 } else { asked };
        if size == 0 || !count.is_multiple_of(size) {
            let divisors = (1..=count).filter(|size| count.is_multiple_of(*size));
            return Err(Misfit(format!(
                "num_partitions = {asked} does not divide {count} processes: set {}.num_partitions to one of {}, or \
                 start a multiple of {asked}",
                partitioner.name(),
                divisors.map(|size| size.to_string()).collect::<Vec<_>>().join(", ")
            )));
        }
        Ok(Self {
            process,
            data: MeshAxis { size: count / size, index: process.rank / size },
            model: MeshAxis { size, index: process.rank % size },
            asked,
            rules: pjit.rules(),
            state_rules: pjit.state_rules(),
            splits_length: pjit.splits_activations() && size > 1,
            divides_experts: partitioner
                .num_expert_partitions()
                .is_some_and(|parts| parts >= count / size),
            device,
        })
    }

    /// The mesh on which each process holds the whole model, and batches are divided among all.
    pub fn of_replicas(partitioner: &Partitioner, process: Process, device: LocalDevice) -> Self {
        let pjit = partitioner.pjit();
        Self {
            process,
            data: MeshAxis { size: process.count, index: process.rank },
            model: MeshAxis { size: 1, index: 0 },
            asked: pjit.requested_partitions().unwrap_or(1),
            rules: Rules::new(),
            state_rules: Rules::new(),
            splits_length: false,
            divides_experts: false,
            device,
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

    /// Whether activations between blocks are divided along their length over the model axis.
    pub fn splits_length(&self) -> bool {
        self.splits_length
    }

    /// The device of this process.
    pub fn local_device(&self) -> LocalDevice {
        self.device
    }

    /// The part of a parameter on this process. `axes` names its logical axes; an array without names
    /// is whole everywhere.
    pub fn shard(&self, axes: &[&str], shape: &[usize]) -> Shard {
        self.divided(axes, shape, &self.rules)
    }

    /// The part of a parameter that this process updates, whose state it keeps.
    pub fn state_shard(&self, axes: &[&str], shape: &[usize]) -> Shard {
        self.divided(axes, shape, &self.state_rules)
    }

    /// Number of experts of each process, of so many.
    pub fn own_experts(&self, num_experts: usize) -> usize {
        self.shard(&["expert"], &[num_experts]).shape()[0]
    }

    /// The processes that hold the same part of an array.
    pub fn holders(&self, part: &Shard) -> Vec<usize> {
        let is_alike = |rank: &usize| {
            let same_model = *rank % self.model.size == self.model.index;
            let same_data = *rank / self.model.size == self.data.index;
            (part.dim(MeshDim::Model).is_none() || same_model)
                && (part.dim(MeshDim::Data).is_none() || same_data)
        };
        (0..self.process.count).filter(is_alike).collect()
    }

    fn divided(&self, axes: &[&str], shape: &[usize], rules: &Rules) -> Shard {
        let mut part = Shard::whole(shape);
        for (dim, mesh_axis) in mesh_axes(axes, rules).iter().enumerate() {
            let (name, axis) = match mesh_axis.as_deref() {
                // Rules that divide `embed` over the model axis are about activations.
                Some("model") if axes[dim] != "embed" => (MeshDim::Model, self.model),
                Some("data") => (MeshDim::Data, self.data),
                Some("expert") if self.divides_experts => (MeshDim::Data, self.data),
                _ => continue,
            };
            // Two rules may name the same processes.
            if axis.size == 1 || part.dim(name).is_some() {
                continue;
            }
            part = part.divided(dim, name, (axis.index, axis.size));
            if axes[dim] == "expert" {
                part = part.staying();
            }
        }
        part
    }
}

#[cfg(test)]
mod tests {
    use super::super::spec::{LogicalAxisRules, PjitPartitioner, StandardLogicalAxisRules};
    use super::*;

    fn mesh(partitions: usize, parameter_dims: usize, rank: usize, count: usize) -> Mesh {
        new(partitions, parameter_dims, rank, count).expect("it fits")
    }

    fn new(
        partitions: usize,
        parameter_dims: usize,
        rank: usize,
        count: usize,
    ) -> Result<Mesh, Misfit> {
        let rules = StandardLogicalAxisRules {
            parameter_partitioning_dims: parameter_dims,
            ..Default::default()
        };
        let partitioner = Partitioner::Pjit(PjitPartitioner {
            num_partitions: Some(partitions),
            logical_axis_rules: Some(LogicalAxisRules::Standard(rules)),
            spread_optimizer_state: true,
            ..Default::default()
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
        let updated = mesh.state_shard(&["embed", "mlp"], &[6, 8]);
        assert_eq!(updated.ranges, [3..6, 4..8]);
        assert_eq!(mesh.holders(&updated), [3]);
        assert_eq!(mesh.holders(&mesh.shard(&["embed", "mlp"], &[6, 8])), [1, 3]);
        assert_eq!(mesh.holders(&mesh.shard(&["embed"], &[6])), [0, 1, 2, 3]);
    }

    #[test]
    fn a_model_axis_that_does_not_divide_the_processes_is_refused() {
        let error = new(3, 1, 0, 4).unwrap_err().to_string();
        assert!(error.contains("set PjitPartitioner.num_partitions to one of 1, 2, 4"), "{error}");
    }

    #[test]
    fn parts_cover_a_parameter_once_and_odd_extents_have_a_smaller_part() {
        let parts = (0..4).map(|rank| mesh(2, 2, rank, 4).shard(&["embed", "mlp"], &[4, 5]));
        let mut cells: Vec<(usize, usize)> = parts
            .flat_map(|part| {
                let [rows, columns] = [0, 1].map(|dim| part.ranges[dim].clone());
                rows.flat_map(move |row| columns.clone().map(move |column| (row, column)))
            })
            .collect();
        cells.sort_unstable();
        let all: Vec<_> = (0..4).flat_map(|row| (0..5).map(move |column| (row, column))).collect();
        assert_eq!(cells, all);
        assert_eq!(mesh(2, 1, 0, 2).shard(&["vocab", "embed"], &[7, 4]).ranges, [0..4, 0..4]);
        assert_eq!(mesh(2, 1, 0, 2).shard(&[], &[8]).shape(), [8]);
    }
}
