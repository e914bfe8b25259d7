//! A schedule's value at a step.

use super::factors::Factor;
use super::{CreateLearningRateScheduler, Schedule};

/// A learning rate as a pure function of the step.
#[derive(Clone, Debug, PartialEq)]
pub struct LearningRateSchedule(Schedule);

impl LearningRateSchedule {
    /// The schedule of a spec that was checked.
    pub(super) fn new(spec: Schedule) -> Self {
        Self(spec)
    }

    /// The learning rate of the update that follows `step` updates.
    pub fn at(&self, step: i64) -> f32 {
        self.0.at(step, None)
    }
}

impl CreateLearningRateScheduler {
    /// The product of the factors after `step` updates.
    pub(super) fn at(&self, step: i64) -> f32 {
        let step = (step - self.step_offset).max(0);
        // Factors before the first that depends on the step multiply as Python floats.
        let mut rate = Running::Constant(1.0);
        for factor in &self.factors.0 {
            rate = factor.apply(rate, self, step);
        }
        rate.float32().max(self.min_learning_rate as f32)
    }
}

/// The product of the factors so far.
#[derive(Clone, Copy)]
pub(super) enum Running {
    /// A Python float, double precision.
    Constant(f64),
    /// A JAX array, single precision.
    Array(f32),
}

impl Running {
    pub(super) fn float32(self) -> f32 {
        match self {
            Running::Constant(value) => value as f32,
            Running::Array(value) => value,
        }
    }

    pub(super) fn times(self, factor: f32) -> Self {
        Running::Array(self.float32() * factor)
    }

    fn over(self, divisor: f32) -> Self {
        Running::Array(self.float32() / divisor)
    }

    pub(super) fn times_constant(self, factor: f64) -> Self {
        match self {
            Running::Constant(value) => Running::Constant(value * factor),
            Running::Array(value) => Running::Array(value * factor as f32),
        }
    }
}

impl Factor {
    /// Multiplies `rate` by this factor. Each operation rounds like JAX's.
    fn apply(self, rate: Running, spec: &CreateLearningRateScheduler, step: i64) -> Running {
        let base = spec.base_learning_rate;
        // T5X returns NaN or infinity at step 0 without warm-up; here it is the limit. `f32::min`
        // drops the NaN of 0/0, and a decay starts at step 1.
        let warmup = spec.warmup_steps as f32;
        let risen = step as f32 / warmup;
        let held = (step.max(spec.warmup_steps).max(1) as f32).sqrt();
        match self {
            Factor::Constant => rate.times_constant(base),
            Factor::LinearWarmup => rate.times(risen.min(1.0)),
            Factor::LinearDecay => {
                let left = (spec.warmup_steps - step) as f32;
                let fallen = 1.0 + spec.decay_factor as f32 * left;
                rate.times(base as f32 * risen.min(fallen))
            }
            Factor::RsqrtDecay => rate.over(held),
            Factor::RsqrtNormalizedDecay => rate.times(warmup.sqrt()).over(held),
            Factor::DecayEvery => {
                let decays = step.div_euclid(spec.steps_per_decay) as f32;
                rate.times((spec.decay_factor as f32).powf(decays))
            }
            Factor::CosineDecay => {
                let cycles = (step - spec.warmup_steps) as f32 / spec.steps_per_cycle as f32;
                let progress = cycles.max(0.0) % 1.0;
                let cosine = 0.5 * (1.0 + (std::f32::consts::PI * progress).cos());
                rate.times(cosine.max(0.0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Factors;
    use super::*;

    const STEPS: [i64; 8] = [0, 1, 5, 69, 101, 250, 12_345, 1_000_001];

    fn spec(factors: &str) -> CreateLearningRateScheduler {
        CreateLearningRateScheduler { factors: Factors::known(factors), ..Default::default() }
    }

    /// `expected` are float32 bits from T5X at cc342d4 on jax 0.10.2, op by op on CPU, printed by
    /// `tests/numerics/schedule.py`; pow and cos may differ in the last place.
    fn check(spec: CreateLearningRateScheduler, expected: [u32; 8]) {
        let schedule = spec.build().unwrap();
        let found = STEPS.map(|step| schedule.at(step).to_bits());
        let close = found.iter().zip(&expected).all(|(a, b)| a.abs_diff(*b) <= 4);
        assert!(close, "{found:?} is not {expected:?}");
        if !spec.factors.0.iter().any(|f| matches!(f, Factor::DecayEvery | Factor::CosineDecay)) {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn the_defaults_equal_t5x() {
        check(
            CreateLearningRateScheduler::default(),
            [
                841731191, 931439283, 950389599, 982450025, 986796227, 998344419, 999519686,
                973279850,
            ],
        );
    }

    #[test]
    fn the_pretraining_schedule_equals_t5x() {
        check(
            CreateLearningRateScheduler {
                base_learning_rate: 1.0,
                warmup_steps: 10_000,
                ..spec("constant * rsqrt_decay")
            },
            [
                1008981770, 1008981770, 1008981770, 1008981770, 1008981770, 1008981770, 1007908294,
                981668458,
            ],
        );
    }

    #[test]
    fn linear_decay_equals_t5x() {
        check(
            CreateLearningRateScheduler {
                base_learning_rate: 0.0005,
                warmup_steps: 100,
                decay_factor: 0.001,
                ..spec("linear_decay")
            },
            [
                841731191, 916964781, 936490776, 968155422, 973271265, 970904202, 841731191,
                841731191,
            ],
        );
    }

    #[test]
    fn normalized_decay_equals_t5x() {
        check(
            CreateLearningRateScheduler {
                base_learning_rate: 0.3,
                warmup_steps: 70,
                ..spec("constant * linear_warmup * rsqrt_normalized_decay")
            },
            [
                841731191, 999059246, 1018137338, 1050109917, 1048559382, 1042451987, 1018761112,
                992247414,
            ],
        );
    }

    #[test]
    fn decay_every_equals_t5x() {
        check(
            CreateLearningRateScheduler {
                base_learning_rate: 0.01,
                decay_factor: 0.9,
                steps_per_decay: 30,
                ..spec("constant*decay_every")
            },
            [
                1008981770, 1008981770, 1008981770, 1006941660, 1005510898, 999099954, 841731191,
                841731191,
            ],
        );
    }

    #[test]
    fn cosine_decay_equals_t5x() {
        check(
            CreateLearningRateScheduler {
                base_learning_rate: 0.1,
                warmup_steps: 10,
                steps_per_cycle: 200,
                ..spec("constant * constant * cosine_decay")
            },
            [
                1008981770, 1008981770, 1008981770, 1006836543, 1002106076, 1007956438, 991721442,
                944799334,
            ],
        );
    }

    #[test]
    fn an_offset_delays_everything() {
        check(
            CreateLearningRateScheduler {
                base_learning_rate: 0.01,
                warmup_steps: 3,
                step_offset: 100,
                ..spec("linear_warmup * constant")
            },
            [
                841731191, 841731191, 841731191, 841731191, 995783694, 1008981770, 1008981770,
                1008981770,
            ],
        );
    }

    #[test]
    fn no_warmup_is_finite_at_step_0() {
        for factors in ["linear_warmup", "rsqrt_decay", "rsqrt_normalized_decay", "linear_decay"] {
            let schedule = CreateLearningRateScheduler { warmup_steps: 0, ..spec(factors) };
            assert!(schedule.build().unwrap().at(0).is_finite(), "{factors}");
        }
    }
}
