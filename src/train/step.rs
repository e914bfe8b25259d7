//! One update: gradients of a batch, in parts if asked, then the optimizer.

use std::collections::BTreeMap;

use tch::Tensor;

use crate::metrics::{LossSums, sum};
use crate::models::Batch;
use crate::models::loss::{LossOutput, normalize};
use crate::optim::{Watch, Watched};
use crate::partition::Mesh;
use crate::schedule::LearningRateSchedule;
use crate::session::error::SessionError;
use crate::session::forward::Forward;
use crate::session::guard::{TorchFailure, guarded};
use crate::session::seeds::{Purpose, derive};
use crate::session::spec::{TrainerClass, WeightMetricsComputer};
use crate::session::state::TrainState;

use super::spec::Train;

/// Computes updates. No update changes its fields.
#[derive(Debug)]
pub struct Stepper {
    /// The network and its loss.
    pub forward: Forward,
    /// Learning rate by step.
    pub schedule: LearningRateSchedule,
    /// Number of parts into which a batch is split; at least 1.
    pub num_microbatches: usize,
    /// The measures of gradients and weights.
    pub watched: Watched,
    /// Seed of the run.
    pub seed: u64,
    /// Index of this process.
    pub rank: u64,
}

/// The report of one update.
#[derive(Debug)]
pub struct StepReport {
    /// Sums over the batch.
    pub sums: LossSums,
    /// The learning rate applied.
    pub learning_rate: f32,
    /// Measures of gradients and weights, by T5X's tags.
    pub weights: BTreeMap<String, f64>,
}

impl Stepper {
    /// Creates the stepper of a run with this seed.
    ///
    /// # Errors
    /// A learning rate that is not possible.
    pub fn new(spec: &Train, seed: u64, mesh: &Mesh) -> Result<Self, SessionError> {
        let TrainerClass::Trainer(trainer) = &spec.trainer_cls.0;
        let schedule = trainer.learning_rate_fn.build();
        let schedule = schedule.map_err(|error| SessionError::Unfit(error.to_string()))?;
        let fp8 = spec.te_config_cls.as_ref().map(|class| &class.0);
        let forward = Forward::new(&spec.model, fp8, mesh);
        let (num_microbatches, rank) = (trainer.num_microbatches(), mesh.data().index as u64);
        let watched = match &trainer.weight_metrics_computer {
            Some(WeightMetricsComputer {}) => Watched::Weights,
            None => Watched::GradientNorm,
        };
        Ok(Self { forward, schedule, num_microbatches, watched, seed, rank })
    }

    /// Makes one update in place.
    ///
    /// # Errors
    /// Out of memory, or another failure of libtorch; the state must not be used any more.
    pub fn train_step(
        &self,
        state: &mut TrainState,
        batch: &Batch,
    ) -> Result<StepReport, SessionError> {
        let learning_rate = self.schedule.at(i64::try_from(state.step).expect("steps fit"));
        let (parts, rows) = (self.num_microbatches as i64, batch.num_rows());
        let whole = (parts > 1).then(|| self.normalizer(batch)).flatten();
        let (mut total, mut watch) = (None::<LossSums>, Watch::new(self.watched));
        for part in 0..parts {
            let micro = batch.rows(part * (rows / parts), rows / parts);
            let scale = whole.map_or(1.0, |whole| self.normalizer(&micro).unwrap_or(whole) / whole);
            let seed = derive(self.seed, Purpose::Dropout, &[state.step, self.rank, part as u64]);
            let output = self.guarded(state.step, || self.loss(state, &micro, scale, seed))?;
            // Gradients add up in the parameters; the last ones may be consumed as they are
            // computed.
            match part + 1 == parts {
                false => self.guarded(state.step, || output.loss.backward())?,
                true => self.update(state, learning_rate, &output.loss, &mut watch)?,
            }
            let mut sums = self.guarded(state.step, || output.sums.read())?;
            sums.scale(&[sum::LOSS, sum::Z_LOSS], scale);
            match &mut total {
                None => total = Some(sums),
                Some(total) => *total += &sums,
            }
        }
        let weights = self.guarded(state.step, || watch.read())?;
        state.step += 1;
        Ok(StepReport { sums: total.expect("there is at least one part"), learning_rate, weights })
    }

    /// Returns the loss of a part of a batch, scaled by its share of the whole: microbatches add up
    /// to the whole batch's loss under any normalization.
    fn loss(&self, state: &TrainState, batch: &Batch, scale: f64, dropout_seed: u64) -> LossOutput {
        tch::manual_seed(dropout_seed as i64);
        let Forward { network, loss, device } = &self.forward;
        let batch = batch.to_device(*device);
        let output = network.loss(&state.params, &batch, loss, network.dropout());
        let loss = if scale == 1.0 { output.loss } else { output.loss * scale };
        LossOutput { loss, sums: output.sums }
    }

    /// Updates the state with the gradients of `loss` and those already in the parameters.
    fn update(
        &self,
        state: &mut TrainState,
        learning_rate: f32,
        loss: &Tensor,
        watch: &mut Watch,
    ) -> Result<(), SessionError> {
        let (params, optimizer, step) = (&state.params, &mut state.optimizer, state.step);
        let backward = || loss.backward();
        let update = || optimizer.update(params, learning_rate, step as i64, watch, backward);
        let updated = self.guarded(step, update)?;
        updated.map_err(|error| SessionError::Unfit(error.to_string()))
    }

    /// Returns the divisor of the loss of `batch`, if any.
    fn normalizer(&self, batch: &Batch) -> Option<f64> {
        let factor = normalize(self.forward.loss.loss_normalizing_factor, batch).factor?;
        Some(factor.double_value(&[]))
    }

    /// Runs `body` as part of a step, and converts failures to errors.
    ///
    /// # Errors
    /// Out of memory, or another failure of libtorch.
    pub fn guarded<R>(&self, step: u64, body: impl FnOnce() -> R) -> Result<R, SessionError> {
        guarded(body).map_err(|failure| match failure {
            TorchFailure::OutOfMemory(detail) => {
                let parts = self.num_microbatches * 2;
                let remedy = format!(
                    "lower BATCH_SIZE, or keep it and set trainer.Trainer.num_microbatches = {parts}"
                );
                SessionError::OutOfMemory { step, detail, remedy }
            }
            TorchFailure::Other(detail) => SessionError::Torch { step, detail },
        })
    }
}
