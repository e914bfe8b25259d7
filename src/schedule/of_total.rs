//! Schedules that depend on the length of the run, and products of schedules: those of Mesh TensorFlow, in float32 in the
//! order of its operations, without a floor. Source: Mesh TensorFlow `transformer/learning_rate_schedules.py`.
//!
//! `total_steps` may be missing in a factor of [`Product`], which gives its own, less its offset.

use gimlet_gin::{Configurable, Evaluator, FromGin, Nested, Registry, Reported, Value, ValueKind};

use super::rate::Running;
use super::{Schedule, ScheduleError};

/// The root of the step's inverse after a start at the same height, and a linear fall at the end.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.schedules.noam")]
pub struct Noam {
    /// Steps at the start during which the value does not change.
    #[gin(default = 10_000)]
    pub warmup_steps: i64,
    /// The part of the run at its end during which the value falls linearly to 0; 0 for no such fall.
    #[gin(default = 0.1)]
    pub linear_decay_fraction: f64,
    /// A factor of all values.
    #[gin(default = 1.0)]
    pub multiplier: f64,
    /// The step that counts as 0.
    #[gin(default = 0)]
    pub offset: i64,
    /// The step at which the run ends.
    #[gin(default = None)]
    pub total_steps: Option<i64>,
}

/// The root of the step's inverse after a start at the same height.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.schedules.truncated_rsqrt")]
pub struct TruncatedRsqrt {
    /// Steps at the start during which the value does not change.
    #[gin(default = 10_000)]
    pub warmup_steps: i64,
}

/// A factor of 1 that falls linearly to 0 at the end of the run.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.schedules.linear_decay")]
pub struct LinearDecay {
    /// Length of the fall: steps if more than 1, otherwise a part of the run.
    #[gin(default = 0.1)]
    pub steps_or_fraction: f64,
    /// The step at which the run ends.
    #[gin(default = None)]
    pub total_steps: Option<i64>,
}

/// A factor that rises linearly from 0 to 1.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.schedules.linear_warmup")]
pub struct LinearWarmup {
    /// Length of the rise: steps if more than 1, otherwise a part of the run.
    #[gin(default = 10_000.0)]
    pub steps_or_fraction: f64,
    /// The step at which the run ends.
    #[gin(default = None)]
    pub total_steps: Option<i64>,
}

/// A linear fall over the whole run.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.schedules.linear_decay_learning_rate")]
pub struct LinearDecayLearningRate {
    /// The learning rate before the fall.
    #[gin(default = 0.1)]
    pub initial_lr: f64,
    /// The step at which the fall begins.
    #[gin(default = 0)]
    pub offset: i64,
    /// The step at which the run ends.
    #[gin(default = None)]
    pub total_steps: Option<i64>,
}

/// A short linear rise and a long linear fall (Howard & Ruder 2018, arXiv:1801.06146).
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.schedules.slanted_triangular")]
pub struct SlantedTriangular {
    /// The part of the run during which the value rises.
    #[gin(default = 0.1)]
    pub cut_fraction: f64,
    /// The highest learning rate over the lowest.
    #[gin(default = 32.0)]
    pub ratio: f64,
    /// The highest learning rate.
    #[gin(default = 0.01)]
    pub max_learning_rate: f64,
    /// The step that counts as 0.
    #[gin(default = 0)]
    pub start_step: i64,
    /// The step at which the run ends.
    #[gin(default = None)]
    pub total_steps: Option<i64>,
}

/// A product of numbers and schedules.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.schedules.product")]
pub struct Product {
    /// Numbers and schedules.
    pub factors: Vec<ProductFactor>,
    /// The step that counts as 0 for all factors.
    #[gin(default = 0)]
    pub offset: i64,
    /// The step at which the run ends.
    #[gin(default = None)]
    pub total_steps: Option<i64>,
}

/// A factor of a product.
#[derive(Clone, Debug, PartialEq)]
pub enum ProductFactor {
    /// The same at each step.
    Number(f64),
    /// A function of the step.
    Schedule(Nested<Schedule>),
}

impl FromGin for ProductFactor {
    fn expected() -> String {
        "a number or a schedule, such as @gimlet.schedules.linear_decay()".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Reference(_) => cx.read(value).map(Self::Schedule),
            ValueKind::Int(_) | ValueKind::Float(_) => cx.read(value).map(Self::Number),
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }

    fn register(registry: &mut Registry) {
        Schedule::register(registry);
    }
}

/// A schedule that may depend on the length of the run.
pub(super) trait OfTotal {
    /// Checks the parameters; `total` is the length of the run that a product gives.
    fn check(&self, total: Option<i64>) -> Result<(), ScheduleError>;

    /// Returns the value after `step` updates, of parameters that were checked with the same `total`.
    fn at(&self, step: i64, total: Option<i64>) -> f32;
}

/// Returns the length of the run, which must be more than `from`.
fn needs_total(
    schedule: &'static str,
    own: Option<i64>,
    given: Option<i64>,
    from: i64,
) -> Result<(), ScheduleError> {
    match own.or(given) {
        None => Err(ScheduleError::NeedsTotal { schedule }),
        Some(total) if total <= from => {
            let (param, found, least) = ("total_steps", total as f64, from + 1);
            Err(ScheduleError::Below { schedule, param, found, least })
        }
        Some(_) => Ok(()),
    }
}

