//! Mixtures: their tasks, the rates of the tasks, and drawing from them.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::pull::{Pull, Pulled, Stage, StageState};
use crate::error::DataError;
use crate::example::Example;
use crate::mixture::{Mixture, MixtureEntry};
use crate::provider::{TaskOrMixture, TaskProvider};
use crate::random::{Draw, StageSeed};
use crate::rates::Rate;
use crate::task::Task;

/// The tasks of a mixture, with their rates.
pub(crate) struct MixtureParts {
    /// The training steps from which other rates count, in order; the first is 0.
    pub steps: Vec<u64>,
    /// The tasks by name, each with a rate for each of the steps.
    pub tasks: BTreeMap<String, (Arc<Task>, Vec<f64>)>,
}

impl MixtureParts {
    /// The same tasks, always at the rates of the first step.
    pub(crate) fn at_first(mut self) -> Self {
        self.steps.truncate(1);
        self.tasks.values_mut().for_each(|(_, rates)| rates.truncate(1));
        self
    }
}

/// The tasks that a name refers to. The rates of a mixture within a mixture are scaled to its own
/// rate.
pub(crate) fn mixture_parts(
    name: &str,
    tasks: &dyn TaskProvider,
) -> Result<MixtureParts, DataError> {
    let first = Walk::at(Some(0), tasks).through(name)?;
    let one = |(task, rate)| (task, vec![rate]);
    let of_name = first.parts.into_iter().map(|(name, part)| (name, one(part)));
    let mut parts =
        MixtureParts { steps: first.steps.into_iter().collect(), tasks: of_name.collect() };
    for step in &parts.steps[1..] {
        for (name, (_, rate)) in Walk::at(Some(*step), tasks).through(name)?.parts {
            parts.tasks.get_mut(&name).expect("each step has all tasks").1.push(rate);
        }
    }
    Ok(parts)
}

/// The same tasks, for a caller that draws from none of them: rates that cannot be computed are not
/// an error.
pub(crate) fn mixture_tasks(
    name: &str,
    tasks: &dyn TaskProvider,
) -> Result<BTreeMap<String, Arc<Task>>, DataError> {
    let walk = Walk::at(None, tasks).through(name)?;
    Ok(walk.parts.into_iter().map(|(name, (task, _))| (name, task)).collect())
}

/// Follows mixtures within mixtures.
struct Walk<'a> {
    tasks: &'a dyn TaskProvider,
    /// The training step whose rates are computed; without it all tasks have the same rate.
    step: Option<u64>,
    /// Mixtures that are being followed, outermost first.
    within: Vec<String>,
    parts: BTreeMap<String, (Arc<Task>, f64)>,
    /// The steps from which other rates count, and 0.
    steps: BTreeSet<u64>,
}

impl<'a> Walk<'a> {
    fn at(step: Option<u64>, tasks: &'a dyn TaskProvider) -> Self {
        let (within, parts) = Default::default();
        Self { tasks, step, within, parts, steps: BTreeSet::from([0]) }
    }

    fn through(mut self, name: &str) -> Result<Self, DataError> {
        self.collect(name, 1.0)?;
        check_compatible(name, &self.parts)?;
        Ok(self)
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
            let own_rate = match self.step {
                Some(step) => self.rate_of(entry, &mixture, step)?,
                None => 1.0,
            };
            entries.push((&entry.name, own_rate));
        }
        if entries.is_empty() {
            return Err(DataError::Config(format!("mixture `{name}` does not contain any tasks")));
        }
        let total: f64 = entries.iter().map(|(_, rate)| rate).sum();
        if total == 0.0 {
            return Err(DataError::Config(format!(
                "mixture `{name}`: all of its rates{} are 0, expected a task with a rate above 0",
                from_step(self.step.unwrap_or(0))
            )));
        }
        for (entry, own_rate) in entries {
            self.collect(entry, rate * own_rate / total)?;
        }
        self.within.pop();
        Ok(())
    }

    /// The rate of an entry, or the mixture's default, at a step.
    fn rate_of(
        &mut self,
        entry: &MixtureEntry,
        mixture: &Mixture,
        step: u64,
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
            Rate::Steps(rates) => {
                self.steps.extend(rates.steps());
                rates.at(step)
            }
            Rate::Function(function) => match self.tasks.get(&entry.name)? {
                TaskOrMixture::Task(task) => function.rate(&task, &self.tasks.caches())?,
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
                ": the rate of `{}`{} is {rate}, expected a number of 0 or more",
                entry.name,
                from_step(step)
            ))),
        }
    }
}

