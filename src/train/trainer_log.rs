//! The logs of t5-experiments' Trainer, in MODEL_DIR itself: TensorBoard scalars by iteration and by sample, and a text.
//! Iterations count from 0. Source: t5-experiments `lm_experiments_tools/trainer.py`.

use std::collections::BTreeMap;

use chrono::Local;

use crate::storage::{GrowingFile, Path, StorageError, Unsent};
use crate::telemetry::{self, EventWriter};

use super::last_evaluation::LastEvaluation;

/// The metrics of a model, which have the Trainer's tags, in the order of its lines. Only BERTs have others than the loss.
const OF_MODEL: [&str; 5] = ["accuracy_mlm", "loss", "loss_mlm", "loss_nsp", "accuracy_nsp"];

/// The names of metrics of training, and of validations.
pub const TRAIN: &str = "train";
pub const VALID: &str = "valid";

/// Returns those of some metrics that are the model's.
pub fn of_model(metrics: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    found_in(metrics).collect()
}

fn found_in(metrics: &BTreeMap<String, f64>) -> impl Iterator<Item = (String, f64)> {
    let found = OF_MODEL.iter().filter_map(|name| metrics.get_key_value(*name));
    found.map(|(name, value)| (name.clone(), *value))
}

/// Returns the losses of held-out batches, and the metrics of predictions.
pub fn validated(evaluation: &LastEvaluation) -> impl Iterator<Item = (String, f64)> {
    let predicted = evaluation.inference.values().flatten();
    let predicted = predicted.map(|(name, value)| (name.clone(), *value));
    evaluation.training.values().flat_map(found_in).chain(predicted)
}

/// The writers of these logs.
pub struct TrainerLog {
    model_dir: Path,
    events: EventWriter,
    lines: Option<GrowingFile>,
    /// The number of the last iteration.
    last: u64,
    /// The rows of a batch.
    batch_size: u64,
}

impl TrainerLog {
    /// Begins the logs of a run that ends with the iteration `last`.
    pub fn new(model_dir: &Path, last: u64, batch_size: u64) -> Self {
        let name = format!("{}_rank_0.log", Local::now().format("%Y.%m.%d_%H:%M:%S"));
        let mut log = Self {
            model_dir: model_dir.clone(),
            // Iterations and samples are steps of the same file, of which none ends another.
            events: EventWriter::new(model_dir.clone(), None),
            lines: None,
            last,
            batch_size,
        };
        let file = model_dir.join(&name).grow();
        log.lines = file.map_err(|error| log.warn(&error)).ok();
        log
    }

    /// Returns logged values that a store may not have yet.
    pub fn unsent(&self) -> impl Iterator<Item = Unsent> {
        [self.events.unsent(), self.lines.as_ref().and_then(GrowingFile::unsent)]
            .into_iter()
            .flatten()
    }

    /// Writes the metrics of the steps before `step`, and the learning rate of the next one, if it is known.
    pub fn window(&mut self, scalars: &BTreeMap<String, f64>, next_rate: Option<f32>, step: u64) {
        let Some(iteration) = step.checked_sub(1) else { return };
        for (name, value) in found_in(scalars) {
            self.scalar((&name, "/train"), value, iteration);
            self.line(&format!("step: {iteration}/{} {name}: {value:.4}", self.last));
        }
        if let Some(norm) = scalars.get("weight_gradient_norm") {
            self.scalar(("gradients_global_norm", ""), *norm, iteration);
        }
        if let Some(rate) = scalars.get("timing/steps_per_second") {
            self.scalar(("time", "/per_iter"), rate.recip(), iteration);
        }
        if let Some(rate) = next_rate {
            self.scalar(("lr", "/param_group_0"), rate.into(), iteration);
        }
    }

    /// Says that a validation begins.
    pub fn validates(&mut self, step: u64) {
        self.line(&format!("start validation at step {}", step.saturating_sub(1)));
    }

    /// Writes the metrics of an evaluation after training.
    pub fn evaluated(&mut self, task: &str, metrics: &BTreeMap<String, f64>, step: u64) {
        for (name, value) in metrics {
            self.line(&format!("Validation on {task} {name}: {value:.4}"));
            self.scalar((name, &format!("/{task}")), *value, step.saturating_sub(1));
        }
    }

    /// Writes the losses of held-out batches, and the metrics of predictions.
    pub fn validation(&mut self, evaluation: &LastEvaluation) {
        for (name, value) in validated(evaluation) {
            self.line(&format!("Validation on valid {name}: {value:.4}"));
            self.scalar((&name, "/valid"), value, evaluation.step.saturating_sub(1));
        }
    }

    /// Writes that a metric is the best so far, or for how many validations it is not.
    pub fn best(&mut self, metric: &str, value: f64, without: u64, step: u64) {
        self.line(&match without {
            0 => format!("The best {metric} metric was improved to: {value}"),
            count => format!("Metric was not improved for the last #{count} evaluations"),
        });
        self.scalar(("patience", ""), without as f64, step.saturating_sub(1));
    }

    /// Says that a checkpoint of this name was saved.
    pub fn saved(&mut self, file: &Path) {
        self.line(&format!("Model was saved to {file}"));
    }

    /// Says that validations end the run.
    pub fn stops(&mut self) {
        self.line("Early stopping triggered: stopping training...");
    }

    /// Says that the run is done.
    pub fn done(&mut self) {
        self.line("Done!");
    }

    fn scalar(&mut self, (tag, end): (&str, &str), value: f64, iteration: u64) {
        let samples = iteration * self.batch_size;
        for (unit, at) in [("iterations", iteration), ("samples", samples)] {
            self.events.scalars(at as i64, [(format!("{tag}/{unit}{end}"), value)]);
        }
    }

    fn line(&mut self, text: &str) {
        let time = Local::now().format("%Y-%m-%d %H:%M:%S,%3f");
        let line = format!("{time} - lm_experiments_tools.trainer - INFO - {text}\n");
        if let Some(Err(error)) = self.lines.as_mut().map(|lines| lines.append(line.as_bytes())) {
            self.lines = None;
            self.warn(&error);
        }
    }

    fn warn(&self, error: &StorageError) {
        telemetry::warn_once(&format!("the log in {} ends here: {error}", self.model_dir));
    }
}
