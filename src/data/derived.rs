//! Tasks and mixtures made from others: with another vocabulary, with fewer examples, or without
//! the tasks that do not have a split.
//!
//! In Python these are calls that register the new task. Here each is a block that declares the
//! task, in a task file or in the run's file, and the value of a call of the block
//! (`@seqio.mixture_or_task_with_new_vocab()`) is the task's name. The tasks of a new mixture are
//! named `MIXTURE.TASK`. Source: SeqIO `helpers.py`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::DataError;
use super::feature::Feature;
use super::mixture::{Mixture, MixtureEntries, MixtureEntry};
use super::pipeline::mixture_tasks;
use super::preprocess::{CacheDatasetPlaceholder, Preprocessor};
use super::provider::{TaskOrMixture, TaskProvider};
use super::source::{DataSource, OriginalSource, TruncatedDatasetProvider};
use super::task::Task;
use gimlet_gin::{Configurable, Function, ValueKind};
use gimlet_vocab::VocabularySpec;

/// A task with another vocabulary, or a mixture of such tasks. Source: SeqIO `helpers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "seqio.helpers.mixture_or_task_with_new_vocab",
    alias = "seqio.mixture_or_task_with_new_vocab",
    open,
    ignored(add_to_seqio_registry = "what a block declares is found by its name")
)]
pub struct WithNewVocab {
    /// The scope in which it was declared.
    #[gin(scope)]
    pub scope: String,
    /// Name of the task or mixture that gets the new vocabulary.
    pub mixture_or_task: String,
    /// Name of the new task or mixture; the scope if not given.
    #[gin(default = None)]
    pub new_mixture_or_task_name: Option<String>,
    /// The vocabulary of all features.
    #[gin(default = None)]
    pub new_vocab: Option<VocabularySpec>,
    /// The features, by name, if they do not share a vocabulary; instead of `new_vocab`.
    #[gin(default = None)]
    pub new_output_features: Option<BTreeMap<String, Feature>>,
    /// Allows caching of tasks without a cache step: up to the first preprocessor that depends on
    /// `task_feature_lengths`.
    #[gin(default = false)]
    pub add_cache_placeholder: bool,
    /// Whether the features must be those of the task, except for `vocabulary`, `add_eos` and
    /// `required`.
    #[gin(default = true)]
    pub validate_features: bool,
}

/// A task with the first examples of its splits, or a mixture of such tasks. Source: SeqIO
/// `helpers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "seqio.helpers.mixture_or_task_with_truncated_data",
    alias = "seqio.mixture_or_task_with_truncated_data",
    open,
    ignored(add_to_seqio_registry = "what a block declares is found by its name")
)]
pub struct WithTruncatedData {
    /// The scope in which it was declared.
    #[gin(scope)]
    pub scope: String,
    /// Name of the task or mixture that is truncated.
    pub mixture_or_task: String,
    /// Name of the new task or mixture; the scope if not given.
    #[gin(default = None)]
    pub new_mixture_or_task_name: Option<String>,
    /// Split to the number of its examples that are kept, of each task; other splits stay whole.
    pub split_sizes: BTreeMap<String, u64>,
}

/// A mixture without the tasks that do not have a split; the other rates stay the same. Source: SeqIO
/// `helpers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "seqio.helpers.mixture_with_missing_task_splits_removed",
    alias = "seqio.mixture_with_missing_task_splits_removed",
    open,
    ignored(add_to_seqio_registry = "what a block declares is found by its name")
)]
pub struct WithMissingTaskSplitsRemoved {
    /// The scope in which it was declared.
    #[gin(scope)]
    pub scope: String,
    /// Name of the mixture whose tasks are filtered.
    pub mixture_name: String,
    /// The split that tasks must have.
    pub split: String,
    /// Name under which the new mixture is known; the scope if not given.
    #[gin(default = None)]
    pub new_mixture_name: Option<String>,
}

/// A call that makes a task or mixture from another one.
#[derive(Clone, Debug, PartialEq)]
pub enum Derivation {
    /// See [`WithNewVocab`].
    NewVocab(WithNewVocab),
    /// See [`WithTruncatedData`].
    TruncatedData(WithTruncatedData),
    /// See [`WithMissingTaskSplitsRemoved`].
    MissingTaskSplitsRemoved(WithMissingTaskSplitsRemoved),
}

impl Derivation {
    /// The name of the original task or mixture.
    pub fn original(&self) -> &str {
        match self {
            Self::NewVocab(spec) => &spec.mixture_or_task,
            Self::TruncatedData(spec) => &spec.mixture_or_task,
            Self::MissingTaskSplitsRemoved(spec) => &spec.mixture_name,
        }
    }

    /// Makes the new task or mixture from the original.
    ///
    /// # Errors
    /// Features that do not fit the original's, a task where a mixture is expected, and splits that
    /// cannot be listed.
    pub fn apply(
        &self,
        original: &TaskOrMixture,
        name: &str,
        tasks: &dyn TaskProvider,
    ) -> Result<TaskOrMixture, DataError> {
        match (self, original) {
            (Self::NewVocab(spec), TaskOrMixture::Task(task)) => {
                spec.task(task, name).map(|task| TaskOrMixture::Task(Arc::new(task)))
            }
            (Self::TruncatedData(spec), TaskOrMixture::Task(task)) => {
                Ok(TaskOrMixture::Task(Arc::new(spec.task(task, name))))
            }
            (Self::MissingTaskSplitsRemoved(spec), TaskOrMixture::Mixture(mixture)) => {
                let mixture = spec.mixture(mixture, name, tasks)?;
                Ok(TaskOrMixture::Mixture(Arc::new(mixture)))
            }
            (Self::MissingTaskSplitsRemoved(spec), TaskOrMixture::Task(_)) => {
                Err(DataError::Config(format!(
                    "`{name}` is made of the mixture `{}`, which is a task",
                    spec.mixture_name
                )))
            }
            (_, TaskOrMixture::Mixture(mixture)) => {
                let new = |entry: &MixtureEntry| MixtureEntry {
                    name: part_name(name, &entry.name),
                    rate: entry.rate.clone(),
                };
                let entries = mixture.tasks.0.iter().map(new).collect();
                Ok(TaskOrMixture::Mixture(Arc::new(renamed(mixture, name, entries))))
            }
        }
    }
}