/// Names a step from which other rates count; the first one has no words.
fn from_step(step: u64) -> String {
    if step == 0 { String::new() } else { format!(" from step {step}") }
}

/// Checks that mixed tasks have the same features, of the same vocabulary and type.
fn check_compatible(
    name: &str,
    parts: &BTreeMap<String, (Arc<Task>, f64)>,
) -> Result<(), DataError> {
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

/// The rules by which a mixture is drawn.
pub(crate) struct MixPlan {
    /// Seed of the draws.
    pub seed: StageSeed,
    /// The training steps from which other rates count, in order; the first is 0.
    pub steps: Vec<u64>,
    /// Names of the features that are kept: the output features of all tasks.
    pub features: Vec<String>,
    /// The end of data that end.
    pub ends: MixEnds,
}

/// Draws each example from a task chosen by rate.
pub(crate) struct Mix {
    inputs: Vec<Stage>,
    /// The position of each task, if it was saved since the task's last draw: a batch draws from
    /// few of many tasks.
    saved: Vec<OnceCell<Arc<StageState>>>,
    /// Tasks that have ended; after a restored position they are found again, since a task that has
    /// ended stays so.
    ended: Vec<bool>,
    /// Sums of the rates up to each task, for each of the plan's steps.
    cumulative: Vec<Vec<f64>>,
    /// The training step that draws.
    step: u64,
    /// Draws made.
    counter: u64,
    draws: Draw,
    plan: MixPlan,
}

impl Mix {
    /// Mixes tasks, each with a rate for each of the plan's steps.
    ///
    /// # Errors
    /// The first step from which all rates are 0.
    pub(crate) fn new(parts: Vec<(Stage, Vec<f64>)>, plan: MixPlan) -> Result<Self, u64> {
        let (inputs, rates): (Vec<Stage>, Vec<Vec<f64>>) = parts.into_iter().unzip();
        let mut cumulative = Vec::new();
        for (at, step) in plan.steps.iter().enumerate() {
            let sums = rates.iter().scan(0.0, |total, rates| {
                *total += rates[at];
                Some(*total)
            });
            let sums: Vec<f64> = sums.collect();
            if sums.last() == Some(&0.0) {
                return Err(*step);
            }
            cumulative.push(sums);
        }
        let draws = plan.seed.sequence(0);
        let (saved, ended) = (vec![OnceCell::new(); inputs.len()], vec![false; inputs.len()]);
        Ok(Self { inputs, saved, ended, cumulative, step: 0, counter: 0, draws, plan })
    }

    fn has_ended(&self) -> bool {
        let mut ended = self.ended.iter().copied();
        match self.plan.ends {
            MixEnds::WithTheFirst => ended.any(|ended| ended),
            MixEnds::WithTheLast => ended.all(|ended| ended),
        }
    }

    /// The number of a task, chosen by rate.
    fn draw(&mut self) -> usize {
        let since = self.plan.steps.partition_point(|from| *from <= self.step);
        let cumulative = &self.cumulative[since - 1];
        let total = cumulative.last().copied().unwrap_or(0.0);
        let point = self.draws.unit() * total;
        let last = self.inputs.len() - 1;
        self.counter += 1;
        cumulative.partition_point(|&sum| sum <= point).min(last)
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
                example.retain(|key| self.plan.features.iter().any(|feature| feature == key));
                return Ok(Some(example));
            }
            self.ended[chosen] = true;
        }
        Ok(None)
    }

    fn begin_step(&mut self, step: u64) {
        self.step = step;
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
        self.draws = self.plan.seed.sequence(self.counter);
        self.ended.fill(false);
        self.saved.fill(OnceCell::new());
        for (input, state) in self.inputs.iter_mut().zip(&state.inputs) {
            input.restore(state)?;
        }
        Ok(())
    }
}
