//! Optax's schedule: a linear rise, then half a cosine down.

use gimlet_gin::Configurable;

use super::{LearningRateSchedule, Schedule, ScheduleError};

/// A learning rate that rises linearly and falls as a cosine. Source: optax `schedules/_schedule.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "optax.warmup_cosine_decay_schedule")]
pub struct WarmupCosineDecaySchedule {
    /// The learning rate of the first update.
    pub init_value: f64,
    /// The learning rate at the end of the rise.
    pub peak_value: f64,
    /// Length of the rise in steps.
    pub warmup_steps: i64,
    /// Length of rise and fall together in steps.
    pub decay_steps: i64,
    /// The learning rate from then on.
    #[gin(default = 0.0)]
    pub end_value: f64,
    /// Exponent of the cosine.
    #[gin(default = 1.0)]
    pub exponent: f64,
}

impl WarmupCosineDecaySchedule {
    /// Checks the parameters.
    ///
    /// # Errors
    /// A rise of negative length, or no steps left for the fall.
    pub fn build(&self) -> Result<LearningRateSchedule, ScheduleError> {
        Schedule::WarmupCosineDecay(self.clone()).build()
    }

    /// Refuses a rise of negative length, and no steps left for the fall.
    pub(super) fn check(&self) -> Result<(), ScheduleError> {
        let refused = |param, found: i64, least| {
            let schedule = "warmup_cosine_decay_schedule";
            Err(ScheduleError::Below { schedule, param, found: found as f64, least })
        };
        if self.warmup_steps < 0 {
            return refused("warmup_steps", self.warmup_steps, 0);
        }
        if self.decay_steps <= self.warmup_steps {
            return refused("decay_steps", self.decay_steps, self.warmup_steps.saturating_add(1));
        }
        Ok(())
    }

    /// Returns the learning rate of the update that follows `step` updates, in float32 as JAX
    /// computes it.
    pub(super) fn at(&self, step: i64) -> f32 {
        let peak = self.peak_value as f32;
        if step < self.warmup_steps {
            let left = 1.0 - step as f32 / self.warmup_steps as f32;
            return (self.init_value - self.peak_value) as f32 * left + peak;
        }
        let length = self.decay_steps - self.warmup_steps;
        let progress = (step - self.warmup_steps).min(length) as f32 / length as f32;
        let cosine = 0.5 * (1.0 + (std::f32::consts::PI * progress).cos());
        let floor = if self.peak_value == 0.0 { 0.0 } else { self.end_value / self.peak_value };
        peak * ((1.0 - floor) as f32 * cosine.powf(self.exponent as f32) + floor as f32)
    }
}
