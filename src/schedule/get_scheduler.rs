//! transformers' schedules by their names, in float64 and rounded to float32 once, as torch multiplies a rate by a factor of the
//! step. Source: transformers `optimization.py`.

use std::f64::consts::PI;

use gimlet_gin::Configurable;

use super::error::ScheduleError;

/// A learning rate that rises linearly from 0, but for 'constant', and then follows the schedule of that name. Source:
/// transformers `optimization.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.schedules.get_scheduler")]
pub struct GetScheduler {
    /// 'constant', 'constant_with_warmup', or one that falls until the end of the run: 'linear', 'cosine' as half a wave,
    /// 'cosine_with_restarts' as one wave that ends at 0, or 'polynomial', a line to 1e-7.
    pub name: SchedulerName,
    /// The rate at the end of the rise.
    pub lr: f64,
    /// Length of the rise in steps, for all but 'constant'.
    #[gin(default = None)]
    pub num_warmup_steps: Option<i64>,
    /// The step at which the fall ends, for those that fall.
    #[gin(default = None)]
    pub num_training_steps: Option<i64>,
    /// The step that counts as 0; earlier ones count as 0 too.
    #[gin(default = 0)]
    pub offset: i64,
}

/// The name of a schedule of transformers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum SchedulerName {
    /// Always the same.
    Constant,
    /// The same after the rise.
    ConstantWithWarmup,
    /// A line to 0.
    Linear,
    /// Half a cosine wave to 0.
    Cosine,
    /// The same, and 0 after it.
    CosineWithRestarts,
    /// A line to 1e-7.
    Polynomial,
}

/// The last learning rate of 'polynomial'.
const POLYNOMIAL_END: f64 = 1e-7;

impl GetScheduler {
    /// Refuses missing and negative numbers of steps, and a rate below the end of its fall.
    pub(super) fn check(&self) -> Result<(), ScheduleError> {
        use SchedulerName::{Constant, ConstantWithWarmup, Polynomial};
        let unfit = |param, found, expected| {
            Err(ScheduleError::Unfit { schedule: "get_scheduler", param, found, expected })
        };
        let falls = !matches!(self.name, Constant | ConstantWithWarmup);
        for (param, steps, is_used) in [
            ("num_warmup_steps", self.num_warmup_steps, self.name != Constant),
            ("num_training_steps", self.num_training_steps, falls),
        ] {
            if is_used && steps.is_none_or(|steps| steps < 0) {
                let found = steps.map_or("None".to_string(), |steps| steps.to_string());
                return unfit(param, found, "0 or more, which this `name` needs");
            }
        }
        if self.name == Polynomial && self.lr <= POLYNOMIAL_END {
            return unfit("lr", self.lr.to_string(), "more than 1e-7, where 'polynomial' ends");
        }
        Ok(())
    }

    /// Returns the learning rate of the update that follows `step` updates.
    pub(super) fn at(&self, step: i64) -> f32 {
        (self.lr * self.factor((step - self.offset).max(0) as f64)) as f32
    }

    fn factor(&self, step: f64) -> f64 {
        let steps = |param: Option<i64>| param.unwrap_or(0) as f64;
        let (warmup, end) = (steps(self.num_warmup_steps), steps(self.num_training_steps));
        if step < warmup && self.name != SchedulerName::Constant {
            return step / warmup.max(1.0);
        }
        let length = (end - warmup).max(1.0);
        let progress = (step - warmup) / length;
        let wave = 0.5 * (1.0 + (PI * progress).cos());
        match self.name {
            SchedulerName::Constant | SchedulerName::ConstantWithWarmup => 1.0,
            SchedulerName::Linear => ((end - step) / length).max(0.0),
            SchedulerName::Cosine => wave.max(0.0),
            SchedulerName::CosineWithRestarts if progress >= 1.0 => 0.0,
            SchedulerName::CosineWithRestarts => wave.max(0.0),
            SchedulerName::Polynomial if step > end => POLYNOMIAL_END / self.lr,
            SchedulerName::Polynomial => {
                ((self.lr - POLYNOMIAL_END) * (1.0 - progress) + POLYNOMIAL_END) / self.lr
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Schedule;
    use super::*;

    fn scheduler(name: SchedulerName) -> GetScheduler {
        let (num_warmup_steps, num_training_steps) = (Some(5), Some(40));
        GetScheduler { name, lr: 0.01, num_warmup_steps, num_training_steps, offset: 0 }
    }

    /// `expected` are values of transformers, printed by `tests/numerics/get_scheduler.py`; relative 1e-7.
    fn check(name: SchedulerName, expected: [f64; 9]) {
        let delayed = GetScheduler { offset: 100, ..scheduler(name) };
        let [plain, delayed] =
            [scheduler(name), delayed].map(|spec| Schedule::GetScheduler(spec).build());
        let (plain, delayed) = (plain.unwrap(), delayed.unwrap());
        for (step, expected) in [0, 1, 4, 5, 6, 20, 39, 40, 50].into_iter().zip(expected) {
            let found = plain.at(step);
            assert!(
                (f64::from(found) - expected).abs() <= 1e-7 * expected,
                "{name:?} {step}: {found}"
            );
            assert_eq!(delayed.at(step + 100), found);
        }
    }

    #[test]
    fn schedules_equal_those_of_transformers() {
        check(SchedulerName::Constant, [0.01; 9]);
        let [a, b, c, d] = [0.0, 0.002, 0.008, 0.01];
        check(SchedulerName::ConstantWithWarmup, [a, b, c, d, d, d, d, d, d]);
        let line = [0.009714285714285715, 0.005714285714285714, 0.00028571428571428574, 0.0, 0.0];
        let wave = [0.009979871469976196, 0.006112604669781572, 2.012853002380466e-05, 0.0];
        let fall =
            [0.009714288571428571, 0.0057143285714285705, 0.0002858114285714287, 1e-07, 1e-07];
        let risen = |[e, f, g, h, i]: [f64; 5]| [a, b, c, d, e, f, g, h, i];
        check(SchedulerName::Linear, risen(line));
        let [e, f, g, h] = wave;
        check(SchedulerName::Cosine, risen([e, f, g, h, 0.0018825509907063316]));
        check(SchedulerName::CosineWithRestarts, risen([e, f, g, h, 0.0]));
        check(SchedulerName::Polynomial, risen(fall));
    }

    #[test]
    fn parameters_that_a_schedule_needs_are_asked_for() {
        let refused = |spec: GetScheduler| spec.check().map_err(|error| error.to_string());
        let constant = GetScheduler {
            num_warmup_steps: None,
            num_training_steps: None,
            ..scheduler(SchedulerName::Constant)
        };
        assert_eq!(refused(constant), Ok(()));
        let linear = GetScheduler { num_training_steps: None, ..scheduler(SchedulerName::Linear) };
        let expected = "`get_scheduler.num_training_steps` is None, expected 0 or more, which this `name` needs";
        assert_eq!(refused(linear), Err(expected.to_string()));
        let polynomial = GetScheduler { lr: 1e-8, ..scheduler(SchedulerName::Polynomial) };
        assert!(refused(polynomial).is_err());
    }
}
