//! Families: many tasks of one shape, from a table.

use std::collections::BTreeMap;

use super::feature::Feature;
use super::postprocess::Postprocessor;
use super::preprocess::Preprocessor;
use super::source::DataSource;
use super::task::Task;
use gimlet_gin::{
    Configurable, Evaluator, Fields, FromGin, Ref, Registry, Reported, Rows, Value, ValueKind,
};
use gimlet_metrics::MetricFn;

/// A task for each row of a table. Within a row its fields are macros, so that any part of the
/// task, and of the blocks that it refers to, can differ by row. Gimlet's own, for the loops of
/// Python task files.
///
/// ```text
/// wmt/seqio.TaskFamily:
///   name = f'wmt{YEAR}_en{LANGUAGE}_v003'
///   rows = [{'YEAR': 14, 'LANGUAGE': 'de'}, {'YEAR': 16, 'LANGUAGE': 'ro'}]
///   source = @wmt/seqio.TfdsDataSource()
///   ...
/// wmt/seqio.TfdsDataSource.tfds_name = f'wmt{YEAR}_translate/{LANGUAGE}-en:1.0.0'
/// ```
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.TaskFamily")]
pub struct TaskFamily {
    /// The scope in which the family was declared.
    #[gin(scope)]
    pub scope: String,
    /// Name of a row's task, built from the row's fields.
    pub name: String,
    /// The fields of each task, by name.
    pub rows: Rows,
    /// Values of the fields that a row leaves out.
    #[gin(default = Fields::default())]
    pub defaults: Fields,
    /// Source of the raw examples.
    pub source: DataSource,
    /// Steps from raw examples to token ids, in order; lists of them are joined.
    #[gin(default = Steps::default())]
    pub preprocessors: Steps,
    /// The features that examples end with, by name.
    pub output_features: BTreeMap<String, Feature>,
    /// Converts a decoded prediction or target into the form that the metrics compare.
    #[gin(default = None)]
    pub postprocess_fn: Option<Postprocessor>,
    /// Metrics of an evaluation of the task.
    #[gin(default = Vec::new())]
    pub metric_fns: Vec<Ref<MetricFn>>,
    /// Examples held for shuffling; None forbids shuffling.
    #[gin(default = Some(1000))]
    pub shuffle_buffer_size: Option<usize>,
}

/// Preprocessors, or lists of preprocessors from macros.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steps(
    /// In the order written.
    pub Vec<Preprocessor>,
);

impl FromGin for Steps {
    fn expected() -> String {
        Vec::<Preprocessor>::expected()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        let (ValueKind::List(items) | ValueKind::Tuple(items)) = &value.kind else {
            return Err(cx.mismatch(value, &Self::expected()));
        };
        let read: Vec<_> = items.iter().map(|item| cx.read::<Item>(item)).collect();
        let steps: Result<Vec<Item>, Reported> = read.into_iter().collect();
        Ok(Self(steps?.into_iter().flat_map(|Item(steps)| steps).collect()))
    }

    fn to_gin(&self) -> Option<ValueKind> {
        self.0.to_gin()
    }

    fn register(registry: &mut Registry) {
        Preprocessor::register(registry);
    }
}

/// A preprocessor or several.
struct Item(Vec<Preprocessor>);

impl FromGin for Item {
    fn expected() -> String {
        Preprocessor::expected()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::List(_) | ValueKind::Tuple(_) => {
                Steps::from_gin(value, cx).map(|steps| Self(steps.0))
            }
            _ => Preprocessor::from_gin(value, cx).map(|step| Self(vec![step])),
        }
    }
}

impl From<TaskFamily> for Task {
    fn from(family: TaskFamily) -> Self {
        let TaskFamily { scope, name, source, preprocessors, output_features, .. } = family;
        let TaskFamily { postprocess_fn, metric_fns, shuffle_buffer_size, .. } = family;
        Self {
            scope,
            name: Some(name),
            source,
            preprocessors: preprocessors.0,
            output_features,
            postprocess_fn,
            metric_fns,
            shuffle_buffer_size,
        }
    }
}
