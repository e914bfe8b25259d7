//! The logs of a run beside checkpoints: TensorBoard scalars, the same as JSON lines, `config.gin`, `model-info.txt`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::session::context::Context;
use crate::session::describe::{describe, describe_model};
use crate::session::error::SessionError;
use crate::session::state_layout::state_variables;
use crate::session::training_evaluation::TRAINING_EVAL;
use crate::storage::{Path, Unsent};
use crate::telemetry::{EventWriter, MetricLines, MlflowRun, MlflowStatus, config_markdown};

use super::last_evaluation::LastEvaluation;
use super::run::Outcome;
use super::spec::Train;
use super::trainer_log::TrainerLog;
use super::window::Window;

/// The writers of a run's training metrics.
pub struct Logs(Option<Writers>);

struct Writers {
    events: EventWriter,
    lines: MetricLines,
    mlflow: Option<Arc<MlflowRun>>,
    trainer: Option<TrainerLog>,
}

impl Logs {
    /// Returns the logs of a process that writes none, since the first does.
    pub fn none() -> Self {
        Self(None)
    }

    /// Describes the run and this start in MODEL_DIR, and opens the training log there at `step`.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn start(
        spec: &Train,
        context: &Context<'_>,
        model_dir: &Path,
        step: u64,
    ) -> Result<Self, SessionError> {
        let state = state_variables(&spec.model);
        let state = state.map_err(|error| SessionError::Unfit(error.to_string()))?;
        let config_text = context.config_text;
        describe(model_dir, context, &describe_model(&spec.model, &state, &spec.partitioner))?;
        context.start.write(model_dir, step)?;
        let folder = model_dir.join("train");
        let mut events = EventWriter::new(folder.clone(), Some(step as i64));
        events.text(step as i64, "config", &config_markdown(config_text));
        let lines = MetricLines::new(folder.join("metrics.jsonl"), step as i64);
        let mlflow = spec.training_logger.as_ref().and_then(|logger| logger.0.run_of(model_dir));
        mlflow.iter().for_each(|mlflow| mlflow.describe(&context.params));
        let batch_size = spec.train_dataset_cfg.batch_size as u64;
        let trainer = spec.writes_trainer_log;
        let trainer = trainer.then(|| TrainerLog::new(model_dir, spec.total_steps, batch_size));
        Ok(Self(Some(Writers { events, lines, mlflow, trainer })))
    }

    /// Returns logged values that a store may not have yet.
    pub fn unsent(&self) -> impl Iterator<Item = Unsent> {
        self.0.iter().flat_map(|logs| {
            let own = [logs.events.unsent(), logs.lines.unsent()].into_iter().flatten();
            own.chain(logs.trainer.iter().flat_map(TrainerLog::unsent))
        })
    }

    /// The logs of t5-experiments' Trainer, if the run writes them and this process does.
    pub fn trainer(&mut self) -> Option<&mut TrainerLog> {
        self.0.as_mut()?.trainer.as_mut()
    }

    /// Writes one number.
    pub fn scalar(&mut self, tag: &str, value: f64, step: u64) {
        self.scalars([(tag.to_string(), value)].into(), step);
    }

    /// Writes the metrics of a window that ended at `step`, before a step of the learning rate `next_rate`, if the
    /// optimizer has none of its own.
    pub fn window(&mut self, window: &Window, next_rate: Option<f32>, step: u64) {
        let scalars = window.scalars();
        if let Some(trainer) = self.trainer() {
            trainer.window(&scalars, next_rate, step);
        }
        self.scalars(scalars, step);
    }

    /// Sends the metrics of an evaluation to the loggers that do not write them beside the batches.
    pub fn evaluation(&mut self, evaluation: &LastEvaluation) {
        if let Some(trainer) = self.trainer() {
            trainer.validation(evaluation);
        }
        let Some(mlflow) = self.0.as_ref().and_then(|logs| logs.mlflow.as_ref()) else { return };
        for (task, metrics) in &evaluation.training {
            mlflow.log(evaluation.step as i64, named(&format!("{TRAINING_EVAL}/{task}"), metrics));
        }
    }

    /// Tells the loggers how the run ended.
    pub fn end(&mut self, outcome: &Result<Outcome, SessionError>) {
        if let (Some(trainer), Ok(Outcome::Finished { .. } | Outcome::Stopped { .. })) =
            (self.trainer(), outcome)
        {
            trainer.done();
        }
        let Some(mlflow) = self.0.as_ref().and_then(|logs| logs.mlflow.as_ref()) else { return };
        mlflow.end_as(match outcome {
            Ok(Outcome::Interrupted { .. }) => MlflowStatus::Killed,
            Ok(Outcome::Finished { .. } | Outcome::Stopped { .. }) => MlflowStatus::Finished,
            Err(_) => MlflowStatus::Failed,
        });
    }

    fn scalars(&mut self, scalars: BTreeMap<String, f64>, step: u64) {
        let Some(Writers { events, lines, mlflow, .. }) = &mut self.0 else { return };
        events.scalars(step as i64, scalars.clone());
        if let Some(mlflow) = mlflow {
            mlflow.log(step as i64, named("train", &scalars));
        }
        lines.scalars(step as i64, scalars);
    }
}

/// Puts the name of a group before those of its metrics.
fn named(group: &str, metrics: &BTreeMap<String, f64>) -> Vec<(String, f64)> {
    metrics.iter().map(|(tag, value)| (format!("{group}/{tag}"), *value)).collect()
}