fn needs_positive(
    schedule: &'static str,
    param: &'static str,
    found: f64,
) -> Result<(), ScheduleError> {
    match found > 0.0 {
        true => Ok(()),
        false => Err(ScheduleError::NotPositive { schedule, param, found }),
    }
}

/// The length of the run, after the check.
fn total(own: Option<i64>, given: Option<i64>) -> f64 {
    own.or(given).expect("the check asks for it") as f64
}

/// Returns a number of steps, or of a part of the run.
fn steps(steps_or_fraction: f64, total: impl FnOnce() -> f64) -> f32 {
    let is_fraction = steps_or_fraction <= 1.0;
    (if is_fraction { steps_or_fraction * total() } else { steps_or_fraction }) as f32
}

impl OfTotal for Noam {
    fn check(&self, given: Option<i64>) -> Result<(), ScheduleError> {
        needs_positive("noam", "warmup_steps", self.warmup_steps as f64)?;
        match self.linear_decay_fraction > 0.0 {
            true => needs_total("noam", self.total_steps, given, self.offset),
            false => Ok(()),
        }
    }

    fn at(&self, step: i64, given: Option<i64>) -> f32 {
        let step = step as f32 - self.offset as f32;
        let rate = step.max(self.warmup_steps as f32).sqrt().recip() * self.multiplier as f32;
        if self.linear_decay_fraction <= 0.0 {
            return rate;
        }
        let total = total(self.total_steps, given) - self.offset as f64;
        rate * ((total as f32 - step) / (total * self.linear_decay_fraction) as f32).min(1.0)
    }
}

impl OfTotal for TruncatedRsqrt {
    fn check(&self, _: Option<i64>) -> Result<(), ScheduleError> {
        needs_positive("truncated_rsqrt", "warmup_steps", self.warmup_steps as f64)
    }

    fn at(&self, step: i64, _: Option<i64>) -> f32 {
        (step as f32).max(self.warmup_steps as f32).sqrt().recip()
    }
}

impl OfTotal for LinearDecay {
    fn check(&self, given: Option<i64>) -> Result<(), ScheduleError> {
        needs_positive("linear_decay", "steps_or_fraction", self.steps_or_fraction)?;
        needs_total("linear_decay", self.total_steps, given, 0)
    }

    fn at(&self, step: i64, given: Option<i64>) -> f32 {
        let total = total(self.total_steps, given);
        ((total as f32 - step as f32) / steps(self.steps_or_fraction, || total)).min(1.0)
    }
}

impl OfTotal for LinearWarmup {
    fn check(&self, given: Option<i64>) -> Result<(), ScheduleError> {
        needs_positive("linear_warmup", "steps_or_fraction", self.steps_or_fraction)?;
        match self.steps_or_fraction > 1.0 {
            true => Ok(()),
            false => needs_total("linear_warmup", self.total_steps, given, 0),
        }
    }

    fn at(&self, step: i64, given: Option<i64>) -> f32 {
        let steps = steps(self.steps_or_fraction, || total(self.total_steps, given));
        (step as f32 / steps).min(1.0)
    }
}

impl OfTotal for LinearDecayLearningRate {
    fn check(&self, given: Option<i64>) -> Result<(), ScheduleError> {
        needs_total("linear_decay_learning_rate", self.total_steps, given, self.offset)
    }

    fn at(&self, step: i64, given: Option<i64>) -> f32 {
        let total = total(self.total_steps, given) as f32;
        let left = (total - step as f32) / (total - self.offset as f32);
        self.initial_lr as f32 * left.min(1.0)
    }
}

impl SlantedTriangular {
    /// Length of the rise.
    fn cut(&self, given: Option<i64>) -> f64 {
        (total(self.total_steps, given) * self.cut_fraction).floor()
    }
}

impl OfTotal for SlantedTriangular {
    fn check(&self, given: Option<i64>) -> Result<(), ScheduleError> {
        let schedule = "slanted_triangular";
        needs_positive(schedule, "cut_fraction", self.cut_fraction)?;
        needs_positive(schedule, "ratio", self.ratio)?;
        needs_total(schedule, self.total_steps, given, 0)?;
        // A rise of no steps would divide by 0.
        match self.cut(given) >= 1.0 {
            true => Ok(()),
            false => {
                let least = (1.0 / self.cut_fraction).ceil() as i64;
                let found = total(self.total_steps, given);
                Err(ScheduleError::Below { schedule, param: "total_steps", found, least })
            }
        }
    }

    fn at(&self, step: i64, given: Option<i64>) -> f32 {
        let (step, cut) = (step as f32 - self.start_step as f32, self.cut(given));
        let height = match step < cut as f32 {
            true => step / cut as f32,
            false => 1.0 - (step - cut as f32) / (cut * (1.0 / self.cut_fraction - 1.0)) as f32,
        };
        let ratio = self.ratio as f32;
        self.max_learning_rate as f32 * (1.0 + height * (ratio - 1.0)) / ratio
    }
}

