//! Mixing rates: numbers, functions of the task, or numbers that change with the training step. Sources: SeqIO `utils.py`, t5
//! `data/utils.py`; rates by step are Gimlet's own.

use super::cache::{Caches, cached_count};
use super::error::DataError;
use super::task::Task;
use gimlet_gin::{
    Configurable, Diagnostic, Evaluator, FromGin, Ref, Registry, Reported, Value, ValueKind,
};

/// The relative frequency at which a task is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Rate {
    /// A fixed rate.
    Number(f64),
    /// A rate that depends on the task.
    Function(Ref<RateFunction>),
    /// A rate that depends on the training step.
    Steps(StepRates),
}

impl FromGin for Rate {
    fn expected() -> String {
        format!("a float, {}, or {}", StepRates::expected(), Ref::<RateFunction>::expected())
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Int(_) | ValueKind::Float(_) => cx.read(value).map(Self::Number),
            ValueKind::Reference(_) => cx.read(value).map(Self::Function),
            ValueKind::Dict(_) => cx.read(value).map(Self::Steps),
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }

    fn to_gin(&self) -> Option<ValueKind> {
        match self {
            Self::Number(rate) => rate.to_gin(),
            Self::Function(function) => function.to_gin(),
            Self::Steps(rates) => rates.to_gin(),
        }
    }

    fn register(registry: &mut Registry) {
        Ref::<RateFunction>::register(registry);
    }
}

/// The rates of a task by the training step from which each counts: `{0: 3.0, 10000: 1.0}`.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRates(Vec<(u64, f64)>);

impl StepRates {
    /// The rates in the order of their steps, of which the first is 0.
    ///
    /// # Errors
    /// The number of the mistaken rate, what was found and expected, and a remedy.
    fn new(rates: Vec<(u64, f64)>) -> Result<Self, (usize, String, &'static str)> {
        match rates.first() {
            Some((0, _)) => (),
            found => {
                let found = found.map_or("no rate".to_string(), |(step, _)| format!("step {step}"));
                let message = format!("rates by step begin with {found}, expected step 0");
                return Err((
                    0,
                    message,
                    "a task that is not drawn at first has the rate 0 there: `{0: 0.0, ...}`",
                ));
            }
        }
        match rates.windows(2).position(|pair| pair[0].0 >= pair[1].0) {
            None => Ok(Self(rates)),
            Some(at) => {
                let (before, found) = (rates[at].0, rates[at + 1].0);
                let message =
                    format!("step {found} stands after step {before}, expected a later step");
                Err((at + 1, message, "write the rates in the order of their steps"))
            }
        }
    }

    /// The rate in the batch of the training step after `step` others.
    pub(crate) fn at(&self, step: u64) -> f64 {
        self.0[self.0.partition_point(|(from, _)| *from <= step) - 1].1
    }

    /// The steps from which a rate counts, the first of which is 0.
    pub(crate) fn steps(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|(step, _)| *step)
    }
}

impl FromGin for StepRates {
    fn expected() -> String {
        "a dict from training steps to floats".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        let ValueKind::Dict(entries) = &value.kind else {
            return Err(cx.mismatch(value, &Self::expected()));
        };
        let read = entries.iter().map(|(step, rate)| Ok((cx.read(step)?, cx.read(rate)?)));
        let rates: Result<_, Reported> = read.collect();
        Self::new(rates?).map_err(|(at, message, remedy)| {
            let span = entries.get(at).map_or(value.span, |(step, _)| step.span);
            cx.report(Diagnostic::error(span, message).help(remedy))
        })
    }

    fn to_gin(&self) -> Option<ValueKind> {
        let entry = |(step, rate): &(u64, f64)| {
            Some((Value::unplaced(step.to_gin()?), Value::unplaced(rate.to_gin()?)))
        };
        self.0.iter().map(entry).collect::<Option<_>>().map(ValueKind::Dict)
    }
}

/// Any mixing rate function, as a bare reference: `@t5.data.rate_num_examples`.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum RateFunction {
    /// The task's number of examples, as t5 lets gin configure it.
    RateNumExamples(RateNumExamples),
    /// The rate of the unsupervised task.
    RateUnsupervised(RateUnsupervised),
    /// The task's number of examples.
    MixingRateNumExamples(MixingRateNumExamples),
    /// The task's number of characters.
    MixingRateNumCharacters(MixingRateNumCharacters),
}

impl RateFunction {
    /// The rate of a task.
    ///
    /// # Errors
    /// A count that is not known, or a cache that cannot be read.
    pub fn rate(&self, task: &Task, caches: &Caches) -> Result<f64, DataError> {
        match self {
            Self::RateNumExamples(spec) => spec.as_mixing_rate().rate(task, caches),
            Self::RateUnsupervised(spec) => Ok(spec.value),
            Self::MixingRateNumExamples(spec) => spec.rate(task, caches),
            Self::MixingRateNumCharacters(spec) => spec.rate(task, caches),
        }
    }
}

