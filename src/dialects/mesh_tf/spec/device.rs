//! Devices, types of numbers, microbatches, and the function that TPUEstimator calls.

use gimlet_gin::Configurable;

use crate::mesh_tf::values::{
    FanIn, NoUnitScaling, NoVariableFilter, Normal, OneOuterBatch, UnitVariance,
};

/// The mesh of a TPU. Source: mesh `transformer/utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh_tensorflow.transformer.utils.tpu_mesh_shape")]
pub struct TpuMeshShape {
    /// The number of cores: 'v3-8' has 8, '4x4' twice as many as its product. It counts the replicas of batch sizes
    /// that are given per replica; nothing else depends on it.
    #[gin(default = None)]
    pub tpu_topology: Option<String>,
    /// Cores that share one copy of the model.
    #[gin(default = 1)]
    pub model_parallelism: u64,
    /// Models of an ensemble; only None and 1 are supported.
    #[gin(default = None)]
    pub ensemble_parallelism: Option<u64>,
}

impl TpuMeshShape {
    /// Returns the number of cores of a topology; `None` if it cannot be read.
    pub fn cores(topology: &str) -> Option<u64> {
        match topology.strip_prefix('v') {
            Some(version) => version.rsplit('-').next()?.parse().ok(),
            None => {
                let sides = topology.split('x').map(|side| side.parse::<u64>().ok());
                sides.product::<Option<u64>>()?.checked_mul(2)
            }
        }
    }
}

/// The types of variables and activations. Source: mesh `transformer/utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh_tensorflow.transformer.utils.get_variable_dtype")]
pub struct GetVariableDtype {
    /// The type of parameters in checkpoints. It has no effect: checkpoints have float32.
    #[gin(default = None)]
    pub master_dtype: Option<VariableDtype>,
    /// The type of parameters in computations. It has no effect: they are float32.
    #[gin(default = None)]
    pub slice_dtype: Option<VariableDtype>,
    /// The type of activations; float32 for any value if the command line has no `--tpu`.
    #[gin(default = None)]
    pub activation_dtype: Option<VariableDtype>,
}

/// A type of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum VariableDtype {
    /// 32 bits.
    Float32,
    /// 16 bits, 8 of them for the exponent.
    Bfloat16,
}

/// The number of microbatches. Source: mesh `transformer/utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.utils.serialize_num_microbatches",
    ignored(
        batch_dim = "the run gives it",
        sequence_length = "the run gives it",
        mesh_shape = "the run gives it",
        layout_rules = "the run gives it"
    )
)]
pub struct SerializeNumMicrobatches {
    /// Tokens that each device computes at once, by the longest feature. None does not split batches.
    #[gin(default = None)]
    pub tokens_per_microbatch_per_replica: Option<u64>,
}

/// The number of steps for a number of tokens. Source: mesh `transformer/utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.utils.auto_train_steps",
    ignored(batch_size = "the run gives it", sequence_length = "the run gives it")
)]
pub struct AutoTrainSteps {
    /// Tokens to train on, padding included.
    #[gin(default = 1 << 36)]
    pub train_tokens: u64,
}

impl Default for AutoTrainSteps {
    fn default() -> Self {
        Self { train_tokens: 1 << 36 }
    }
}

/// The function that TPUEstimator calls. Source: mesh `transformer/utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.utils.tpu_estimator_model_fn",
    ignored(
        model_type = "the run gives it",
        transformer_model = "the run gives it",
        vocabulary = "the run gives it",
        model_dir = "the run gives it",
        use_tpu = "the run gives it",
        mesh_shape = "the run gives it",
        layout_rules = "the run gives it",
        batch_size = "the run gives it",
        sequence_length = "the run gives it",
        autostack = "the run gives it",
        keep_checkpoint_max = "the run gives it",
        save_checkpoints_steps = "the run gives it",
        learning_rate_schedule = "the run gives it",
        optimizer = "the run gives it",
        variable_filter = "the run gives it",
        ensemble_inputs = "the run gives it",
        mesh_devices = "the run gives it",
        score_in_predict_mode = "the run gives it",
        tpu_summaries = "events are always written",
        model_info_file = "MODEL_DIR has a model-info.txt",
        hierarchical_tiling_spec = "there are no TPUs"
    )
)]
pub struct TpuEstimatorModelFn {
    /// The checkpoint to start from, as `run.init_checkpoint`; Mesh TensorFlow ignores it since 2019-11. Two different
    /// checkpoints are an error.
    #[gin(default = None)]
    pub init_checkpoint: Option<String>,
    /// Pattern of the variables that are restored; only '' is supported.
    #[gin(default = NoVariableFilter)]
    pub init_variable_filter: NoVariableFilter,
    /// Only 1 is supported.
    #[gin(default = OneOuterBatch)]
    pub outer_batch_size: OneOuterBatch,
}

/// The joining of variables for speed. Source: mesh `ops.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.ops.Graph.rewrite_stack_variables",
    alias = "Graph.rewrite_stack_variables",
    ignored(
        max_combined_variable_size = "variables are never stacked",
        max_combined_slice_size = "variables are never stacked",
        mesh_to_impl = "variables are never stacked"
    )
)]
pub struct RewriteStackVariables {}

/// The implementation of a mesh of TPUs. Source: mesh `simd_mesh_impl.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.simd_mesh_impl.SimdMeshImpl",
    ignored(
        shape = "there are no TPUs",
        layout = "there are no TPUs",
        devices = "there are no TPUs",
        device_assignment = "there are no TPUs",
        logical_to_physical = "there are no TPUs",
        allreduce_in_bfloat16_max_group_size = "gradients are summed in float32"
    )
)]
pub struct SimdMeshImpl {}

/// Parameters of unit scale. Source: mesh `layers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh_tensorflow.layers.unit_scaling_convention")]
pub struct UnitScalingConvention {
    /// Only False is supported.
    #[gin(default = NoUnitScaling)]
    pub value: NoUnitScaling,
}

/// First values of a kernel. Source: mesh `layers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.layers.VarianceScalingInitializer",
    ignored(seed = "the run has one seed")
)]
pub struct VarianceScalingInitializer {
    /// Only 1.0 is supported.
    #[gin(default = UnitVariance)]
    pub scale: UnitVariance,
    /// Only 'fan_in' is supported.
    #[gin(default = FanIn)]
    pub mode: FanIn,
    /// Only 'normal' is supported.
    #[gin(default = Normal)]
    pub distribution: Normal,
}
