//! T5X's classes that write and read checkpoints. Here all of them write and read alike; they
//! differ in which checkpoints they keep. Source: T5X `checkpoints.py`.

use gimlet_gin::Configurable;

/// Keeps the newest checkpoints. Source: T5X `checkpoints.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(
    name = "t5x.checkpoints.Checkpointer",
    ignored(
        train_state = "the run gives it",
        partitioner = "the run gives it",
        checkpoints_dir = "the run gives it",
        dataset_iterator = "the run gives it",
        restore_dtype = "the run gives it",
        keep = "SaveCheckpointConfig gives it",
        save_dtype = "SaveCheckpointConfig.dtype gives it",
        keep_dataset_checkpoints = "SaveCheckpointConfig gives it"
    )
)]
pub struct Checkpointer {}

/// Keeps the newest checkpoint and `keep` others with the best metric. Source: T5X `checkpoints.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.checkpoints.SaveBestCheckpointer",
    ignored(
        train_state = "the run gives it",
        partitioner = "the run gives it",
        checkpoints_dir = "the run gives it",
        dataset_iterator = "the run gives it",
        restore_dtype = "the run gives it",
        keep = "SaveCheckpointConfig gives it",
        save_dtype = "SaveCheckpointConfig.dtype gives it",
        keep_dataset_checkpoints = "SaveCheckpointConfig gives it"
    )
)]
pub struct SaveBestCheckpointer {
    /// The metric as TensorBoard shows it, run and tag: 'train/accuracy', 'training_eval/TASK/loss',
    /// 'inference_eval/TASK/eval/rouge1'.
    #[gin(default = "train/accuracy".to_string())]
    pub metric_name_to_monitor: String,
    /// Direction in which the metric improves.
    #[gin(default = MetricMode::Max)]
    pub metric_mode: MetricMode,
    /// Whether a checkpoint with an unknown metric is kept; otherwise it is removed first.
    #[gin(default = true)]
    pub keep_checkpoints_without_metrics: bool,
    /// Checkpoints whose step is a multiple of this number are kept and do not count.
    #[gin(default = None)]
    pub force_keep_period: Option<u64>,
}

/// Keeps the newest checkpoints, or the best like `SaveBestCheckpointer` if it names a metric. It
/// writes Orbax's layout in T5X, and T5X's native layout here. Source: T5X `checkpoints.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.checkpoints.OrbaxCheckpointManagerInterface",
    ignored(
        directory = "the run gives it",
        train_state = "the run gives it",
        partitioner = "the run gives it",
        dataset_iterator = "the run gives it",
        restore_dtype = "the run gives it",
        keep = "SaveCheckpointConfig gives it",
        period = "SaveCheckpointConfig gives it",
        checkpoint_steps = "SaveCheckpointConfig gives it",
        save_dtype = "SaveCheckpointConfig.dtype gives it",
        keep_dataset_checkpoints = "SaveCheckpointConfig gives it"
    )
)]
pub struct OrbaxCheckpointManager {
    /// The metric as TensorBoard shows it, run and tag; None keeps the newest.
    #[gin(default = None)]
    pub metric_name_to_monitor: Option<String>,
    /// Direction in which the metric improves.
    #[gin(default = MetricMode::Max)]
    pub metric_mode: MetricMode,
    /// Whether a checkpoint with an unknown metric is kept; otherwise it is removed first.
    #[gin(default = true)]
    pub keep_checkpoints_without_metrics: bool,
    /// With a metric: checkpoints whose step is a multiple of this number are kept and do not count.
    #[gin(default = None)]
    pub force_keep_period: Option<u64>,
}

/// Restores a checkpoint without experts to a model with experts, each of which begins as the dense block from which
/// `assignment_map` takes it. It keeps the newest checkpoints. Source: T5X `contrib/moe/checkpoints.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.contrib.moe.checkpoints.UpcycleCheckpointer")]
pub struct UpcycleCheckpointer {
    /// Number of experts of the model.
    pub num_experts: usize,
}