/// The name of a task within a new mixture.
pub fn part_name(mixture: &str, task: &str) -> String {
    format!("{mixture}.{task}")
}

fn renamed(mixture: &Mixture, name: &str, entries: Vec<MixtureEntry>) -> Mixture {
    Mixture { name: Some(name.to_string()), tasks: MixtureEntries(entries), ..mixture.clone() }
}

impl WithNewVocab {
    fn task(&self, task: &Task, name: &str) -> Result<Task, DataError> {
        let output_features = self.features(task, name)?;
        let mut preprocessors = task.preprocessors.clone();
        let is_placeholder =
            |step: &Preprocessor| matches!(step, Preprocessor::CacheDatasetPlaceholder(_));
        if self.add_cache_placeholder && !preprocessors.iter().any(is_placeholder) {
            let place = preprocessors.iter().position(Preprocessor::needs_lengths);
            let placeholder = CacheDatasetPlaceholder { required: false };
            preprocessors.insert(place.unwrap_or(preprocessors.len()), placeholder.into());
        }
        Ok(Task { name: Some(name.to_string()), output_features, preprocessors, ..task.clone() })
    }

    fn features(&self, task: &Task, name: &str) -> Result<BTreeMap<String, Feature>, DataError> {
        let unfit = |reason: String| DataError::Config(format!("`{name}`: {reason}"));
        let old = &task.output_features;
        match (&self.new_vocab, &self.new_output_features) {
            (Some(vocabulary), None) => {
                let new = |(name, feature): (&String, &Feature)| {
                    (name.clone(), Feature { vocabulary: vocabulary.clone(), ..feature.clone() })
                };
                Ok(old.iter().map(new).collect())
            }
            (None, Some(features)) if self.validate_features => {
                if !features.keys().eq(old.keys()) {
                    return Err(unfit(format!(
                        "`new_output_features` are {:?}, expected those of `{}`: {:?}",
                        features.keys().collect::<Vec<_>>(),
                        task.task_name(),
                        old.keys().collect::<Vec<_>>()
                    )));
                }
                let odd = features.iter().find(|(name, new)| {
                    let old = &old[*name];
                    new.dtype != old.dtype || new.rank != old.rank
                });
                match odd {
                    None => Ok(features.clone()),
                    Some((feature, new)) => Err(unfit(format!(
                        "the new feature '{feature}' has dtype '{}' and rank {}, expected '{}' and {} \
                         as in `{}`",
                        new.dtype.as_str(),
                        new.rank,
                        old[feature].dtype.as_str(),
                        old[feature].rank,
                        task.task_name()
                    ))),
                }
            }
            (None, Some(features)) => Ok(features.clone()),
            _ => Err(unfit(
                "exactly one of `new_vocab` and `new_output_features` must be given".to_string(),
            )),
        }
    }
}

impl WithTruncatedData {
    fn task(&self, task: &Task, name: &str) -> Task {
        let source = DataSource::TruncatedDatasetProvider(TruncatedDatasetProvider {
            child: OriginalSource(Box::new(task.source.clone())),
            split_sizes: self.split_sizes.clone(),
        });
        Task { name: Some(name.to_string()), source, ..task.clone() }
    }
}

impl WithMissingTaskSplitsRemoved {
    fn mixture(
        &self,
        mixture: &Mixture,
        name: &str,
        tasks: &dyn TaskProvider,
    ) -> Result<Mixture, DataError> {
        let mut entries = Vec::new();
        for entry in &mixture.tasks.0 {
            let mut parts = mixture_tasks(&entry.name, tasks)?.into_iter();
            let has_split = parts.try_fold(false, |found, (name, task)| {
                Ok::<_, DataError>(found || task.source.splits(&name)?.contains(&self.split))
            })?;
            if has_split {
                entries.push(entry.clone());
            }
        }
        Ok(renamed(mixture, name, entries))
    }
}

/// Returns the name that the block declares, which is the value of the call.
fn call(given: Option<String>, scope: String, parameter: &str) -> Result<ValueKind, String> {
    match given.unwrap_or(scope) {
        name if name.is_empty() => Err(format!("the new name is missing; bind `{parameter}`")),
        name => Ok(ValueKind::Str(name)),
    }
}

impl Function for WithNewVocab {
    fn call(self) -> Result<ValueKind, String> {
        call(self.new_mixture_or_task_name, self.scope, "new_mixture_or_task_name")
    }
}

impl Function for WithTruncatedData {
    fn call(self) -> Result<ValueKind, String> {
        call(self.new_mixture_or_task_name, self.scope, "new_mixture_or_task_name")
    }
}

impl Function for WithMissingTaskSplitsRemoved {
    fn call(self) -> Result<ValueKind, String> {
        call(self.new_mixture_name, self.scope, "new_mixture_name")
    }
}
