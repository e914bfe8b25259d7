//! The configurables that several commands take: the trainer, and the way to write the configuration
//! down.

use fancy_regex::Regex;

use crate::gin::{Configurable, Suppliable};
use crate::nn::Dtype;
use crate::schedule::Schedule;

use super::loss_scaler::LossScaler;

/// Any trainer.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum TrainerClass {
    /// T5X's own.
    Trainer(Trainer),
    /// The one for models with experts.
    Moe(MoeTrainer),
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
    /// The loss to which those of microbatches add up: 'whole_batch' or, as in T5X, 'sum_of_means'. It makes a
    /// difference if the loss of a batch is divided by a number of that batch.
    #[gin(default = MicrobatchLoss::WholeBatch)]
    pub microbatch_loss: MicrobatchLoss,
    /// Learning rate by step.
    pub learning_rate_fn: Suppliable<Schedule>,
    /// Measures each parameter at every step; with None only `weight_gradient_norm`, that of all
    /// gradients, is logged.
    #[gin(default = None)]
    pub weight_metrics_computer: Option<WeightMetricsComputer>,
    /// The scale of the loss for backward passes; None means `@gimlet.LossScaler()` with its defaults for a network in float16, and
    /// no scale for others.
    #[gin(default = None)]
    pub loss_scaler: Option<LossScaler>,
}

/// The loss to which the losses of microbatches add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum MicrobatchLoss {
    /// The loss of the whole batch, however many microbatches the memory requires.
    WholeBatch,
    /// The sum of each microbatch's own loss. Source: T5X `trainer.py`, `accumulate_grads_microbatched`.
    SumOfMeans,
}

/// Logs for each parameter its `weight_rms`, `weight_max`, `weight_gradient_rms`,
/// `weight_update_rms` and `weight_update_divided_by_weight_rms`, and for each layer its
/// `weight_gradient_norm`. Takes a copy of one parameter at a time. Source: T5X `trainer.py`, which
/// does not log norms of layers.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.trainer.WeightMetricsComputer")]
pub struct WeightMetricsComputer {}

/// One update of a model with experts: as `trainer.Trainer`, and the gradients of experts are multiplied by
/// `num_expert_partitions`, which has no effect on Adafactor. T5X does this against a mean over devices, whatever their
/// number. Source: T5X `contrib/moe/trainer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.contrib.moe.trainer.MoeTrainer")]
pub struct MoeTrainer {
    /// Parameters of `trainer.Trainer`.
    #[gin(flatten)]
    pub trainer: Trainer,
    /// The factor of gradients of experts.
    pub num_expert_partitions: usize,
    /// The parameters with that factor: those of experts by default; None for none.
    #[gin(default = Some(MatchFn { prefix: Some(".*expert.*".to_string()) }))]
    pub sharded_match_fn: Option<MatchFn>,
}

/// Parameters whose path begins with a pattern. Source: T5X `contrib/moe/training_utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.contrib.moe.training_utils.match_fn")]
pub struct MatchFn {
    /// The pattern, as Python's `re` has it, for `encoder/layers_1/mlp/expert/wo/kernel`; None or '' for none.
    pub prefix: Option<String>,
}

impl TrainerClass {
    /// The parameters that every trainer has.
    pub fn trainer(&self) -> Trainer {
        match self {
            Self::Trainer(trainer) => trainer.clone(),
            Self::Moe(moe) => moe.trainer.clone(),
        }
    }

    /// The pattern of parameters whose gradients are multiplied, and the factor.
    ///
    /// # Errors
    /// The pattern is not valid.
    pub fn gradient_factor(&self) -> Result<Option<(Regex, f64)>, String> {
        let Self::Moe(MoeTrainer { sharded_match_fn, num_expert_partitions, .. }) = self else {
            return Ok(None);
        };
        let pattern = sharded_match_fn.as_ref().and_then(|of| of.prefix.as_ref());
        let Some(pattern) = pattern.filter(|pattern| !pattern.is_empty()) else { return Ok(None) };
        let compiled = Regex::new(&format!(r"\A(?:{pattern})")).map_err(|error| {
            format!("training_utils.match_fn.prefix, '{pattern}', is not a pattern: {error}")
        })?;
        Ok(Some((compiled, *num_expert_partitions as f64)))
    }
}

impl Trainer {
    /// Returns the number of parts into which a batch is split, at least 1.
    pub fn num_microbatches(&self) -> usize {
        self.num_microbatches.unwrap_or(1).max(1)
    }

    /// Returns the scale of the loss of a network with such activations, if there is one.
    pub fn loss_scaler(&self, dtype: Dtype) -> Option<LossScaler> {
        let default = || (dtype == Dtype::Float16).then(LossScaler::default);
        self.loss_scaler.clone().or_else(default)
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