/// `min(examples * scale, maximum) ** (1 / temperature)`, of the training split. A run's own bindings
/// reach it: `rate_num_examples.maximum = 1e6`. Source: t5 `data/utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.rate_num_examples", alias = "t5.data.utils.rate_num_examples", open)]
pub struct RateNumExamples {
    /// Larger tasks count as this large.
    #[gin(default = None)]
    pub maximum: Option<f64>,
    /// Above 1, small tasks are drawn more often than in proportion to their size.
    #[gin(default = 1.0)]
    pub temperature: f64,
    /// A factor, applied before the maximum.
    #[gin(default = 1.0)]
    pub scale: f64,
    /// Whether the number of examples of a task without a cache is taken from its source.
    #[gin(default = true)]
    pub fallback_to_num_input_examples: bool,
}

impl RateNumExamples {
    fn as_mixing_rate(&self) -> MixingRateNumExamples {
        MixingRateNumExamples {
            maximum: self.maximum,
            scale: self.scale,
            temperature: self.temperature,
            fallback_to_num_input_examples: self.fallback_to_num_input_examples,
            split: "train".to_string(),
        }
    }
}

/// The same number for every task. A run's own bindings reach it. Source: t5 `data/utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.rate_unsupervised", alias = "t5.data.utils.rate_unsupervised", open)]
pub struct RateUnsupervised {
    /// The rate.
    #[gin(default = 1e6)]
    pub value: f64,
}

/// `min(examples * scale, maximum) ** (1 / temperature)`. Source: SeqIO `utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.mixing_rate_num_examples", alias = "seqio.utils.mixing_rate_num_examples")]
pub struct MixingRateNumExamples {
    /// Larger tasks count as this large.
    #[gin(default = None)]
    pub maximum: Option<f64>,
    /// A factor, applied before the maximum.
    #[gin(default = 1.0)]
    pub scale: f64,
    /// Above 1, small tasks are drawn more often than in proportion to their size.
    #[gin(default = 1.0)]
    pub temperature: f64,
    /// Whether the number of examples of a task without a cache is taken from its source.
    #[gin(default = true)]
    pub fallback_to_num_input_examples: bool,
    /// The split whose examples are counted.
    #[gin(default = "train".to_string())]
    pub split: String,
}

impl MixingRateNumExamples {
    fn rate(&self, task: &Task, caches: &Caches) -> Result<f64, DataError> {
        let scaled = self.num_examples(task, caches)? as f64 * self.scale;
        // As in SeqIO, a maximum of 0 means no maximum.
        let maximum = self.maximum.filter(|maximum| *maximum != 0.0);
        let rate = maximum.map_or(scaled, |maximum| scaled.min(maximum));
        Ok(rate.powf(1.0 / self.temperature))
    }

    fn num_examples(&self, task: &Task, caches: &Caches) -> Result<u64, DataError> {
        let (name, split) = (task.task_name(), &self.split);
        let cache = match self.fallback_to_num_input_examples {
            true => caches.find(name)?,
            false => Some(caches.get(name)?),
        };
        let unknown = |why: &str, help: &str| {
            DataError::Config(format!(
                "the rate of `{name}` is the number of its '{split}' examples, {why}; {help}"
            ))
        };
        match cache {
            Some(cache) => cached_count(&cache, split, "examples")?.ok_or_else(|| {
                let why = format!("which its cache `{}` does not tell", cache.path());
                unknown(&why, "write the cache again")
            }),
            None => match task.source.num_input_examples(split) {
                Some(count) => Ok(count),
                None => {
                    // Missing data say so themselves.
                    task.source.split(name, split)?;
                    let why = "but it has no cache and its source does not know it";
                    let help = "cache it, bind the source's `num_input_examples`, or give a number";
                    Err(unknown(why, help))
                }
            },
        }
    }
}

/// `characters ** (1 / temperature)` of the training split, from the task's cache. Source: SeqIO
/// `utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.mixing_rate_num_characters", alias = "seqio.utils.mixing_rate_num_characters")]
pub struct MixingRateNumCharacters {
    /// Above 1, small tasks are drawn more often than in proportion to their size.
    #[gin(default = 1.0)]
    pub temperature: f64,
    /// Name of the count in the cache's `stats.train.json`.
    #[gin(default = "text_chars".to_string())]
    pub char_count_name: String,
}

impl MixingRateNumCharacters {
    fn rate(&self, task: &Task, caches: &Caches) -> Result<f64, DataError> {
        let cache = caches.get(task.task_name())?;
        let name = &self.char_count_name;
        let count = cached_count(&cache, "train", name)?.ok_or_else(|| {
            DataError::Config(format!(
                "`mixing_rate_num_characters` requires that each task is cached with the character \
                 count stats: `{}` has no '{name}' in stats.train.json; bind `char_count_name`, or \
                 cache again with `--enable_char_counts`",
                cache.path()
            ))
        })?;
        Ok((count as f64).powf(1.0 / self.temperature))
    }
}
