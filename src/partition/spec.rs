//! The configurables about devices, with T5X's names (T5X `partitioning.py`).

use crate::gin::{Configurable, Function, Value, ValueKind};
use crate::nn::StateDtype;

use super::listed::ListedRules;

/// Any partitioner the trainer accepts.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum Partitioner {
    /// T5X's own.
    Pjit(PjitPartitioner),
    /// The one for models with experts.
    Moe(MoePjitPartitioner),
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
    #[gin(default = StateDtype::Float32)]
    pub reduce_dtype: StateDtype,
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
            reduce_dtype: StateDtype::Float32,
            spread_optimizer_state: false,
        }
    }
}

/// A mesh of (data, model) devices that also divides experts over its data axis, where T5X has an axis of its own for
/// them. Each process holds some experts and their optimizer's state, and tokens are sent to them and back, as in T5X. Source: T5X
/// `contrib/moe/partitioning.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(
    name = "t5x.contrib.moe.partitioning.MoePjitPartitioner",
    ignored(
        params_on_devices = "parameters always live on the device",
        state_filter_fn = "the optimizer's state has the axes of its parameter"
    )
)]
pub struct MoePjitPartitioner {
    /// Greatest number of parts of the experts. They are divided if it is at least the size of the data axis; otherwise
    /// each process has all of them.
    pub num_expert_partitions: usize,
    /// Size of the model axis.
    #[gin(default = None)]
    pub num_partitions: Option<usize>,
    /// TPU mesh `(x, y, z, core)`; its product is the size of the model axis and wins over
    /// `num_partitions`.
    #[gin(default = None)]
    pub model_parallel_submesh: Option<Vec<usize>>,
    /// Rules that map each logical axis to the mesh axis that splits it; None are those of contrib/moe.
    #[gin(default = None)]
    pub logical_axis_rules: Option<LogicalAxisRules>,
    /// Whether the optimizer's state is divided over the data axis, as by `PjitPartitioner`. T5X has no such parameter.
    #[gin(default = false)]
    pub spread_optimizer_state: bool,
}

impl Partitioner {
    /// Returns the parameters that every partitioner has.
    pub fn pjit(&self) -> PjitPartitioner {
        match self {
            Self::Pjit(pjit) => pjit.clone(),
            Self::Moe(moe) => PjitPartitioner {
                num_partitions: moe.num_partitions,
                model_parallel_submesh: moe.model_parallel_submesh.clone(),
                logical_axis_rules: Some(
                    moe.logical_axis_rules
                        .clone()
                        .unwrap_or_else(|| LogicalAxisRules::Moe(StandardMoeAxisRules::default())),
                ),
                spread_optimizer_state: moe.spread_optimizer_state,
                ..PjitPartitioner::default()
            },
        }
    }

    /// Returns the configurable's name, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pjit(_) => "PjitPartitioner",
            Self::Moe(_) => "MoePjitPartitioner",
        }
    }

    /// Returns the greatest number of parts of experts, if they may be divided.
    pub fn num_expert_partitions(&self) -> Option<usize> {
        match self {
            Self::Pjit(_) => None,
            Self::Moe(moe) => Some(moe.num_expert_partitions),
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
    /// Those of contrib/moe.
    Moe(StandardMoeAxisRules),
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

/// T5X's standard rules, and those of the axes of experts. Source: T5X `contrib/moe/partitioning.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.contrib.moe.partitioning.standard_logical_axis_rules")]
pub struct StandardMoeAxisRules {
    /// 2, T5X's default, also splits activations between blocks over the model axis: here along their length, in T5X along
    /// `embed`.
    #[gin(default = 2)]
    pub activation_partitioning_dims: usize,
    /// 2 also splits parameters over the data axis.
    #[gin(default = 1)]
    pub parameter_partitioning_dims: usize,
    /// Pairs (logical axis, mesh axis or None) tried after the standard ones.
    #[gin(default = None)]
    pub additional_rules: Option<Vec<(String, Option<String>)>>,
}

/// The size of the model axis, which is given in one of two ways. Source: T5X `contrib/moe/partitioning.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.contrib.moe.partitioning.compute_num_model_partitions")]
pub struct ComputeNumModelPartitions {
    /// The size itself.
    pub num_model_partitions: Option<usize>,
    /// A TPU mesh `(x, y, z, core)`, whose product it is.
    pub model_parallel_submesh: Option<Vec<usize>>,
}

/// The logical axes of soft prompts.
pub(super) const PROMPT_AXES: [&str; 2] = ["prompt", "prompt_embed"];

/// The other logical axes of prompts of several tasks.
pub(super) const TASK_AXES: [&str; 2] = ["tasks", "prompt+embed"];

/// The rules of the axes of soft prompts, which every process has as a whole. Source: prompt-tuning `train/partitioning.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.train.partitioning.standard_logical_axis_rules")]
pub struct PromptAxisRules {}

/// The same rules and those of the axes of prompts of several tasks. Source: prompt-tuning
/// `extended/train/multitask_partitioning.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.extended.train.multitask_partitioning.standard_logical_axis_rules")]
pub struct MultiTaskAxisRules {}

impl Function for PromptAxisRules {
    fn call(self) -> Result<ValueKind, String> {
        Ok(whole(&PROMPT_AXES))
    }
}

impl Function for MultiTaskAxisRules {
    fn call(self) -> Result<ValueKind, String> {
        Ok(whole(&[PROMPT_AXES, TASK_AXES].concat()))
    }
}

/// Rules with which every process has all of these axes.
fn whole(axes: &[&str]) -> ValueKind {
    let rule = |axis: &&str| {
        let axis = Value::unplaced(ValueKind::Str(axis.to_string()));
        Value::unplaced(ValueKind::Tuple(vec![axis, Value::unplaced(ValueKind::None)]))
    };
    ValueKind::Tuple(axes.iter().map(rule).collect())
}

impl Function for ComputeNumModelPartitions {
    fn call(self) -> Result<ValueKind, String> {
        let product = self.model_parallel_submesh.map(|mesh| mesh.iter().product::<usize>());
        match (self.num_model_partitions, product) {
            (None, None) => Err("num_model_partitions and model_parallel_submesh are both None, expected one of them: set \
                                 NUM_MODEL_PARTITIONS"
                .to_string()),
            (Some(size), Some(product)) if size != product => Err(format!(
                "num_model_partitions is {size}, and the product of model_parallel_submesh is {product}, expected the same"
            )),
            (size, product) => Ok(ValueKind::from(size.or(product).unwrap_or(1) as i64)),
        }
    }
}

impl Default for StandardMoeAxisRules {
    fn default() -> Self {
        Self {
            activation_partitioning_dims: 2,
            parameter_partitioning_dims: 1,
            additional_rules: None,
        }
    }
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
