//! Learning-rate schedules: the grammar of T5X's `create_learning_rate_scheduler`.
//!
//! A schedule is a product of factors, `'constant * linear_warmup * rsqrt_decay'`, computed in
//! float32 in the order written, as JAX computes it. It is a pure function of the step, so resuming
//! needs no state. The step of an update is the number of updates made before it: the first is 0.
//!
//! ```
//! use gimlet::schedule::{CreateLearningRateScheduler, Factors};
//! let spec = CreateLearningRateScheduler {
//!     factors: Factors::known("constant * rsqrt_decay"),
//!     base_learning_rate: 1.0,
//!     warmup_steps: 10_000,
//!     ..CreateLearningRateScheduler::default()
//! };
//! assert_eq!(spec.build().unwrap().at(0), 0.01);
//! ```

use std::fmt;

use crate::gin::{
    Configurable, Diagnostic, Evaluator, FromGin, Reported, Value, ValueKind, did_you_mean,
};

/// Any schedule the Trainer accepts.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum Schedule {
    /// T5X's product of factors.
    CreateLearningRateScheduler(CreateLearningRateScheduler),
}

impl Schedule {
    /// The function of the step that this spec describes.
    pub fn build(&self) -> Result<LearningRateSchedule, ScheduleError> {
        match self {
            Schedule::CreateLearningRateScheduler(spec) => spec.build(),
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
    /// What `decay_every` multiplies by; the slope per step of `linear_decay`.
    #[gin(default = 0.5)]
    pub decay_factor: f64,
    /// How often `decay_every` decays, in steps.
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

impl CreateLearningRateScheduler {
    /// Checks the periods that the factors divide by.
    ///
    /// # Errors
    /// A negative `warmup_steps`, or a period of zero or less that a factor uses.
    pub fn build(&self) -> Result<LearningRateSchedule, ScheduleError> {
        let used = |factor| self.factors.0.contains(&factor);
        if self.warmup_steps < 0 {
            let (param, steps) = ("warmup_steps", self.warmup_steps);
            return Err(ScheduleError { param, steps, least: 0 });
        }
        for (factor, param, steps) in [
            (Factor::DecayEvery, "steps_per_decay", self.steps_per_decay),
            (Factor::CosineDecay, "steps_per_cycle", self.steps_per_cycle),
        ] {
            if used(factor) && steps <= 0 {
                return Err(ScheduleError { param, steps, least: 1 });
            }
        }
        Ok(LearningRateSchedule { spec: self.clone() })
    }
}

/// A schedule that cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`create_learning_rate_scheduler.{param}` is {steps}, expected {least} or more")]
pub struct ScheduleError {
    /// The parameter.
    pub param: &'static str,
    /// Its value.
    pub steps: i64,
    /// The least value that has a meaning.
    pub least: i64,
}

/// A learning rate as a pure function of the step.
#[derive(Clone, Debug, PartialEq)]
pub struct LearningRateSchedule {
    spec: CreateLearningRateScheduler,
}

impl LearningRateSchedule {
    /// The learning rate of the update that follows `step` updates.
    pub fn at(&self, step: i64) -> f32 {
        let spec = &self.spec;
        let step = (step - spec.step_offset).max(0);
        // Factors before the first that depends on the step multiply as Python floats.
        let mut rate = Product::Constant(1.0);
        for factor in &spec.factors.0 {
            rate = factor.apply(rate, spec, step);
        }
        rate.float32().max(spec.min_learning_rate as f32)
    }
}

/// What has been multiplied so far.
#[derive(Clone, Copy)]
enum Product {
    /// A Python float, double precision.
    Constant(f64),
    /// A JAX array, single precision.
    Array(f32),
}

impl Product {
    fn float32(self) -> f32 {
        match self {
            Product::Constant(value) => value as f32,
            Product::Array(value) => value,
        }
    }

    fn times(self, factor: f32) -> Self {
        Product::Array(self.float32() * factor)
    }

    fn over(self, divisor: f32) -> Self {
        Product::Array(self.float32() / divisor)
    }

    fn times_constant(self, factor: f64) -> Self {
        match self {
            Product::Constant(value) => Product::Constant(value * factor),
            Product::Array(value) => Product::Array(value * factor as f32),
        }
    }
}

/// The factors of a schedule in the order written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factors(pub Vec<Factor>);

impl Factors {
    /// Parses names joined by `*`.
    ///
    /// # Errors
    /// The first name that is no factor.
    pub fn parse(text: &str) -> Result<Self, UnknownFactor> {
        let parts = text.split('*').map(str::trim);
        let factors = parts.map(|name| {
            let known = Factor::ALL.into_iter().find(|factor| factor.as_str() == name);
            known.ok_or_else(|| UnknownFactor { name: name.to_string() })
        });
        Ok(Self(factors.collect::<Result<_, _>>()?))
    }

    /// Parses a text of ours.
    ///
    /// # Panics
    /// If it names no factors.
    pub fn known(text: &str) -> Self {
        Self::parse(text).expect("a text of ours names known factors")
    }
}

impl fmt::Display for Factors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(Factor::as_str).collect();
        f.write_str(&names.join(" * "))
    }
}

/// A name that is no factor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown factor '{name}', expected {} joined by '*'", crate::gin::one_of(&Factor::NAMES))]
pub struct UnknownFactor {
    /// What was written.
    pub name: String,
}

impl FromGin for Factors {
    fn expected() -> String {
        "a str of factors joined by '*'".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        let ValueKind::Str(text) = &value.kind else {
            return Err(cx.mismatch(value, &Self::expected()));
        };
        Self::parse(text).map_err(|unknown| {
            let diagnostic = Diagnostic::error(value.span, unknown.to_string())
                .help(did_you_mean(&unknown.name, Factor::NAMES));
            cx.report(diagnostic)
        })
    }
}

/// One factor of a learning-rate schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// `base_learning_rate`.
    Constant,
    /// Rises from 0 to 1 over `warmup_steps`.
    LinearWarmup,
    /// Rises to `base_learning_rate` over `warmup_steps`, then falls by `decay_factor` of it a step.
    LinearDecay,
    /// One over the square root of the step, held during `warmup_steps`.
    RsqrtDecay,
    /// The same, scaled to 1 during `warmup_steps`.
    RsqrtNormalizedDecay,
    /// `decay_factor` once more every `steps_per_decay`.
    DecayEvery,
    /// From 1 to 0 over `steps_per_cycle`, again and again.
    CosineDecay,
}

