//! The loggers of evaluation results.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use gimlet_storage::{Path, StorageError, Unsent};
use gimlet_telemetry::{EventWriter, MlflowRun};

use super::example_lines::ExampleLines;
use super::example_texts::ExampleTexts;
use super::spec::{Logger, T0ResultsLogger};
use super::t0_results;
use super::task::EvalError;

/// A logger in use.
pub(super) enum LogSink {
    Lines,
    /// One TensorBoard run per task.
    Events {
        log_dir: Path,
        first_step: Option<i64>,
        writers: BTreeMap<String, EventWriter>,
    },
    Json {
        log_dir: Path,
        write_n_results: Option<usize>,
    },
    /// A run of MLflow; `None` if its settings are wrong.
    Mlflow(Option<Arc<MlflowRun>>),
    /// The files of Mesh TensorFlow.
    Mesh {
        folder: Path,
        events: EventWriter,
        output_eval_examples: bool,
        /// Tasks whose inputs and targets are written.
        described: BTreeSet<String>,
    },
    /// The file of T0's script.
    T0Results {
        folder: Path,
        spec: T0ResultsLogger,
    },
}

/// A task's examples in the files of a logger.
pub(super) enum ExampleLog {
    Json(ExampleLines),
    Texts(Box<ExampleTexts>),
}

impl ExampleLog {
    /// Makes the files visible.
    pub(super) fn finish(self) -> Result<(), EvalError> {
        match self {
            ExampleLog::Json(lines) => lines.finish(),
            ExampleLog::Texts(files) => files.finish(),
        }
    }
}

impl LogSink {
    pub(super) fn new(logger: &Logger, log_dir: &Path, first_step: Option<i64>) -> Self {
        let log_dir = log_dir.clone();
        match logger {
            Logger::PyLogging(_) => LogSink::Lines,
            Logger::TensorBoard(_) | Logger::TensorBoardV1(_) => {
                LogSink::Events { log_dir, first_step, writers: BTreeMap::new() }
            }
            // The folder of evaluations lies in that of the run.
            Logger::Mlflow(spec) => LogSink::Mlflow(spec.run_of(&log_dir.folder())),
            Logger::Json(spec) => LogSink::Json { log_dir, write_n_results: spec.write_n_results },
            Logger::Mesh(spec) => LogSink::Mesh {
                folder: log_dir.folder(),
                events: EventWriter::new(log_dir.folder(), first_step),
                output_eval_examples: spec.output_eval_examples,
                described: BTreeSet::new(),
            },
            Logger::T0Results(spec) => {
                LogSink::T0Results { folder: log_dir.folder(), spec: spec.clone() }
            }
        }
    }

    /// Ensures that everything logged is stored durably.
    pub(super) fn settle(&mut self) -> Result<(), StorageError> {
        match self {
            LogSink::Events { writers, .. } => {
                writers.values_mut().try_for_each(EventWriter::settle)
            }
            LogSink::Mesh { events, .. } => events.settle(),
            _ => Ok(()),
        }
    }

