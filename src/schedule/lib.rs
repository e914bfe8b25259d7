//! Learning-rate schedules: the grammar of T5X's `create_learning_rate_scheduler`.
//!
//! A schedule is a product of factors, `'constant * linear_warmup * rsqrt_decay'`, computed in
//! float32 in the order written, as JAX computes it. It is a pure function of the step, so resuming
//! needs no state. The step of an update is the number of updates made before it: the first is 0.
//!
//! ```
//! use gimlet_schedule::{CreateLearningRateScheduler, Factors};
//! let spec = CreateLearningRateScheduler {
//!     factors: Factors::known("constant * rsqrt_decay"),
//!     base_learning_rate: 1.0,
//!     warmup_steps: 10_000,
//!     ..CreateLearningRateScheduler::default()
//! };
//! assert_eq!(spec.build().unwrap().at(0), 0.01);
//! ```

mod cosine;
mod error;
mod factors;
mod get_scheduler;
mod of_total;
mod rate;

use gimlet_gin::Configurable;

use of_total::OfTotal as _;

pub use cosine::WarmupCosineDecaySchedule;
pub use error::ScheduleError;
pub use factors::{Factor, Factors, UnknownFactor};
pub use get_scheduler::{GetScheduler, SchedulerName};
pub use of_total::{
    LinearDecay, LinearDecayLearningRate, LinearWarmup, Noam, Product, ProductFactor,
    SlantedTriangular, TruncatedRsqrt,
};
pub use rate::LearningRateSchedule;

/// Any schedule that the Trainer accepts.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum Schedule {
    /// T5X's product of factors.
    CreateLearningRateScheduler(CreateLearningRateScheduler),
    /// Optax's rise and fall.
    WarmupCosineDecay(WarmupCosineDecaySchedule),
    /// transformers' schedules.
    GetScheduler(GetScheduler),
    /// Mesh TensorFlow's schedule of pretraining.
    Noam(Noam),
    /// Mesh TensorFlow's root of the step's inverse.
    TruncatedRsqrt(TruncatedRsqrt),
    /// Mesh TensorFlow's fall at the end of the run.
    LinearDecay(LinearDecay),
    /// Mesh TensorFlow's rise at its start.
    LinearWarmup(LinearWarmup),
    /// Mesh TensorFlow's fall over the whole run.
    LinearDecayLearningRate(LinearDecayLearningRate),
    /// Mesh TensorFlow's triangle.
    SlantedTriangular(SlantedTriangular),
    /// Mesh TensorFlow's product.
    Product(Product),
}

impl Schedule {
    /// Returns the function of the step that this spec describes.
    ///
    /// # Errors
    /// Parameters without a value at some step.
    pub fn build(&self) -> Result<LearningRateSchedule, ScheduleError> {
        self.check(None)?;
        Ok(LearningRateSchedule::new(self.clone()))
    }

    /// Checks the parameters; `total` is the length of the run that a product gives its factors.
    fn check(&self, total: Option<i64>) -> Result<(), ScheduleError> {
        match self {
            Schedule::CreateLearningRateScheduler(spec) => spec.check(),
            Schedule::WarmupCosineDecay(spec) => spec.check(),
            Schedule::GetScheduler(spec) => spec.check(),
            Schedule::Noam(spec) => spec.check(total),
            Schedule::TruncatedRsqrt(spec) => spec.check(total),
            Schedule::LinearDecay(spec) => spec.check(total),
            Schedule::LinearWarmup(spec) => spec.check(total),
            Schedule::LinearDecayLearningRate(spec) => spec.check(total),
            Schedule::SlantedTriangular(spec) => spec.check(total),
            Schedule::Product(spec) => spec.check(total),
        }
    }

    /// The learning rate of the update that follows `step` updates, of parameters that were checked.
    fn at(&self, step: i64, total: Option<i64>) -> f32 {
        match self {
            Schedule::CreateLearningRateScheduler(spec) => spec.at(step),
            Schedule::WarmupCosineDecay(spec) => spec.at(step),
            Schedule::GetScheduler(spec) => spec.at(step),
            Schedule::Noam(spec) => spec.at(step, total),
            Schedule::TruncatedRsqrt(spec) => spec.at(step, total),
            Schedule::LinearDecay(spec) => spec.at(step, total),
            Schedule::LinearWarmup(spec) => spec.at(step, total),
            Schedule::LinearDecayLearningRate(spec) => spec.at(step, total),
            Schedule::SlantedTriangular(spec) => spec.at(step, total),
            Schedule::Product(spec) => spec.at(step, total),
        }
    }
}

