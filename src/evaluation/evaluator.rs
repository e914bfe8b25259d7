//! Evaluates tasks: from examples and model outputs to metrics.

use std::collections::BTreeMap;

use gimlet_gin::Ref;
use gimlet_metrics::{MetricError, MetricFn, ModelOutput};
use gimlet_storage::{Path, StorageError, Unsent};
use gimlet_vocab::Vocabulary;
use serde_json::{Map, Value, json};

use super::example_lines::ExampleLines;
use super::loggers::LogSink;
use super::results::Results;
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

/// The postprocessing of a text, to a class label, a list of answers, and so on, or its error.
type Postprocess<'a> = &'a dyn Fn(&str, &Example, Side) -> Result<Value, String>;

/// A task to evaluate.
#[derive(Clone, Copy)]
pub struct EvalTask<'a> {
    /// Its name.
    pub name: &'a str,
    /// The metrics to compute.
    pub metric_fns: &'a [Ref<MetricFn>],
    /// The task's postprocessing.
    pub postprocess: Postprocess<'a>,
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

    /// Starts the evaluation of a task at a step.
    pub fn begin<'a>(&'a mut self, task: EvalTask<'a>, step: i64) -> TaskEvaluation<'a> {
        let lines = self.sinks.iter().map(|sink| sink.example_lines(task.name, step)).collect();
        let results = Results::new(&task);
        TaskEvaluation { task, step, results, lines, sinks: &mut self.sinks }
    }
}

/// An evaluation in progress. It keeps targets and outputs for the metrics, and no examples: logs of
/// those are written batch by batch.
pub struct TaskEvaluation<'a> {
    task: EvalTask<'a>,
    step: i64,
    results: Results,
    /// For each of the sinks, the file of examples.
    lines: Vec<Option<ExampleLines>>,
    sinks: &'a mut [LogSink],
}

impl TaskEvaluation<'_> {
    /// Whether a metric needs this output of the model.
    pub fn needs(&self, output: ModelOutput) -> bool {
        needs(&self.task, output)
    }

    /// Adds the next examples with the outputs that metrics need.
    ///
    /// # Errors
    /// The number of outputs is not that of the examples, or a text cannot be postprocessed.
    pub fn add(&mut self, examples: &[Example], outputs: Outputs) -> Result<(), EvalError> {
        let Outputs { texts, scores } = outputs;
        let counts = [texts.as_ref().map(Vec::len), scores.as_ref().map(Vec::len)];
        counts.into_iter().flatten().try_for_each(|found| self.check_count(found, examples))?;
        let first = self.results.targets.len();
        self.results.add(&self.task, examples, texts.as_deref(), scores)?;
        for lines in self.lines.iter_mut().flatten() {
            lines.add(examples, texts.as_deref(), &self.results, first);
        }
        Ok(())
    }

    /// Computes and logs the metrics.
    ///
    /// # Errors
    /// Those of a metric, or of writing the results.
    pub fn finish(self) -> Result<BTreeMap<String, f64>, EvalError> {
        let metrics = compute(&self.task, &self.results)?;
        for (sink, lines) in self.sinks.iter_mut().zip(self.lines) {
            sink.log(self.task.name, self.step, &metrics)?;
            lines.map_or(Ok(()), ExampleLines::finish)?;
        }
        Ok(metrics)
    }

    fn check_count(&self, found: usize, examples: &[Example]) -> Result<(), EvalError> {
        let expected = examples.len();
        if found == expected {
            return Ok(());
        }
        Err(EvalError::Outputs { task: self.task.name.to_string(), found, expected })
    }
}

/// Whether a metric of the task needs this output of the model.
pub(super) fn needs(task: &EvalTask<'_>, output: ModelOutput) -> bool {
    task.metric_fns.iter().any(|metric| metric.model_output() == output)
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