impl Factor {
    const ALL: [Factor; 7] = [
        Factor::Constant,
        Factor::LinearWarmup,
        Factor::LinearDecay,
        Factor::RsqrtDecay,
        Factor::RsqrtNormalizedDecay,
        Factor::DecayEvery,
        Factor::CosineDecay,
    ];

    /// Every name, in the order of T5X's documentation.
    pub const NAMES: [&str; 7] = [
        "constant",
        "linear_warmup",
        "linear_decay",
        "rsqrt_decay",
        "rsqrt_normalized_decay",
        "decay_every",
        "cosine_decay",
    ];

    /// The name as gin files write it.
    pub fn as_str(&self) -> &'static str {
        Self::NAMES[*self as usize]
    }

    /// Multiplies this factor into `rate`. Each operation rounds where JAX's rounds.
    fn apply(self, rate: Product, spec: &CreateLearningRateScheduler, step: i64) -> Product {
        let base = spec.base_learning_rate;
        // T5X yields NaN or infinity at step 0 without warm-up; the limit is meant. `f32::min`
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

    #[test]
    fn a_period_of_zero_is_refused_where_it_is_used() {
        let zero = CreateLearningRateScheduler { steps_per_cycle: 0, ..spec("constant") };
        assert!(zero.build().is_ok());
        let used =
            CreateLearningRateScheduler { steps_per_cycle: 0, ..spec("constant*cosine_decay") };
        let message = used.build().unwrap_err().to_string();
        assert_eq!(
            message,
            "`create_learning_rate_scheduler.steps_per_cycle` is 0, expected 1 or more"
        );
    }

    #[test]
    fn an_unknown_factor_is_named_with_those_known() {
        let message = Factors::parse("constant * rsqrt").unwrap_err().to_string();
        assert!(message.starts_with("unknown factor 'rsqrt', expected 'constant', "), "{message}");
        assert!(message.ends_with("joined by '*'"), "{message}");
    }
}
