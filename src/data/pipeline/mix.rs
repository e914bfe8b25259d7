//! Mixtures: their tasks, the rates of the tasks, and drawing from them.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::pull::{Pull, Pulled, Stage, StageState};
use crate::error::DataError;
use crate::example::Example;
use crate::mixture::{Mixture, MixtureEntry};
use crate::provider::{TaskOrMixture, TaskProvider};
use crate::random::{Draw, StageSeed};
use crate::rates::Rate;
use crate::task::Task;

/// The tasks of a mixture by name, with their rates.
pub(crate) type MixtureParts = BTreeMap<String, (Arc<Task>, f64)>;

/// The tasks that a name refers to. The rates of a mixture within a mixture are scaled to its own
/// rate.
pub(crate) fn mixture_parts(
    name: &str,
    tasks: &dyn TaskProvider,
) -> Result<MixtureParts, DataError> {
    Walk { tasks, with_rates: true, within: Vec::new(), parts: MixtureParts::new() }.parts_of(name)
}

/// The same tasks, for a caller that draws from none of them: rates that cannot be computed are not
/// an error.
pub(crate) fn mixture_tasks(
    name: &str,
    tasks: &dyn TaskProvider,
) -> Result<BTreeMap<String, Arc<Task>>, DataError> {
    let walk = Walk { tasks, with_rates: false, within: Vec::new(), parts: MixtureParts::new() };
    let parts = walk.parts_of(name)?;
    Ok(parts.into_iter().map(|(name, (task, _))| (name, task)).collect())
}

/// Follows mixtures within mixtures.
struct Walk<'a> {
    tasks: &'a dyn TaskProvider,
    /// Whether rates are computed; otherwise all tasks have the same rate.
    with_rates: bool,
    /// Mixtures that are being followed, outermost first.
    within: Vec<String>,
    parts: MixtureParts,
}

impl Walk<'_> {
    fn parts_of(mut self, name: &str) -> Result<MixtureParts, DataError> {
        self.collect(name, 1.0)?;
        check_compatible(name, &self.parts)?;
        Ok(self.parts)
    }

    fn collect(&mut self, name: &str, rate: f64) -> Result<(), DataError> {
        let mixture = match self.tasks.get(name)? {
            TaskOrMixture::Task(task) => {
                let name = task.task_name().to_string();
                self.parts.entry(name).or_insert((task, 0.0)).1 += rate;
                return Ok(());
            }
            TaskOrMixture::Mixture(mixture) => mixture,
        };
        if self.within.iter().any(|outer| outer == name) {
            return Err(DataError::Config(format!("mixture `{name}` contains itself")));
        }
        self.within.push(name.to_string());
        let mut entries = Vec::new();
        for entry in &mixture.tasks.0 {
            let own_rate = match self.with_rates {
                true => rate_of(entry, &mixture, self.tasks)?,
                false => 1.0,
            };
            entries.push((&entry.name, own_rate));
        }
        if entries.is_empty() {
            return Err(DataError::Config(format!("mixture `{name}` does not contain any tasks")));
        }
        let total: f64 = entries.iter().map(|(_, rate)| rate).sum();
        if total == 0.0 {
            return Err(DataError::Config(format!("mixture `{name}`: all of its rates are 0")));
        }
        for (entry, own_rate) in entries {
            self.collect(entry, rate * own_rate / total)?;
        }
        self.within.pop();
        Ok(())
    }
}

/// The rate of an entry, or the mixture's default.
fn rate_of(
    entry: &MixtureEntry,
    mixture: &Mixture,
    tasks: &dyn TaskProvider,
) -> Result<f64, DataError> {
    let name = mixture.mixture_name();
    let of_mixture = |reason: String| DataError::Config(format!("mixture `{name}`{reason}"));
    let rate = entry.rate.as_ref().or(mixture.default_rate.as_ref()).ok_or_else(|| {
        let entry = &entry.name;
        of_mixture(format!(
            " has no rate for `{entry}`: write `('{entry}', RATE)` or set `default_rate`"
        ))
    })?;
    let rate = match rate {
        Rate::Number(rate) => *rate,
        Rate::Function(function) => match tasks.get(&entry.name)? {
            TaskOrMixture::Task(task) => function.rate(&task, &tasks.caches())?,
            TaskOrMixture::Mixture(_) => {
                let entry = &entry.name;
                return Err(of_mixture(format!(
                    ": 'rate' for sub-mixture '{entry}' must be a number; write `('{entry}', RATE)`"
                )));
            }
        },
    };
    match rate >= 0.0 && rate.is_finite() {
        true => Ok(rate),
        false => Err(of_mixture(format!(
            ": the rate of `{}` is {rate}, expected a number of 0 or more",
            entry.name
        ))),
    }
}

