//! A task to evaluate: its examples, the model's outputs for them, and mistakes in both.

use gimlet_gin::Ref;
use gimlet_metrics::{MetricError, MetricFn, ModelOutput};
use gimlet_storage::StorageError;
use gimlet_vocab::Vocabulary;
use serde_json::{Map, Value, json};

/// One example of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// Its features as logs show them: `inputs_pretokenized`, `targets`, ...
    pub features: Map<String, Value>,
    /// The target before postprocessing: `targets_pretokenized`, else the decoded targets.
    pub target: String,
}

impl Example {
    /// Creates an example for logs, with the text to which its prediction is compared: of several answers the first right one.
    pub fn of(example: &gimlet_data::Example, target: &str, vocabulary: &dyn Vocabulary) -> Self {
        let features = example.iter().map(|(name, value)| (name.to_string(), json!(value)));
        let key = format!("{target}_pretokenized");
        let right = example.ints("is_correct").into_iter().flatten().position(|truth| *truth != 0);
        let right_answer = || example.texts(&key).get(right?).cloned();
        let pretokenized = example.text(&key).map(str::to_string).or_else(right_answer);
        let decoded = || vocabulary.decode(example.ints(target).unwrap_or_default());
        Self { features: features.collect(), target: pretokenized.unwrap_or_else(decoded) }
    }
}

/// The origin of a text: the truth or the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The truth.
    Target,
    /// The model's.
    Prediction,
}

/// The postprocessing of a text, to a class label, a list of answers, and so on, or its error.
type Postprocess<'a> = &'a dyn Fn(&str, &Example, Side) -> Result<Value, String>;

/// The text of a postprocessed value.
type Printed<'a> = &'a dyn Fn(&Value, Side) -> String;

/// A task to evaluate.
#[derive(Clone, Copy)]
pub struct EvalTask<'a> {
    /// Its name.
    pub name: &'a str,
    /// The metrics to compute.
    pub metric_fns: &'a [Ref<MetricFn>],
    /// The task's postprocessing.
    pub postprocess: Postprocess<'a>,
    /// Postprocessed values as Python prints them.
    pub printed: Printed<'a>,
}

impl EvalTask<'_> {
    /// Whether a metric needs this output of the model.
    pub(super) fn needs(&self, output: ModelOutput) -> bool {
        self.metric_fns.iter().any(|metric| metric.model_output() == output)
    }
}

/// The model's outputs for a batch of examples, in their order; those that no metric needs are `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outputs {
    /// Decoded texts.
    pub texts: Option<Vec<String>>,
    /// Log-likelihoods of the targets.
    pub scores: Option<Vec<f64>>,
}

/// An evaluation that failed.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// The model returned too few or too many outputs.
    #[error("the model gave {found} outputs for the {expected} examples of task `{task}`")]
    Outputs {
        /// The task.
        task: String,
        /// Number of outputs.
        found: usize,
        /// Number of examples.
        expected: usize,
    },
    /// A metric failed.
    #[error("task `{task}`: {source}")]
    Metric {
        /// The task.
        task: String,
        /// The error of the metric.
        source: MetricError,
    },
    /// A text could not be postprocessed.
    #[error("task `{task}`, postprocess_fn, example {number}: {reason}")]
    Postprocess {
        /// The task.
        task: String,
        /// The example, from 1.
        number: usize,
        /// The value that was found, and the expected one.
        reason: String,
    },
    /// Two metrics of a task use one key.
    #[error("duplicate metric key `{key}` in task `{task}`; drop one of its metric_fns")]
    DuplicateKey {
        /// The task.
        task: String,
        /// The key.
        key: String,
    },
    /// Results that could not be written.
    #[error("evaluation results are lost: {0}")]
    Write(#[from] StorageError),
}
