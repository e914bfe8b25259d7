//! The configurables about devices, with T5X's names (T5X `partitioning.py`).

use crate::gin::Configurable;
use crate::nn::Dtype;

use super::listed::ListedRules;

/// Any partitioner the trainer accepts.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum Partitioner {
    /// T5X's own.
    Pjit(PjitPartitioner),
}

/// A mesh of (data, model) devices: the model axis splits heads, mlp and vocabulary, the data axis
/// holds replicas. Source: T5X `partitioning.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.partitioning.PjitPartitioner",
    ignored(
        params_on_devices = "parameters always live on the device",
        backend = "libtorch picks the device",
        ici_mesh_shape = "a TPU slice's inner mesh",
        dcn_mesh_shape = "a TPU slice's outer mesh"
    )
)]
pub struct PjitPartitioner {
    /// Size of the model axis.
    #[gin(default = None)]
    pub num_partitions: Option<usize>,
    /// TPU mesh `(x, y, z, core)`; its product is the size of the model axis and wins over
    /// `num_partitions`.
    #[gin(default = None)]
    pub model_parallel_submesh: Option<Vec<usize>>,
    /// Rules that map each logical axis to the mesh axis that splits it.
    #[gin(default = None)]
    pub logical_axis_rules: Option<LogicalAxisRules>,
    /// The number format in which gradients travel between processes: 'float32', or 'bfloat16' for half of the
    /// bytes. T5X has no such parameter.
    #[gin(default = Dtype::Float32)]
    pub reduce_dtype: Dtype,
    /// Whether the optimizer's state is divided over the data axis while each process there holds whole parameters
    /// (ZeRO-1; Rajbhandari et al. 2020, arXiv:1910.02054). `parameter_partitioning_dims = 2` divides both. T5X has no
    /// such parameter.
    #[gin(default = false)]
    pub spread_optimizer_state: bool,
}

impl Default for PjitPartitioner {
    fn default() -> Self {
        Self {
            num_partitions: None,
            model_parallel_submesh: None,
            logical_axis_rules: None,
            reduce_dtype: Dtype::Float32,
            spread_optimizer_state: false,
        }
    }
}

impl PjitPartitioner {
    /// Returns the requested size of the model axis; `None` if neither parameter is set.
    pub fn requested_partitions(&self) -> Option<usize> {
        if let Some(LogicalAxisRules::Listed(ListedRules { divides_model: false, .. })) =
            &self.logical_axis_rules
        {
            return Some(1);
        }
        let submesh = self.model_parallel_submesh.as_ref().map(|mesh| mesh.iter().product());
        submesh.or(self.num_partitions)
    }
}

/// Rules from logical to mesh axes.
#[derive(Clone, Debug, PartialEq)]
pub enum LogicalAxisRules {
    /// T5X's standard rules.
    Standard(StandardLogicalAxisRules),
    /// Rules that a user lists.
    Listed(ListedRules),
}

/// T5X's standard rules for one- and two-dimensional partitioning of parameters and activations.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.partitioning.standard_logical_axis_rules")]
pub struct StandardLogicalAxisRules {
    /// 2 also splits activations between blocks over the model axis: here along their length, in T5X along
    /// `embed`.
    #[gin(default = 1)]
    pub activation_partitioning_dims: usize,
    /// 2 also splits parameters over the data axis.
    #[gin(default = 1)]
    pub parameter_partitioning_dims: usize,
    /// Pairs (logical axis, mesh axis or None) tried after the standard ones.
    #[gin(default = None)]
    pub additional_rules: Option<Vec<(String, Option<String>)>>,
}

impl Default for StandardLogicalAxisRules {
    fn default() -> Self {
        Self {
            activation_partitioning_dims: 1,
            parameter_partitioning_dims: 1,
            additional_rules: None,
        }
    }
}