/// A learning rate that is a product of factors of the step. Source: T5X `utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.utils.create_learning_rate_scheduler")]
pub struct CreateLearningRateScheduler {
    /// Names joined by `*`: constant, linear_warmup, linear_decay, rsqrt_decay, rsqrt_normalized_decay,
    /// decay_every, cosine_decay.
    #[gin(default = Factors::known("constant * linear_warmup * rsqrt_decay"))]
    pub factors: Factors,
    /// The learning rate of `constant` and the peak of `linear_decay`.
    #[gin(default = 0.5)]
    pub base_learning_rate: f64,
    /// Steps during which `linear_warmup` rises and the decays hold still.
    #[gin(default = 1000)]
    pub warmup_steps: i64,
    /// Factor of `decay_every`; the slope per step of `linear_decay`.
    #[gin(default = 0.5)]
    pub decay_factor: f64,
    /// Number of steps between the decays of `decay_every`.
    #[gin(default = 20_000)]
    pub steps_per_decay: i64,
    /// Length of one cycle of `cosine_decay`, in steps.
    #[gin(default = 100_000)]
    pub steps_per_cycle: i64,
    /// The step that counts as 0; earlier ones count as 0 too.
    #[gin(default = 0)]
    pub step_offset: i64,
    /// The learning rate never falls below this.
    #[gin(default = 1e-8)]
    pub min_learning_rate: f64,
}

impl Default for CreateLearningRateScheduler {
    /// T5X's defaults.
    fn default() -> Self {
        Self {
            factors: Factors::known("constant * linear_warmup * rsqrt_decay"),
            base_learning_rate: 0.5,
            warmup_steps: 1000,
            decay_factor: 0.5,
            steps_per_decay: 20_000,
            steps_per_cycle: 100_000,
            step_offset: 0,
            min_learning_rate: 1e-8,
        }
    }
}

/// The scheduler's name in messages.
const SCHEDULER: &str = "create_learning_rate_scheduler";

impl CreateLearningRateScheduler {
    /// Checks the parameters.
    ///
    /// # Errors
    /// A negative `base_learning_rate` or `warmup_steps`, or a period of zero or less that a factor uses.
    pub fn build(&self) -> Result<LearningRateSchedule, ScheduleError> {
        Schedule::CreateLearningRateScheduler(self.clone()).build()
    }

    /// Refuses a negative `base_learning_rate` or `warmup_steps`, and a period of zero or less that a factor uses.
    fn check(&self) -> Result<(), ScheduleError> {
        let used = |factor| self.factors.0.contains(&factor);
        let schedule = SCHEDULER;
        for (param, found) in [
            ("base_learning_rate", self.base_learning_rate),
            ("warmup_steps", self.warmup_steps as f64),
        ] {
            if found < 0.0 {
                return Err(ScheduleError::Below { schedule, param, found, least: 0 });
            }
        }
        for (factor, param, steps) in [
            (Factor::DecayEvery, "steps_per_decay", self.steps_per_decay),
            (Factor::CosineDecay, "steps_per_cycle", self.steps_per_cycle),
        ] {
            if used(factor) && steps <= 0 {
                let found = steps as f64;
                return Err(ScheduleError::Below { schedule, param, found, least: 1 });
            }
        }
        Ok(())
    }
}

macro_rules! from_spec {
    ($($spec:ident)*) => {$(
        impl From<$spec> for Schedule {
            fn from(spec: $spec) -> Self {
                Self::$spec(spec)
            }
        }
    )*};
}

from_spec! { Noam TruncatedRsqrt LinearDecay LinearWarmup LinearDecayLearningRate SlantedTriangular Product }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_of_zero_is_refused_where_it_is_used() {
        let of = |factors: &str| CreateLearningRateScheduler {
            factors: Factors::known(factors),
            steps_per_cycle: 0,
            ..Default::default()
        };
        let zero = of("constant");
        assert!(zero.build().is_ok());
        let used = of("constant*cosine_decay");
        let message = used.build().unwrap_err().to_string();
        assert_eq!(
            message,
            "`create_learning_rate_scheduler.steps_per_cycle` is 0, expected 1 or more"
        );
    }
}
