//! The root of a training run: T5X's `train` and `Trainer` with all their parameters.

use std::collections::BTreeMap;

use crate::checkpoint::CheckpointConfig;
use crate::data::DatasetConfig;
use crate::evaluation::{Evaluator, MlflowLogger};
use crate::gin::{Configurable, Ref};
use crate::models::Model;
use crate::nn::TransformerEngineConfig;
use crate::partition::Partitioner;
use crate::session::spec::{SummarizeConfig, TrainerClass};

use super::best::BestModel;
use super::plateau::ReduceLROnPlateau;

/// Trains a model, with periodic checkpoints and evaluation. Source: T5X `train.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.train.train",
    ignored(
        use_hardware_rng = "dropout draws from libtorch's generator, seeded by seed, step and rank",
        get_dataset_fn = "datasets are built by Gimlet's own pipeline",
        train_eval_get_dataset_fn = "datasets are built by Gimlet's own pipeline",
        train_state_initializer_cls = "state is initialized from the model's parameter tree",
        verify_matching_vocabs_fn = "vocabularies of task and model are always compared",
        use_orbax = "checkpoints are written in T5X's native layout",
        gc_period = "there is no garbage collector",
        use_jax_array = "arrays are libtorch's",
        concurrent_metrics = "metrics are computed between steps"
    )
)]
pub struct Train {
    /// The trained model: module, vocabularies, optimizer and loss.
    pub model: Model,
    /// Batches to train on.
    pub train_dataset_cfg: DatasetConfig,
    /// Batches to measure the training loss on, held out.
    pub train_eval_dataset_cfg: Option<DatasetConfig>,
    /// Examples to decode and score with the task's metrics.
    pub infer_eval_dataset_cfg: Option<DatasetConfig>,
    /// Options of saving and restoring.
    pub checkpoint_cfg: CheckpointConfig,
    /// Partitioning of the model over devices.
    pub partitioner: Partitioner,
    /// The update step.
    pub trainer_cls: Ref<TrainerClass>,
    /// Folder of checkpoints, logs and the configuration.
    pub model_dir: String,
    /// Step to stop at, counted from zero and including steps of a restored checkpoint.
    pub total_steps: u64,
    /// Examples to evaluate once more when the run ends, with the best model if `best` saves it: `metrics.json` in MODEL_DIR has the
    /// loss of each task, and the metrics of its predictions if there is an `infer_eval_dataset_cfg`, beside the last loss of
    /// training. Of a BERT it has the losses and accuracies of both heads.
    #[gin(default = None)]
    pub after_training_dataset_cfg: Option<DatasetConfig>,
    /// Batches of each held-out dataset per evaluation; None for all of one pass, which stay in memory, the last one with
    /// fewer rows.
    pub eval_steps: Option<u64>,
    /// Steps between evaluations; None or 0 for never.
    pub eval_period: Option<u64>,
    /// Number of steps from the step at which the process starts, restored or 0, instead of
    /// `total_steps`; a run that is started again makes them again. With None or 0, `total_steps`
    /// counts.
    #[gin(default = None)]
    pub relative_steps: Option<u64>,
    /// The step of a pretrained checkpoint, of which only parameters and step are restored, so that the optimizer's state
    /// begins anew; checkpoints of other steps are restored whole. Source: NVIDIA's branch of T5X.
    #[gin(default = None)]
    pub reset_state_after: Option<u64>,
    /// Steps between writes of training metrics; by default as often as checkpoints and evaluations.
    #[gin(default = None)]
    pub stats_period: Option<u64>,
    /// Whether steps have the numbers 0 to `total_steps`, that one included, as in t5-experiments: the run makes one update more. A
    /// period is then due after each update whose number it divides, that of number 0 too, and not at the end of the run; periods
    /// need not be multiples of each other, and an evaluation precedes the checkpoint of the same step. Checkpoints and logs
    /// count updates either way: those after update 0 have step 1.
    #[gin(default = false)]
    pub counts_steps_from_zero: bool,
    /// Seed of initialization, data and dropout; None draws one from the clock.
    pub random_seed: Option<i64>,
    /// Method of writing the configuration.
    pub summarize_config_fn: Ref<SummarizeConfig>,
    /// Scoring of decoded examples.
    #[gin(default = Ref(Evaluator::default()))]
    pub inference_evaluator_cls: Ref<Evaluator>,
    /// MLflow logger of the metrics of training and of held-out batches, beside the files in MODEL_DIR. The metrics of
    /// tasks are logged by `seqio.Evaluator.logger_cls`.
    #[gin(default = None)]
    pub training_logger: Option<Ref<MlflowLogger>>,
    /// Whether MODEL_DIR itself also has the logs of t5-experiments' Trainer: event files with its tags, `loss/iterations/train` and
    /// `loss/samples/train` among them, which count steps from 0, and a text file `YEAR.MONTH.DAY_TIME_rank_0.log`.
    #[gin(default = false)]
    pub writes_trainer_log: bool,
    /// Actions after each TRAIN, TRAIN_EVAL or INFER_EVAL.
    #[gin(default = None)]
    pub actions: Option<BTreeMap<String, Vec<Action>>>,
    /// The rule that saves the best model and ends a run that no longer improves.
    #[gin(default = None)]
    pub best: Option<BestModel>,
    /// The rule that lowers the learning rate when evaluations no longer improve.
    #[gin(default = None)]
    pub reduce_on_plateau: Option<ReduceLROnPlateau>,
    /// Evaluate once before the first step.
    #[gin(default = false)]
    pub run_eval_before_training: bool,
    /// Whether projections compute in 8-bit floats, instead of the network's `fp8`. Source:
    /// NVIDIA's branch of T5X, `contrib/gpu`.
    #[gin(default = None)]
    pub te_config_cls: Option<Ref<TransformerEngineConfig>>,
}

impl Train {
    /// Returns the number of steps for this process, if it is given relative to its start.
    pub fn relative(&self) -> Option<u64> {
        self.relative_steps.filter(|steps| *steps > 0)
    }
}

/// The phases that actions can follow: the keys of `train.actions`.
pub const ACTION_MODES: [&str; 3] = ["TRAIN", "TRAIN_EVAL", "INFER_EVAL"];

/// An action that looks at metrics after a phase and may stop the run.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum Action {
    /// Stops when a metric is not finite.
    TerminateOnNan(TerminateOnNan),
    /// Stops when a metric no longer improves.
    EarlyStopping(EarlyStopping),
}

/// Stops the run when a metric is not finite. Source: T5X `trainer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.trainer.TerminateOnNanAction")]
pub struct TerminateOnNan {
    /// Task of the metric; None for `train`.
    #[gin(default = None)]
    pub task: Option<String>,
    /// The metric.
    #[gin(default = "loss".to_string())]
    pub metric: String,
}

/// Stops the run when a metric has not improved for a while. Source: T5X `trainer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.trainer.EarlyStoppingAction")]
pub struct EarlyStopping {
    /// `(task, metric)`.
    pub metric: (String, String),
    /// The better direction.
    pub mode: EarlyStoppingMode,
    /// Evaluations without improvement before stopping.
    #[gin(default = 3)]
    pub patience: usize,
    /// Smallest absolute improvement.
    #[gin(default = 0.0)]
    pub atol: f64,
    /// Smallest relative improvement.
    #[gin(default = 0.0)]
    pub rtol: f64,
}

/// The better direction of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum EarlyStoppingMode {
    /// Smaller is better.
    Min,
    /// Larger is better.
    Max,
}