    /// Returns logged values that a store may not have yet.
    pub(super) fn unsent(&self) -> Vec<Unsent> {
        match self {
            LogSink::Events { writers, .. } => {
                writers.values().filter_map(EventWriter::unsent).collect()
            }
            LogSink::Mesh { events, .. } => events.unsent().into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Creates the files of a task's examples, if the logger writes them.
    pub(super) fn example_log(&mut self, task: &str, step: i64) -> Option<ExampleLog> {
        match self {
            LogSink::Json { write_n_results: Some(0), .. } => None,
            LogSink::Json { log_dir, write_n_results } => {
                let path = log_dir.join(&format!("{task}-{step:06}.jsonl"));
                let lines = ExampleLines::create(path, write_n_results.unwrap_or(usize::MAX));
                Some(ExampleLog::Json(lines))
            }
            LogSink::Mesh { folder, output_eval_examples: true, described, .. } => {
                let is_first = described.insert(task.to_string());
                let files = ExampleTexts::create(folder, task, step, is_first);
                Some(ExampleLog::Texts(Box::new(files)))
            }
            _ => None,
        }
    }

    /// Logs the metrics of a task.
    pub(super) fn log(
        &mut self,
        task: &str,
        step: i64,
        metrics: &BTreeMap<String, f64>,
    ) -> Result<(), EvalError> {
        match self {
            LogSink::Lines => {
                for (metric, value) in metrics {
                    gimlet_telemetry::notice(&format!(
                        "{task}/{metric} at step {step}: {value:.3}"
                    ));
                }
            }
            LogSink::Events { log_dir, first_step, writers } => {
                let new = || EventWriter::new(log_dir.join(task), *first_step);
                let writer = writers.entry(task.to_string()).or_insert_with(new);
                let tagged =
                    metrics.iter().map(|(metric, value)| (format!("eval/{metric}"), *value));
                writer.scalars(step, tagged);
            }
            LogSink::Json { log_dir, .. } => write_metrics(log_dir, task, step, metrics)?,
            LogSink::T0Results { folder, spec } => t0_results::write(folder, spec, metrics)?,
            LogSink::Mesh { events, .. } => {
                let tagged = metrics.iter();
                events.scalars(
                    step,
                    tagged.map(|(name, value)| (format!("eval/{task}/{name}"), *value)),
                );
            }
            LogSink::Mlflow(run) => {
                let named = metrics.iter();
                let named = named
                    .map(|(metric, value)| (format!("inference_eval/{task}/{metric}"), *value));
                run.iter().for_each(|run| run.log(step, named.clone()));
            }
        }
        Ok(())
    }
}

/// Adds a line to the task's metrics. The line of an earlier evaluation of that step is replaced,
/// so that each step appears once even after a resumed run.
fn write_metrics(
    log_dir: &Path,
    task: &str,
    step: i64,
    metrics: &BTreeMap<String, f64>,
) -> Result<(), EvalError> {
    let path = log_dir.join(&format!("{task}-metrics.jsonl"));
    let mut line = Map::from_iter([("step".to_string(), json!(step))]);
    line.extend(metrics.iter().map(|(metric, value)| (metric.clone(), json!(value))));
    let line = Value::Object(line);
    let earlier = match path.read_to_string() {
        Err(error) if error.is_not_found() => String::new(),
        read => read?,
    };
    let is_this_step = |line: &&str| {
        serde_json::from_str::<Value>(line).is_ok_and(|line| line["step"] == json!(step))
    };
    let mut lines = String::new();
    for kept in earlier.lines().filter(|line| !is_this_step(line)) {
        let _ = writeln!(lines, "{kept}");
    }
    let _ = writeln!(lines, "{line}");
    Ok(replace(&path, &lines)?)
}

/// Writes a file so that it is either complete or absent.
fn replace(path: &Path, text: &str) -> Result<(), StorageError> {
    // Task names may hold slashes.
    path.parent().expect("results lie in a directory").create_dir_all()?;
    path.write_atomic(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::evaluator::TaskEvaluator;
    use super::super::spec::{Evaluator, JsonLogger, PyLoggingLogger, TensorBoardLogger};
    use super::super::task::{EvalTask, Example, Outputs};
    use super::*;
    use gimlet_gin::Ref;
    use gimlet_metrics::{Accuracy, AllMatch, MetricFn, ModelOutput, SequenceAccuracy};

    fn example(input: &str, target: &str) -> Example {
        let features = json!({"inputs_pretokenized": input, "inputs": (0..40).collect::<Vec<_>>()});
        let Value::Object(features) = features else { unreachable!("an object") };
        Example { features, target: target.to_string() }
    }

    fn runner(write_n_results: Option<usize>, log_dir: &Path) -> TaskEvaluator {
        let loggers = [
            Logger::PyLogging(PyLoggingLogger),
            Logger::TensorBoard(TensorBoardLogger),
            Logger::Json(JsonLogger { write_n_results }),
        ];
        let logger_cls = loggers.map(Ref).to_vec();
        Evaluator { logger_cls, ..Evaluator::default() }.build(Some(log_dir), Some(0))
    }

    fn evaluate(
        runner: &mut TaskEvaluator,
        metric_fns: &[MetricFn],
        step: i64,
        predictions: &[&str],
    ) -> Result<BTreeMap<String, f64>, EvalError> {
        let task = EvalTask {
            name: "sums",
            metric_fns: &metric_fns.iter().cloned().map(Ref).collect::<Vec<_>>(),
            postprocess: &|text, _, _| {
                Ok(text.trim().parse::<i64>().map_or(json!(-1), Value::from))
            },
            printed: &|value, _| value.to_string(),
        };
        let texts = predictions.iter().map(|text| text.to_string()).collect();
        let mut evaluation = runner.begin(task, step);
        assert!(!evaluation.needs(ModelOutput::Score), "no metric needs scores");
        let examples = [example("1 + 1", "2"), example("2 + 2", "4")];
        evaluation.add(&examples, Outputs { texts: Some(texts), scores: None })?;
        evaluation.finish()
    }

    fn scratch() -> (tempfile::TempDir, Path) {
        let dir = tempfile::tempdir().unwrap();
        let path = Path::try_from(dir.path()).unwrap();
        (dir, path)
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = path.read_to_string().unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn results_are_logged_as_seqio_lays_them_out() {
        let (_scratch, dir) = scratch();
        let mut runner = runner(None, &dir);
        let metrics = [MetricFn::Accuracy(Accuracy), MetricFn::AllMatch(AllMatch)];
        let found = evaluate(&mut runner, &metrics, 100, &["2", " five"]).unwrap();
        assert_eq!(found["accuracy"], 50.0);
        let metrics = lines(&dir.join("sums-metrics.jsonl"));
        assert_eq!(metrics, [json!({"step": 100, "accuracy": 50.0, "exact_match": 0.0})]);
        let examples = lines(&dir.join("sums-000100.jsonl"));
        let summary =
            "ndarray(shape=(40,), dtype=int32); summary: 0, 1, 2, 3, 4 ... 35, 36, 37, 38, 39";
        let expected = json!({
            "input": {"inputs_pretokenized": "2 + 2", "inputs": summary},
            "target": 4, "output": " five", "prediction": -1,
        });
        assert_eq!(examples[1], expected);
        assert_eq!(dir.join("sums").list().unwrap().len(), 1);
        assert_eq!(dir.list().unwrap().len(), 3);
    }

    #[test]
    fn evaluating_a_step_again_replaces_its_line() {
        let (_scratch, dir) = scratch();
        let metrics = [MetricFn::Accuracy(Accuracy)];
        for (step, prediction) in [(100, "0"), (200, "0"), (200, "2")] {
            let mut runner = runner(Some(1), &dir);
            evaluate(&mut runner, &metrics, step, &[prediction, "4"]).unwrap();
        }
        let metrics = lines(&dir.join("sums-metrics.jsonl"));
        let expected =
            [json!({"step": 100, "accuracy": 50.0}), json!({"step": 200, "accuracy": 100.0})];
        assert_eq!(metrics, expected);
        assert_eq!(lines(&dir.join("sums-000200.jsonl")).len(), 1);
    }

    #[test]
    fn no_examples_are_written_when_none_are_wanted() {
        let (_scratch, dir) = scratch();
        let metrics = [MetricFn::Accuracy(Accuracy)];
        evaluate(&mut runner(Some(0), &dir), &metrics, 1, &["2", "4"]).unwrap();
        assert!(!dir.join("sums-000001.jsonl").exists().unwrap());
    }

    #[test]
    fn examples_come_in_batches_and_are_visible_when_all_are_written() {
        let (_scratch, dir) = scratch();
        let mut runner = runner(Some(3), &dir);
        let task = EvalTask {
            name: "sums",
            metric_fns: &[Ref(MetricFn::Accuracy(Accuracy))],
            postprocess: &|text, _, side| match text {
                "odd" => Err(format!("{side:?}")),
                _ => Ok(json!(text)),
            },
            printed: &|value, _| value.to_string(),
        };
        let batch = |text: &str| Outputs { texts: Some(vec![text.to_string(); 2]), scores: None };
        let examples = [example("a", "2"), example("b", "3")];
        let mut evaluation = runner.begin(task, 7);
        evaluation.add(&examples, batch("2")).unwrap();
        let error = evaluation.add(&examples, batch("odd")).unwrap_err().to_string();
        assert_eq!(error, "task `sums`, postprocess_fn, example 3: Prediction");
        drop(evaluation);
        assert_eq!(dir.list().unwrap(), []);

        let mut evaluation = runner.begin(task, 7);
        evaluation.add(&examples, batch("2")).unwrap();
        evaluation.add(&examples, batch("3")).unwrap();
        assert!(!dir.join("sums-000007.jsonl").exists().unwrap());
        assert_eq!(evaluation.finish().unwrap()["accuracy"], 50.0);
        let outputs = lines(&dir.join("sums-000007.jsonl"));
        let outputs: Vec<_> =
            outputs.iter().map(|line| (&line["target"], &line["output"])).collect();
        let [two, three] = [json!("2"), json!("3")];
        assert_eq!(outputs, [(&two, &two), (&three, &two), (&two, &three)]);
    }

    #[test]
    fn mistakes_are_named() {
        let (_scratch, dir) = scratch();
        let mut runner = runner(None, &dir);
        let twice = [MetricFn::Accuracy(Accuracy), MetricFn::Accuracy(Accuracy)];
        let error = evaluate(&mut runner, &twice, 1, &["2", "4"]).unwrap_err().to_string();
        assert!(error.starts_with("duplicate metric key `accuracy` in task `sums`"), "{error}");
        let one = [MetricFn::SequenceAccuracy(SequenceAccuracy)];
        let error = evaluate(&mut runner, &one, 1, &["2"]).unwrap_err().to_string();
        assert_eq!(error, "the model gave 1 outputs for the 2 examples of task `sums`");
    }

    #[test]
    fn results_that_cannot_be_written_are_an_error_with_the_path() {
        let (_scratch, dir) = scratch();
        let file = dir.join("file");
        file.write_atomic(b"").unwrap();
        let one = [MetricFn::Accuracy(Accuracy)];
        let error = evaluate(&mut runner(None, &file), &one, 1, &["2", "4"]).unwrap_err();
        assert!(error.to_string().contains("file/sums-metrics.jsonl"), "{error}");
    }
}
