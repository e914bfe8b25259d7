//! One update: gradients of a batch, in parts if asked, then the optimizer.

use tch::{Device, Tensor};

use crate::metrics::LossSums;
use crate::models::Batch;
use crate::models::loss::{LossSpec, normalize};
use crate::models::t5::T5;
use crate::nn::Dropout;
use crate::optim::Gradient;
use crate::schedule::LearningRateSchedule;

use super::error::TrainError;
use super::guard::{TorchFailure, guarded};
use super::seeds::{Purpose, derive};
use super::state::TrainState;

/// Computes updates. Holds nothing that an update changes.
#[derive(Debug)]
pub struct Stepper {
    /// The network.
    pub model: T5,
    /// What is minimized.
    pub loss: LossSpec,
    /// Learning rate by step.
    pub schedule: LearningRateSchedule,
    /// Parts a batch is cut into; at least 1.
    pub num_microbatches: usize,
    /// Seed of the run.
    pub seed: u64,
    /// Index of this process.
    pub rank: u64,
    /// Where the parameters lie.
    pub device: Device,
}

/// What one update reports.
#[derive(Debug)]
pub struct StepReport {
    /// Sums over the batch.
    pub sums: LossSums,
    /// The learning rate applied.
    pub learning_rate: f32,
}

impl Stepper {
    /// Makes one update in place.
    ///
    /// # Errors
    /// Out of memory, or another failure of libtorch; the state must not be used any more.
    pub fn train_step(
        &self,
        state: &mut TrainState,
        batch: &Batch,
    ) -> Result<StepReport, TrainError> {
        let (gradients, sums) = self.accumulate(state, batch)?;
        let learning_rate = self.schedule.at(i64::try_from(state.step).expect("steps fit"));
        let named = state.params.iter().zip(&gradients);
        let named: Vec<Gradient<'_>> =
            named.map(|((name, param), grad)| Gradient { name, param, grad }).collect();
        let (optimizer, step) = (&mut state.optimizer, state.step);
        let applied = self.guarded(step, || optimizer.apply(&named, learning_rate, step as i64))?;
        applied.map_err(|error| TrainError::Unfit(error.to_string()))?;
        state.step += 1;
        Ok(StepReport { sums, learning_rate })
    }

    /// The loss of a held-out batch, without dropout.
    ///
    /// # Errors
    /// Out of memory, or another failure of libtorch.
    pub fn eval_step(&self, state: &TrainState, batch: &Batch) -> Result<LossSums, TrainError> {
        self.guarded(state.step, || {
            tch::no_grad(|| {
                let batch = batch.to_device(self.device);
                self.model.loss(&state.params, &batch, &self.loss, Dropout::off()).sums.read()
            })
        })
    }

    /// Gradients of the batch's loss, in the order of the parameters, and its sums. Microbatches
    /// add up to the whole batch's loss, whatever it is normalized by.
    fn accumulate(
        &self,
        state: &TrainState,
        batch: &Batch,
    ) -> Result<(Vec<Tensor>, LossSums), TrainError> {
        let (parts, rows) = (self.num_microbatches as i64, batch.num_rows());
        let whole = (parts > 1).then(|| self.normalizer(batch)).flatten();
        let mut total: Option<(Vec<Tensor>, LossSums)> = None;
        for part in 0..parts {
            let micro = batch.rows(part * (rows / parts), rows / parts);
            let scale = whole.map_or(1.0, |whole| self.normalizer(&micro).unwrap_or(whole) / whole);
            let seed = derive(self.seed, Purpose::Dropout, &[state.step, self.rank, part as u64]);
            let found = self.guarded(state.step, || self.gradients(state, &micro, scale, seed))?;
            total = Some(match total {
                None => found,
                Some(sum) => add(sum, found),
            });
        }
        Ok(total.expect("there is at least one part"))
    }

    fn gradients(
        &self,
        state: &TrainState,
        batch: &Batch,
        scale: f64,
        dropout_seed: u64,
    ) -> (Vec<Tensor>, LossSums) {
        tch::manual_seed(dropout_seed as i64);
        let batch = batch.to_device(self.device);
        let dropout = self.model.dropout();
        let output = self.model.loss(&state.params, &batch, &self.loss, dropout);
        let loss = if scale == 1.0 { output.loss } else { output.loss * scale };
        let gradients = state.params.gradients(&loss);
        let mut sums = output.sums.read();
        sums.loss *= scale;
        sums.z_loss *= scale;
        (gradients, sums)
    }

    /// What the loss of `batch` is divided by, if anything.
    fn normalizer(&self, batch: &Batch) -> Option<f64> {
        let factor = normalize(self.loss.loss_normalizing_factor, batch).factor?;
        Some(factor.double_value(&[]))
    }

    /// Runs work of a step.
    ///
    /// # Errors
    /// Out of memory, or another failure of libtorch.
    pub fn guarded<R>(&self, step: u64, body: impl FnOnce() -> R) -> Result<R, TrainError> {
        guarded(body).map_err(|failure| match failure {
            TorchFailure::OutOfMemory(detail) => {
                TrainError::OutOfMemory { step, detail, suggested: self.num_microbatches * 2 }
            }
            TorchFailure::Other(detail) => TrainError::Torch { step, detail },
        })
    }
}

fn add(
    (mut gradients, mut sums): (Vec<Tensor>, LossSums),
    (more, more_sums): (Vec<Tensor>, LossSums),
) -> (Vec<Tensor>, LossSums) {
    tch::no_grad(|| {
        for (sum, gradient) in gradients.iter_mut().zip(&more) {
            let _ = sum.g_add_(gradient);
        }
    });
    sums += &more_sums;
    (gradients, sums)
}
