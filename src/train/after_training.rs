//! The evaluation that ends a run: of its best model, if it saves one, else of the last. Its results are in `metrics.json`, as
//! t5-experiments writes them.

use std::collections::BTreeMap;
use std::mem;

use crate::gin::Json;
use crate::session::context::Context;
use crate::session::error::SessionError;
use crate::session::eval_context::EvalContext;
use crate::session::forward::Forward;
use crate::session::held_out::{HeldOut, MetricsByTask};
use crate::session::inference_evaluation::InferenceEvaluation;
use crate::session::state::TrainState;
use crate::session::training_evaluation::TrainingEvaluation;
use crate::session::unfinished::Unfinished;
use crate::storage::Path;
use crate::telemetry;

use super::checkpointing::Checkpoints;
use super::logs::Logs;
use super::run::Outcome;
use super::spec::Train;
use super::trainer_log::{TRAIN, of_model};

const FILE: &str = "metrics.json";
const INDENT: usize = 4;

/// The model that a run has trained.
pub struct Trained<'a, 'c> {
    /// The run.
    pub spec: &'a Train,
    /// Its environment.
    pub context: &'a Context<'a>,
    /// The network.
    pub forward: &'a Forward,
    /// Parameters and step.
    pub state: &'a mut TrainState,
    /// The checkpoints of the best model, if there is one.
    pub best: Option<&'a mut Checkpoints<'c>>,
    /// The metrics of the model that the run has logged last; none if it has made no step.
    pub metrics: BTreeMap<String, f64>,
    /// Its logs.
    pub logs: &'a mut Logs,
}

/// Returns the metrics of predictions, and those of held-out batches that are the model's, by task.
fn joined(measured: &MetricsByTask, mut metrics: MetricsByTask) -> MetricsByTask {
    for (task, measured) in measured {
        metrics.entry(task.clone()).or_default().extend(of_model(measured));
    }
    metrics
}

/// Returns the metrics of training in the file of an earlier process of the run, if there is one.
fn earlier(file: &Path) -> Option<BTreeMap<String, f64>> {
    let mut found: BTreeMap<String, BTreeMap<String, f64>> =
        serde_json::from_slice(&file.read().ok()?).ok()?;
    found.remove(TRAIN)
}

/// Returns the contents of the file: results by task, beside the metrics of training.
fn described(trained: Option<BTreeMap<String, f64>>, metrics: MetricsByTask) -> Json {
    let trained = trained.map(|metrics| (TRAIN.to_string(), metrics));
    let numbers = |metrics: BTreeMap<String, f64>| {
        metrics.into_iter().map(|(name, value)| (name, Json::Float(value))).collect()
    };
    let tasks = trained.into_iter().chain(metrics);
    Json::Object(tasks.map(|(task, metrics)| (task, Json::Object(numbers(metrics)))).collect())
}

impl Trained<'_, '_> {
    /// Evaluates the model if the run asks for it, and returns the outcome of the training.
    ///
    /// # Errors
    /// The best model cannot be read. Those of an evaluation.
    pub fn outcome(mut self, outcome: Outcome) -> Result<Outcome, SessionError> {
        let is_interrupted = matches!(outcome, Outcome::Interrupted { .. });
        if self.spec.after_training_dataset_cfg.is_none() || is_interrupted {
            return Ok(outcome);
        }
        if let Some(best) = self.best.take().filter(|best| best.saves(self.state.step)) {
            best.finish(Ok(()))?;
            best.restore_best(self.spec, self.state, &self.context.processes)?;
        }
        match self.evaluate() {
            Ok(()) => Ok(outcome),
            Err(Unfinished::Asked) => {
                telemetry::warn(&format!(
                    "asked to end: {FILE} of the trained model is not written"
                ));
                Ok(outcome)
            }
            Err(Unfinished::Failed(error)) => Err(error),
        }
    }

    /// Evaluates the model on `train.after_training_dataset_cfg`, and writes the results to `metrics.json`.
    ///
    /// # Errors
    /// Data cannot be read, a metric cannot be computed, the file cannot be written, or the process is asked to end.
    fn evaluate(&mut self) -> Result<(), Unfinished> {
        let Some(config) = &self.spec.after_training_dataset_cfg else { return Ok(()) };
        let Self { spec, context, forward, state, .. } = self;
        let params = forward.guarded(state.step, || state.params.whole())?;
        let model = EvalContext {
            forward,
            params: &params,
            step: state.step,
            processes: &context.processes,
            stop: context.stop,
        };
        telemetry::notice(&format!("evaluating the model of step {}", state.step));
        let held_out = HeldOut::new(&spec.model, config, context.tasks)?;
        let losses = TrainingEvaluation::new(held_out, None, None, None)?.evaluate(&model)?;
        let evaluator = &spec.inference_evaluator_cls.0;
        let predictions = match &spec.infer_eval_dataset_cfg {
            Some(_) => {
                InferenceEvaluation::new(held_out, evaluator, None, None)?.evaluate(&model)?
            }
            None => MetricsByTask::new(),
        };
        if context.processes.is_first() {
            let file = Path::parse(&spec.model_dir).map_err(SessionError::from)?.join(FILE);
            let metrics = joined(&losses, predictions);
            self.tell(&metrics);
            let trained = Some(mem::take(&mut self.metrics)).filter(|logged| !logged.is_empty());
            let trained = trained.or_else(|| earlier(&file));
            let text = described(trained, metrics).dumps_indented(INDENT);
            file.write_atomic(text.as_bytes()).map_err(SessionError::from)?;
        }
        Ok(())
    }

    fn tell(&mut self, metrics: &MetricsByTask) {
        let step = self.state.step;
        for (task, metrics) in metrics {
            let told = metrics.iter().map(|(name, value)| format!("{name} {value:.4}"));
            telemetry::notice(&format!("{task}: {}", told.collect::<Vec<_>>().join(", ")));
            if let Some(log) = self.logs.trainer() {
                log.evaluated(task, metrics, step);
            }
        }
    }
}
