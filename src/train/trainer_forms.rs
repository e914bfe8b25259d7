//! The facts of a run that a Trainer's file holds beside the arrays: those of the model for transformers, the optimizer's
//! settings under torch's names, and the learning rates.

use std::collections::BTreeMap;

use crate::checkpoint::{GradScaler, HuggingFaceOptions, PickleValue, Rates, TrainerForm};
use crate::gin::Slot as _;
use crate::models::HUGGING_FACE;
use crate::models::transformer::LayerArrays;
use crate::optim::LearningRate;
use crate::schedule::{LearningRateSchedule, Schedule};
use crate::session::error::SessionError;
use crate::session::loss_scaler::LossScaler;
use crate::session::state::TrainState;
use crate::telemetry;

use super::spec::Train;

/// The facts of a run, of which the learning rate depends on the step.
#[derive(Debug)]
pub struct TrainerForms {
    model: HuggingFaceOptions,
    optimizer: Option<Vec<(&'static str, PickleValue)>>,
    scheduled: Option<Scheduled>,
    loss_scaler: Option<LossScaler>,
}

/// The number of steps whose rates are looked at.
const MAX_RATES: u64 = 1 << 20;

/// A learning rate that changes.
#[derive(Debug)]
struct Scheduled {
    schedule: LearningRateSchedule,
    /// The highest rate of the run, of which torch's schedules take fractions.
    base: f64,
    /// Whether it depends on the optimizer's own number of updates instead of the step.
    is_own: bool,
}

impl TrainerForms {
    /// Collects the facts.
    ///
    /// # Errors
    /// A schedule has no value.
    pub fn of(spec: &Train) -> Result<Self, SessionError> {
        let model = facts(spec);
        let def = spec.model.optimizer_def();
        let trainer = spec.trainer_cls.0.trainer();
        let loss_scaler = trainer.loss_scaler(spec.model.dtype());
        let is_by_layer = spec.model.transformer().layer_arrays == LayerArrays::Joined;
        let Some(torch) = def.of_torch().filter(|_| is_by_layer) else {
            let reason = match is_by_layer {
                true => format!("torch has no {}", def.schema_of().name),
                false => "the model keeps its layers in other arrays than torch".to_string(),
            };
            telemetry::notice_once(&format!(
                "checkpoints have no optimizer_state_dict, since {reason}: the programs of t5-experiments continue with a \
                 new optimizer, and Gimlet with this one"
            ));
            return Ok(Self { model, optimizer: None, scheduled: None, loss_scaler });
        };
        let trainers = &trainer.learning_rate_fn;
        let (constant, scheduled) = match &torch.rate {
            None => (PickleValue::None, None),
            Some(LearningRate::Constant(rate)) => (PickleValue::Float(*rate), None),
            Some(LearningRate::Schedule(schedule)) => Scheduled::of(spec, schedule, true)?,
            Some(LearningRate::Trainer) => Scheduled::of(spec, trainers, false)?,
        };
        let settings = std::iter::once(("lr", constant)).chain(torch.settings).collect();
        Ok(Self { model, optimizer: Some(settings), scheduled, loss_scaler })
    }

    /// Returns the facts of a state with these metrics, with learning rates multiplied by a rule for plateaus.
    pub fn at(
        &self,
        state: &TrainState,
        scale: f64,
        metrics: BTreeMap<String, BTreeMap<String, f64>>,
    ) -> TrainerForm {
        let (update, (own_updates, _)) = (state.next_update(), state.optimizer.counts());
        let rates = self.scheduled.as_ref().map(|Scheduled { schedule, base, is_own }| {
            let next = schedule.at(if *is_own { own_updates } else { update });
            Rates { base: *base, next: as_written(next) * scale, updates: update }
        });
        let grad_scaler = self.loss_scaler.as_ref().map(|scaler| GradScaler {
            scale: scaler.scale(&state.loss_scaling),
            growth_interval: scaler.growth_interval,
            updates: state.loss_scaling.updates,
        });
        let mut optimizer = self.optimizer.clone();
        for (name, value) in optimizer.iter_mut().flatten() {
            if let ("lr", PickleValue::Float(rate)) = (*name, value) {
                *rate *= scale;
            }
        }
        let model = self.model.clone();
        TrainerForm { model, families: HUGGING_FACE, optimizer, rates, grad_scaler, metrics }
    }
}

/// Returns what the names of a model's tensors depend on: its activations.
fn facts(spec: &Train) -> HuggingFaceOptions {
    let stack = spec.model.transformer().last;
    let names = stack.dims.mlp_activations.iter().map(|it| it.as_str().to_string()).collect();
    HuggingFaceOptions { mlp_activations: Some(names), ..HuggingFaceOptions::default() }
}

impl Scheduled {
    /// Returns the rate of a schedule that never changes, or else the schedule.
    fn of(
        spec: &Train,
        schedule: &Schedule,
        is_own: bool,
    ) -> Result<(PickleValue, Option<Self>), SessionError> {
        let schedule = schedule.build().map_err(|error| SessionError::Unfit(error.to_string()))?;
        // Of a run without an end, some steps show the rates.
        let stride = usize::try_from(1 + spec.total_steps / MAX_RATES).expect("steps fit");
        let total = i64::try_from(spec.total_steps).expect("steps fit");
        let first = schedule.at(0);
        let rates = (0..=total).step_by(stride).map(|step| schedule.at(step));
        let (lowest, highest) =
            rates.fold((first, first), |(low, high), rate| (low.min(rate), high.max(rate)));
        let base = as_written(highest.max(0.0));
        let changes = lowest != highest;
        Ok((PickleValue::Float(base), changes.then_some(Self { schedule, base, is_own })))
    }
}

/// The number that a person would have written for a float32: 0.01 instead of 0.009999999776.
fn as_written(rate: f32) -> f64 {
    rate.to_string().parse().expect("a number is printed as one")
}
