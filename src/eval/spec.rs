//! The root of an evaluation: T5X's `evaluate` with all its parameters.

use crate::checkpoint::RestoreCheckpointConfig;
use crate::data::DatasetConfig;
use crate::evaluation::Evaluator;
use crate::gin::{Configurable, Ref};
use crate::models::Model;
use crate::partition::Partitioner;
use crate::session::spec::{SummarizeConfig, SummarizeGinConfig, TrainerClass};

/// Measures checkpoints on held-out examples, without training. Source: T5X `eval.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.eval.evaluate",
    ignored(
        train_state_initializer_cls = "parameters are read from checkpoints into the model's tree",
        use_orbax = "the format of a checkpoint is recognized"
    )
)]
pub struct Evaluate {
    /// The evaluated model: module and vocabularies. Its optimizer has no effect.
    pub model: Model,
    /// The examples.
    pub dataset_cfg: DatasetConfig,
    /// The checkpoints; only their parameters are read, never the optimizer's state.
    pub restore_checkpoint_cfg: RestoreCheckpointConfig,
    /// Partitioning of the model over devices.
    pub partitioner: Partitioner,
    /// Folder of the results and the configuration.
    pub output_dir: String,
    /// Scoring of decoded examples; None decodes nothing.
    #[gin(default = Some(Ref(Evaluator::default())))]
    pub inference_evaluator_cls: Option<Ref<Evaluator>>,
    /// Whether the training loss of the examples is measured too: `@trainer.Trainer`.
    #[gin(default = None, call(supplies = ["learning_rate_fn", "num_microbatches"]))]
    pub training_evaluator_cls: Option<Ref<TrainerClass>>,
    /// Method of writing the configuration.
    #[gin(default = Ref(SummarizeConfig::Gin(SummarizeGinConfig {})))]
    pub summarize_config_fn: Ref<SummarizeConfig>,
    /// Number of batches on which the training loss is measured.
    #[gin(default = Ref(TrainEvalDatasets::Training(GetTrainingEvalDatasets { eval_steps: None })))]
    pub train_eval_get_dataset_fn: Ref<TrainEvalDatasets>,
    /// Seed of parameters that a checkpoint does not have; `fallback_to_scratch` needs one.
    #[gin(default = None)]
    pub fallback_init_rng: Option<i64>,
}

/// The source of the batches on which the training loss is measured.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum TrainEvalDatasets {
    /// T5X's own.
    Training(GetTrainingEvalDatasets),
}

/// The batches on which the training loss is measured. Source: T5X `utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.utils.get_training_eval_datasets",
    ignored(
        cfg = "the run gives it",
        shard_id = "the run gives it",
        num_shards = "the run gives it",
        feature_converter_cls = "the run gives it from its model",
        deterministic = "datasets are always deterministic",
        model_dir = "only deterministic datasets of T5X need it",
        start_step = "only deterministic datasets of T5X need it"
    )
)]
pub struct GetTrainingEvalDatasets {
    /// Batches of each task; None for all of one pass. `train` supplies it, `evaluate` does not.
    #[gin(default = None)]
    pub eval_steps: Option<u64>,
}
