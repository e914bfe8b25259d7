//! Evaluates tasks: from examples and model outputs to metrics.

use std::collections::BTreeMap;

use gimlet_metrics::ModelOutput;
use gimlet_storage::{Path, StorageError, Unsent};

use super::loggers::{ExampleLog, LogSink};
use super::results::Results;
use super::spec::Logger;
use super::task::{EvalError, EvalTask, Example, Outputs};

/// Evaluates tasks and logs the results.
pub struct TaskEvaluator {
    sinks: Vec<LogSink>,
}

impl TaskEvaluator {
    /// Logs to `loggers` under `log_dir`, or nowhere.
    pub(super) fn new<'a>(
        loggers: impl Iterator<Item = &'a Logger>,
        log_dir: Option<&Path>,
        first_step: Option<i64>,
    ) -> Self {
        let sink = |(logger, dir)| LogSink::new(logger, dir, first_step);
        Self { sinks: loggers.filter_map(|logger| Some((logger, log_dir?))).map(sink).collect() }
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
        let logs = self.sinks.iter_mut().map(|sink| sink.example_log(task.name, step)).collect();
        let results = Results::new(&task);
        TaskEvaluation { task, step, results, logs, sinks: &mut self.sinks }
    }
}

/// An evaluation in progress. It keeps targets and outputs for the metrics, and no examples: logs of
/// those are written batch by batch.
pub struct TaskEvaluation<'a> {
    task: EvalTask<'a>,
    step: i64,
    results: Results,
    /// For each of the sinks, the log of examples.
    logs: Vec<Option<ExampleLog>>,
    sinks: &'a mut [LogSink],
}

impl TaskEvaluation<'_> {
    /// Whether a metric needs this output of the model.
    pub fn needs(&self, output: ModelOutput) -> bool {
        self.task.needs(output)
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
        for log in self.logs.iter_mut().flatten() {
            match log {
                ExampleLog::Json(lines) => {
                    lines.add(examples, texts.as_deref(), &self.results, first);
                }
                ExampleLog::Texts(files) => files.add(&self.task, examples, &self.results, first),
            }
        }
        Ok(())
    }

    /// Computes and logs the metrics.
    ///
    /// # Errors
    /// Those of a metric, or of writing the results.
    pub fn finish(self) -> Result<BTreeMap<String, f64>, EvalError> {
        let metrics = compute(&self.task, &self.results)?;
        for (sink, log) in self.sinks.iter_mut().zip(self.logs) {
            sink.log(self.task.name, self.step, &metrics)?;
            log.map_or(Ok(()), ExampleLog::finish)?;
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