/// Keeps the newest checkpoints, and writes some parameters of each as files of numpy's, which stay:
/// `MODEL_DIR/numpy_checkpoints/checkpoint_7/encoder.prompt.prompt.prompt`. Source: prompt-tuning `train/utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "prompt_tuning.train.utils.Checkpointer",
    ignored(
        train_state = "the run gives it",
        partitioner = "the run gives it",
        checkpoints_dir = "the run gives it",
        dataset_iterator = "the run gives it",
        restore_dtype = "the run gives it",
        keep = "SaveCheckpointConfig gives it",
        save_dtype = "SaveCheckpointConfig.dtype gives it",
        keep_dataset_checkpoints = "SaveCheckpointConfig gives it"
    )
)]
pub struct NumpyCheckpointer {
    /// Regular expressions, of which one must match the whole name of a parameter that is written:
    /// `.*/prompt/.*` matches `encoder/prompt/prompt/prompt`.
    pub save_paths: Vec<String>,
}

/// The classes that `checkpointer_cls` may name.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum CheckpointerClass {
    /// Keeps the newest.
    Checkpointer(Checkpointer),
    /// Keeps the best.
    SaveBest(SaveBestCheckpointer),
    /// Restores experts.
    Upcycle(UpcycleCheckpointer),
    /// Writes files of numpy's too.
    Numpy(NumpyCheckpointer),
}

/// The classes that `checkpoint_manager_cls` may name.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum CheckpointManagerClass {
    /// The only one.
    Orbax(OrbaxCheckpointManager),
}

/// Direction in which a metric improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum MetricMode {
    /// Larger is better.
    Max,
    /// Smaller is better.
    Min,
}

/// The rule by which the best checkpoints stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepBest {
    /// Run and tag.
    pub metric: String,
    /// Direction in which the metric improves.
    pub mode: MetricMode,
    /// Whether a checkpoint with an unknown metric is kept.
    pub keep_without_metrics: bool,
    /// Checkpoints whose step is a multiple of this number are kept.
    pub force_keep_period: Option<u64>,
}

impl Default for CheckpointerClass {
    fn default() -> Self {
        Self::Checkpointer(Checkpointer {})
    }
}

impl Default for CheckpointManagerClass {
    fn default() -> Self {
        Self::Orbax(OrbaxCheckpointManager {
            metric_name_to_monitor: None,
            metric_mode: MetricMode::Max,
            keep_checkpoints_without_metrics: true,
            force_keep_period: None,
        })
    }
}

impl CheckpointerClass {
    /// The number of experts for which a dense block is repeated, if any.
    pub fn num_experts(&self) -> Option<usize> {
        match self {
            Self::Upcycle(class) => Some(class.num_experts),
            Self::Checkpointer(_) | Self::SaveBest(_) | Self::Numpy(_) => None,
        }
    }

    /// Patterns of the parameters that it writes as files of numpy's.
    pub fn save_paths(&self) -> &[String] {
        match self {
            Self::Numpy(class) => &class.save_paths,
            Self::Checkpointer(_) | Self::SaveBest(_) | Self::Upcycle(_) => &[],
        }
    }

    /// The metric by which it keeps checkpoints; `None` keeps the newest.
    pub fn keep_best(&self) -> Option<KeepBest> {
        match self {
            Self::Checkpointer(_) | Self::Upcycle(_) | Self::Numpy(_) => None,
            Self::SaveBest(class) => Some(KeepBest {
                metric: class.metric_name_to_monitor.clone(),
                mode: class.metric_mode,
                keep_without_metrics: class.keep_checkpoints_without_metrics,
                force_keep_period: class.force_keep_period,
            }),
        }
    }
}

impl CheckpointManagerClass {
    /// The metric by which it keeps checkpoints; `None` keeps the newest.
    pub fn keep_best(&self) -> Option<KeepBest> {
        let Self::Orbax(class) = self;
        Some(KeepBest {
            metric: class.metric_name_to_monitor.clone()?,
            mode: class.metric_mode,
            keep_without_metrics: class.keep_checkpoints_without_metrics,
            force_keep_period: class.force_keep_period,
        })
    }
}