impl Product {
    /// The length of the run as the factors count it.
    fn total_of_factors(&self, given: Option<i64>) -> Option<i64> {
        self.total_steps.or(given).map(|total| total - self.offset)
    }
}

impl OfTotal for Product {
    fn check(&self, given: Option<i64>) -> Result<(), ScheduleError> {
        let total = self.total_of_factors(given);
        self.factors.iter().try_for_each(|factor| match factor {
            ProductFactor::Number(_) => Ok(()),
            ProductFactor::Schedule(schedule) => schedule.check(total),
        })
    }

    fn at(&self, step: i64, given: Option<i64>) -> f32 {
        let (step, total) = (step - self.offset, self.total_of_factors(given));
        let product =
            self.factors.iter().fold(Running::Constant(1.0), |product, factor| match factor {
                ProductFactor::Number(number) => product.times_constant(*number),
                ProductFactor::Schedule(schedule) => product.times(schedule.at(step, total)),
            });
        product.float32()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: [i64; 6] = [0, 1, 50, 899, 950, 1000];
    const TOTAL: Option<i64> = Some(1000);

    fn product(factors: Vec<ProductFactor>, offset: i64) -> Schedule {
        Schedule::Product(Product { factors, offset, total_steps: TOTAL })
    }

    fn factor(schedule: impl Into<Schedule>) -> ProductFactor {
        ProductFactor::Schedule(Nested(Box::new(schedule.into())))
    }

    /// `expected` are values of Mesh TensorFlow 0.1.21 on TensorFlow 2.21, printed by `tests/numerics/mesh_schedules.py`.
    /// Near the end of a slanted triangle, where 1 is subtracted from nearly 1, float32 leaves six digits.
    fn check(schedule: &Schedule, expected: [f32; 6]) {
        let schedule = schedule.build().unwrap();
        for (step, expected) in STEPS.into_iter().zip(expected) {
            let found = schedule.at(step);
            assert!(
                (found - expected).abs() <= 1e-6 * expected.abs(),
                "{step}: {found} {expected}"
            );
        }
    }

    #[test]
    fn values_equal_those_of_mesh_tensorflow() {
        let noam = Noam {
            warmup_steps: 40,
            linear_decay_fraction: 0.1,
            multiplier: 0.5,
            offset: 0,
            total_steps: TOTAL,
        };
        let of_noam = [0.079_056_94, 0.079_056_94, 0.070_710_68, 0.016_675_934, 0.008_111_071, 0.0];
        check(&noam.clone().into(), of_noam);
        let no_decay = Noam {
            linear_decay_fraction: 0.0,
            multiplier: 1.0,
            offset: 20,
            total_steps: None,
            ..noam
        };
        let flat = 0.158_113_88;
        check(&no_decay.into(), [flat, flat, flat, 0.033_729_162, 0.032_791_29, 0.031_943_828]);
        let falling = LinearDecayLearningRate { initial_lr: 0.1, offset: 100, total_steps: TOTAL };
        check(&falling.into(), [0.1, 0.1, 0.1, 0.011_222_223, 0.005_555_556, 0.0]);
        let slanted = SlantedTriangular {
            cut_fraction: 0.1,
            ratio: 32.0,
            max_learning_rate: 0.01,
            start_step: 0,
            total_steps: TOTAL,
        };
        let of_slanted = [
            0.000_312_5,
            0.000_409_375,
            0.005_156_25,
            0.001_399_652_4,
            0.000_850_694_1,
            0.000_312_5,
        ];
        check(&slanted.into(), of_slanted);
        let factors = vec![
            ProductFactor::Number(2.0),
            factor(TruncatedRsqrt { warmup_steps: 10_000 }),
            factor(LinearWarmup { steps_or_fraction: 0.2, total_steps: None }),
            factor(LinearDecay { steps_or_fraction: 0.1, total_steps: None }),
            ProductFactor::Number(3.0),
        ];
        let of_product =
            [0.027_272_726, 0.027_545_452, 0.040_909_09, 0.055_090_904, 0.027_272_726, 0.0];
        check(&product(factors, -100), of_product);
    }

    #[test]
    fn a_schedule_without_the_length_of_its_run_is_refused() {
        let decay = LinearDecay { steps_or_fraction: 0.1, total_steps: None };
        let error = Schedule::from(decay.clone()).build().unwrap_err().to_string();
        assert_eq!(
            error,
            "`linear_decay.total_steps` is None, expected the step at which the run ends \
             (`linear_decay.total_steps = %TRAIN_STEPS`)"
        );
        let error = product(vec![factor(decay)], 1000).build().unwrap_err().to_string();
        assert_eq!(error, "`linear_decay.total_steps` is 0, expected 1 or more");
    }

    #[test]
    fn no_learning_rate_is_exactly_that() {
        let noam = Noam {
            warmup_steps: 10,
            linear_decay_fraction: 0.0,
            multiplier: 0.0,
            offset: 0,
            total_steps: None,
        };
        assert_eq!(Schedule::from(noam).build().unwrap().at(5), 0.0);
    }
}
