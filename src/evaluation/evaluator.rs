//! Evaluates tasks: from examples and model outputs to metrics.

use std::collections::BTreeMap;

use gimlet_gin::Ref;
use gimlet_metrics::{MetricError, MetricFn, ModelOutput};
use gimlet_storage::{Path, StorageError, Unsent};
use gimlet_vocab::Vocabulary;
use serde_json::{Map, Value, json};

use super::loggers::{LogSink, Results};
use super::spec::Logger;

/// One example of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// Its features as logs show them: `inputs_pretokenized`, `targets`, ...
    pub features: Map<String, Value>,
    /// The target before postprocessing: `targets_pretokenized`, else the decoded targets.
    pub target: String,
}

impl Example {
    /// Creates an example for logs, with the text to which its prediction is compared.
    pub fn of(example: &gimlet_data::Example, target: &str, vocabulary: &dyn Vocabulary) -> Self {
        let features = example.iter().map(|(name, value)| (name.to_string(), json!(value)));
        let pretokenized = example.text(&format!("{target}_pretokenized")).map(str::to_string);
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

/// A task to evaluate.
#[derive(Clone, Copy)]
pub struct EvalTask<'a> {
    /// Its name.
    pub name: &'a str,
    /// All examples of the split, in the order of the predictions.
    pub examples: &'a [Example],
    /// The metrics to compute.
    pub metric_fns: &'a [Ref<MetricFn>],
    /// The task's postprocessing of a text, to a class label, a list of answers, and so on, or its
    /// error.
    pub postprocess: &'a dyn Fn(&str, &Example, Side) -> Result<Value, String>,
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

/// Evaluates tasks and logs the results.
pub struct TaskEvaluator {
    sinks: Vec<LogSink>,
}

impl TaskEvaluator {
    /// Logs to `loggers` under `log_dir`.
    pub(super) fn new<'a>(
        loggers: impl Iterator<Item = &'a Logger>,
        log_dir: &Path,
        first_step: Option<i64>,
    ) -> Self {
        Self { sinks: loggers.map(|logger| LogSink::new(logger, log_dir, first_step)).collect() }
    }

    /// Ensures that everything logged is stored durably.
    ///
    /// # Errors
    /// A part of the logs is lost.
    pub fn settle(&mut self) -> Result<(), StorageError> {
        self.sinks.iter_mut().try_for_each(LogSink::settle)
    }

    /// Logged values that a store may not have yet.
    pub fn unsent(&self) -> Vec<Unsent> {
        self.sinks.iter().flat_map(LogSink::unsent).collect()
    }

    /// Computes and logs the task's metrics. `predict` returns the decoded text of every example in
    /// their order, `score` the log-likelihood of every target; each runs only if a metric needs
    /// it.
    ///
    /// # Errors
    /// Those of the model, of a metric, or of writing the results.
    pub fn evaluate<E: From<EvalError>>(
        &mut self,
        task: &EvalTask<'_>,
        step: i64,
        predict: impl FnOnce() -> Result<Vec<String>, E>,
        score: impl FnOnce() -> Result<Vec<f64>, E>,
    ) -> Result<BTreeMap<String, f64>, E> {
        let needs = |output| task.metric_fns.iter().any(|metric| metric.model_output() == output);
        let mut results = Results::new(task)?;
        if needs(ModelOutput::Prediction) {
            let texts = predict()?;
            check_count(task, texts.len())?;
            results.set_predictions(task, texts)?;
        }
        if needs(ModelOutput::Score) {
            let scores = score()?;
            check_count(task, scores.len())?;
            results.scores = Some(scores.into_iter().map(Value::from).collect());
        }
        let metrics = compute(task, &results)?;
        for sink in &mut self.sinks {
            sink.log(task, step, &metrics, &results)?;
        }
        Ok(metrics)
    }
}

fn check_count(task: &EvalTask<'_>, found: usize) -> Result<(), EvalError> {
    let expected = task.examples.len();
    if found == expected {
        return Ok(());
    }
    Err(EvalError::Outputs { task: task.name.to_string(), found, expected })
}

fn compute(task: &EvalTask<'_>, results: &Results) -> Result<BTreeMap<String, f64>, EvalError> {
    let mut metrics = BTreeMap::new();
    for metric in task.metric_fns {
        let outputs = match metric.model_output() {
            ModelOutput::Prediction => results.predictions.as_deref(),
            ModelOutput::Score => results.scores.as_deref(),
        };
        let outputs = outputs.expect("what metrics need has been asked of the model");
        let values = metric
            .compute(&results.targets, outputs)
            .map_err(|source| EvalError::Metric { task: task.name.to_string(), source })?;
        for (key, value) in values {
            if metrics.insert(key.clone(), value).is_some() {
                return Err(EvalError::DuplicateKey { task: task.name.to_string(), key });
            }
        }
    }
    Ok(metrics)
}
