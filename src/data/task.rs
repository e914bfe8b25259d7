//! Tasks and features as gin declares them.

use std::collections::BTreeMap;

use super::cache::cache_step;
use super::error::DataError;
use super::feature::Feature;
use super::postprocess::Postprocessor;
use super::preprocess::Preprocessor;
use super::source::DataSource;
use gimlet_gin::{Configurable, Ref};
use gimlet_metrics::MetricFn;

/// Examples of one data set as text-to-text features. Source: SeqIO `dataset_providers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "seqio.Task",
    alias = "seqio.dataset_providers.Task",
    ignored(
        metric_objs = "metrics are functions here: use `metric_fns`",
        source_info = "gin knows the file and the line"
    )
)]
pub struct Task {
    /// The scope in which the task was declared.
    #[gin(scope)]
    pub scope: String,
    /// Name under which the task is known; the scope if not given.
    #[gin(default = None)]
    pub name: Option<String>,
    /// Source of the raw examples.
    pub source: DataSource,
    /// Steps from raw examples to token ids, in order.
    #[gin(default = Vec::new())]
    pub preprocessors: Vec<Preprocessor>,
    /// The features that examples end with, by name.
    pub output_features: BTreeMap<String, Feature>,
    /// Converts a decoded prediction or target into the form that the metrics compare.
    #[gin(default = None)]
    pub postprocess_fn: Option<Postprocessor>,
    /// Metrics of an evaluation of this task.
    #[gin(default = Vec::new())]
    pub metric_fns: Vec<Ref<MetricFn>>,
    /// Examples held for shuffling; None forbids shuffling.
    #[gin(default = Some(1000))]
    pub shuffle_buffer_size: Option<usize>,
}

impl Task {
    /// The name under which the task is known.
    pub fn task_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.scope)
    }

    /// Finds mistakes that the parts of a task alone do not show.
    ///
    /// # Errors
    /// Two metrics of one key; one of them would be lost at the first evaluation.
    pub fn check(&self) -> Result<(), DataError> {
        let mut known: Vec<(String, &'static str)> = Vec::new();
        for metric in &self.metric_fns {
            for key in metric.keys() {
                if let Some((_, first)) = known.iter().find(|(known, _)| *known == key) {
                    let (task, second) = (self.task_name(), metric.name());
                    return Err(DataError::Config(format!(
                        "task `{task}` has two metrics with the key `{key}`, of `{first}` and `{second}`: \
                         drop one of its metric_fns"
                    )));
                }
                known.push((key, metric.name()));
            }
        }
        Ok(())
    }

    /// Whether the task has a cache step.
    ///
    /// # Errors
    /// A cache step that SeqIO would not accept.
    pub fn supports_caching(&self) -> Result<bool, DataError> {
        Ok(cache_step(self)?.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mixture, TaskFamily};
    use gimlet_gin::Registry;

    #[test]
    fn every_configurable_of_tasks_has_a_name_of_its_own_and_documentation() {
        let registry = Registry::default()
            .with::<Task>()
            .with::<TaskFamily>()
            .with::<Mixture>()
            .with::<crate::DatasetConfig>();
        for schema in registry.iter() {
            assert!(!schema.doc.is_empty(), "{}", schema.name);
            for param in &schema.params {
                assert!(!param.doc.is_empty(), "{}.{}", schema.name, param.name);
            }
        }
        for name in ["seqio.Task", "t5.data.preprocessors.rekey", "t5x.utils.DatasetConfig"] {
            assert!(registry.get(name).is_some(), "{name}");
        }
    }
}