/// Checks that mixed tasks have the same features, of the same vocabulary and type.
fn check_compatible(name: &str, parts: &MixtureParts) -> Result<(), DataError> {
    let mut tasks = parts.values().map(|(task, _)| task);
    let Some(first) = tasks.next() else { return Ok(()) };
    for task in tasks {
        let (a, b) = (first.task_name(), task.task_name());
        let names = |task: &Task| task.output_features.keys().cloned().collect::<Vec<_>>();
        if names(first) != names(task) {
            return Err(DataError::Config(format!(
                "mixture `{name}` contains tasks with different output features: `{a}` has \
                 {:?}, `{b}` has {:?}",
                names(first),
                names(task)
            )));
        }
        for (feature, known) in &first.output_features {
            let other = &task.output_features[feature];
            if known.dtype != other.dtype || !known.vocabulary.is_same_as(&other.vocabulary)? {
                return Err(DataError::Config(format!(
                    "tasks in mixture `{name}` must use the same vocabulary and dtype: for feature \
                     '{feature}', `{a}` uses {:?} ({}), `{b}` uses {:?} ({})",
                    known.vocabulary,
                    known.dtype.as_str(),
                    other.vocabulary,
                    other.dtype.as_str()
                )));
            }
        }
    }
    Ok(())
}

/// The end of a mixture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MixEnds {
    /// With the first task that ends.
    WithTheFirst,
    /// With the last task that ends; the others are drawn as before.
    WithTheLast,
}

/// Draws each example from a task chosen by rate.
pub(crate) struct Mix {
    inputs: Vec<Stage>,
    /// The position of each task, if it was saved since the task's last draw: a batch draws from
    /// few of many tasks.
    saved: Vec<OnceCell<Arc<StageState>>>,
    ends: MixEnds,
    /// Tasks that have ended; after a restored position they are found again, since a task that has
    /// ended stays so.
    ended: Vec<bool>,
    /// Sums of the rates up to each task.
    cumulative: Vec<f64>,
    seed: StageSeed,
    /// Draws made.
    counter: u64,
    draws: Draw,
    /// Feature names kept.
    features: Vec<String>,
}

impl Mix {
    /// Mixes tasks, each with its rate, keeping the output features of all.
    pub(crate) fn new(
        parts: Vec<(Stage, f64)>,
        seed: StageSeed,
        features: Vec<String>,
        ends: MixEnds,
    ) -> Self {
        let mut total = 0.0;
        let (inputs, cumulative): (Vec<Stage>, Vec<f64>) = parts
            .into_iter()
            .map(|(stage, rate)| {
                total += rate;
                (stage, total)
            })
            .unzip();
        let draws = seed.sequence(0);
        let (saved, ended) = (vec![OnceCell::new(); inputs.len()], vec![false; inputs.len()]);
        Self { inputs, saved, ends, ended, cumulative, seed, counter: 0, draws, features }
    }

    fn has_ended(&self) -> bool {
        let mut ended = self.ended.iter().copied();
        match self.ends {
            MixEnds::WithTheFirst => ended.any(|ended| ended),
            MixEnds::WithTheLast => ended.all(|ended| ended),
        }
    }

    /// The number of a task, chosen by rate.
    fn draw(&mut self) -> usize {
        let total = self.cumulative.last().copied().unwrap_or(0.0);
        let point = self.draws.unit() * total;
        let last = self.inputs.len() - 1;
        self.counter += 1;
        self.cumulative.partition_point(|&sum| sum <= point).min(last)
    }
}

impl Pull for Mix {
    type Item = Example;

    fn pull(&mut self) -> Result<Option<Example>, DataError> {
        while !self.has_ended() {
            let chosen = self.draw();
            if self.ended[chosen] {
                continue;
            }
            self.saved[chosen].take();
            if let Some(mut example) = self.inputs[chosen].pull()? {
                example.retain(|key| self.features.iter().any(|feature| feature == key));
                return Ok(Some(example));
            }
            self.ended[chosen] = true;
        }
        Ok(None)
    }

    fn save(&self) -> StageState {
        let saved = |(input, saved): (&Stage, &OnceCell<_>)| {
            saved.get_or_init(|| Arc::new(input.save())).clone()
        };
        let inputs = self.inputs.iter().zip(&self.saved).map(saved);
        StageState::new("mix", &Pulled { counter: self.counter }, inputs)
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        Pulled { counter: self.counter } = state.read("mix", self.inputs.len())?;
        self.draws = self.seed.sequence(self.counter);
        self.ended.fill(false);
        self.saved.fill(OnceCell::new());
        for (input, state) in self.inputs.iter_mut().zip(&state.inputs) {
            input.restore(state)?;
        }
        Ok(())
    }
}
