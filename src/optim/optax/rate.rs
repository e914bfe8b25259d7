//! Values that gin gives to several optimizers.

use crate::gin::{Evaluator, FromGin, Registry, Reported, Value, ValueKind};
use crate::optim::error::OptimError;
use crate::schedule::Schedule;

/// Optax's choice of parameters, which is not supported here.
#[derive(Clone, Debug, PartialEq)]
pub enum Mask {}

/// An optimizer's own learning rate, in the forms that optax accepts.
#[derive(Clone, Debug, PartialEq)]
pub enum LearningRate {
    /// The same for all updates.
    Constant(f64),
    /// A function of the number of updates made before.
    Schedule(Schedule),
    /// The Trainer's, a function of the run's steps, which T5X's wrapper does not pass on.
    Trainer,
}

/// The text that means the Trainer's.
const TRAINER: &str = "trainer";

impl LearningRate {
    /// Returns the learning rate of the update that follows `count` others; `trainers` is the Trainer's.
    ///
    /// # Errors
    /// A schedule that has no value.
    pub(in crate::optim) fn at(&self, count: i64, trainers: f32) -> Result<f64, OptimError> {
        match self {
            LearningRate::Constant(rate) => Ok(*rate),
            LearningRate::Trainer => Ok(f64::from(trainers)),
            LearningRate::Schedule(schedule) => {
                let schedule = schedule.build();
                let schedule = schedule.map_err(|error| OptimError::Schedule(error.to_string()))?;
                Ok(f64::from(schedule.at(count)))
            }
        }
    }
}

impl FromGin for LearningRate {
    fn expected() -> String {
        format!("a number, '{TRAINER}' or {}", Schedule::expected())
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Reference(_) => cx.read(value).map(Self::Schedule),
            ValueKind::Str(text) if text == TRAINER => Ok(Self::Trainer),
            ValueKind::Int(_) | ValueKind::Float(_) => cx.read(value).map(Self::Constant),
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }

    fn to_gin(&self) -> Option<ValueKind> {
        match self {
            Self::Constant(rate) => rate.to_gin(),
            Self::Schedule(schedule) => schedule.to_gin(),
            Self::Trainer => Some(ValueKind::Str(TRAINER.to_string())),
        }
    }

    fn register(registry: &mut Registry) {
        Schedule::register(registry);
    }
}

impl FromGin for Mask {
    fn expected() -> String {
        "no choice of parameters".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        Err(cx.mismatch(value, "None: weight decay reaches all parameters"))
    }
}
