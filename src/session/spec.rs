//! The configurables that several commands take: the trainer, and the way to write the configuration
//! down.

use crate::gin::{Configurable, Suppliable};
use crate::schedule::Schedule;

/// Any trainer.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum TrainerClass {
    /// T5X's own.
    Trainer(Trainer),
}

/// One update: learning rate and gradient accumulation. Source: T5X `trainer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.trainer.Trainer",
    ignored(
        model = "the run gives it",
        train_state = "the run gives it",
        partitioner = "the run gives it",
        eval_names = "the run gives it",
        summary_dir = "the run gives it",
        train_state_axes = "the run gives it",
        rng = "`train.random_seed` is its seed"
    )
)]
pub struct Trainer {
    /// Number of parts into which a batch is split, gradients summed; None, 0 and 1 mean the whole
    /// batch.
    pub num_microbatches: Option<usize>,
    /// Learning rate by step.
    pub learning_rate_fn: Suppliable<Schedule>,
    /// Measures each parameter at every step; with None only `weight_gradient_norm`, that of all
    /// gradients, is logged.
    #[gin(default = None)]
    pub weight_metrics_computer: Option<WeightMetricsComputer>,
}

/// Logs for each parameter its `weight_rms`, `weight_max`, `weight_gradient_rms`,
/// `weight_update_rms` and `weight_update_divided_by_weight_rms`, and for each layer its
/// `weight_gradient_norm`. Takes a copy of one parameter at a time. Source: T5X `trainer.py`, which
/// does not log norms of layers.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.trainer.WeightMetricsComputer")]
pub struct WeightMetricsComputer {}

impl Trainer {
    /// Returns the number of parts into which a batch is split, at least 1.
    pub fn num_microbatches(&self) -> usize {
        self.num_microbatches.unwrap_or(1).max(1)
    }
}

/// Writes the configuration down.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum SummarizeConfig {
    /// T5X's own.
    Gin(SummarizeGinConfig),
}

/// Writes `MODEL_DIR/config.gin` and TensorBoard's `config` text. Source: T5X `gin_utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.gin_utils.summarize_gin_config",
    ignored(
        model_dir = "the run gives it",
        summary_writer = "the run gives it",
        step = "the run gives it"
    )
)]
pub struct SummarizeGinConfig {}
