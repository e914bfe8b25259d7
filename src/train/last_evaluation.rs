//! The results of a run's last evaluation, in a file beside its checkpoints.
//!
//! An evaluation follows the save of its step. A run that was killed in between evaluates when it
//! continues. A run that was killed later must not evaluate twice: it shows its actions the results
//! again, since the checkpoint holds their histories from before.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::session::error::SessionError;
use crate::session::held_out::MetricsByTask;
use crate::storage::{Path, StorageError};

use super::measured::unmeasured;

const FILE: &str = "evaluated.json";

/// The results of an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastEvaluation {
    /// The step it followed.
    pub step: u64,
    /// By task, the training metrics of held-out batches.
    #[serde(rename = "train_eval", deserialize_with = "metrics")]
    pub training: MetricsByTask,
    /// By task, the metrics of predictions.
    #[serde(rename = "infer_eval", deserialize_with = "metrics")]
    pub inference: MetricsByTask,
}

impl LastEvaluation {
    /// Returns a metric that `watcher` asks for: of predictions, else of held-out batches, of the first task that has it; its name
    /// may follow that of a task, `task/metric`.
    ///
    /// # Errors
    /// It was not measured.
    pub fn metric(&self, watcher: &str, wanted: &str) -> Result<f64, SessionError> {
        let by_task = || self.inference.iter().chain(&self.training);
        let of_task = |(task, metrics): (&String, &BTreeMap<String, f64>)| {
            let own = wanted.strip_prefix(&**task).and_then(|rest| rest.strip_prefix('/'));
            metrics.get(own.unwrap_or(wanted)).copied()
        };
        by_task().find_map(of_task).ok_or_else(|| {
            let names = |(task, metrics): (&String, &BTreeMap<String, f64>)| {
                metrics.keys().map(|name| format!("{task}/{name}")).collect::<Vec<_>>()
            };
            let measured: Vec<String> = by_task().flat_map(names).collect();
            SessionError::Unfit(unmeasured(watcher, wanted, &measured))
        })
    }

    /// Writes the results to the file.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, model_dir: &Path) -> Result<(), StorageError> {
        let text = serde_json::to_vec_pretty(self).expect("plain structs have a JSON form");
        model_dir.join(FILE).write_atomic(&text)
    }

    /// Reads the last results; `None` if there is no readable file.
    ///
    /// # Errors
    /// The disk failed.
    pub fn read(model_dir: &Path) -> Result<Option<Self>, StorageError> {
        match model_dir.join(FILE).read() {
            Ok(text) => Ok(serde_json::from_slice(&text).ok()),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Reads metrics; JSON has `null` for NaN and infinite values.
fn metrics<'de, D: Deserializer<'de>>(from: D) -> Result<MetricsByTask, D::Error> {
    let tasks = BTreeMap::<String, BTreeMap<String, Option<f64>>>::deserialize(from)?;
    let number = |(name, value): (String, Option<f64>)| (name, value.unwrap_or(f64::NAN));
    let task = |(name, metrics): (String, BTreeMap<_, _>)| {
        (name, metrics.into_iter().map(number).collect())
    };
    Ok(tasks.into_iter().map(task).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_back_with_what_is_no_number() {
        let dir = tempfile::tempdir().unwrap();
        let model_dir = Path::try_from(dir.path()).unwrap();
        assert_eq!(LastEvaluation::read(&model_dir).unwrap(), None);
        let metrics = |value| {
            BTreeMap::from([("task".to_string(), BTreeMap::from([("loss".to_string(), value)]))])
        };
        let (training, inference) = (metrics(0.1), metrics(f64::NAN));
        let written = LastEvaluation { step: 7, training, inference };
        written.write(&model_dir).unwrap();
        let read = LastEvaluation::read(&model_dir).unwrap().unwrap();
        assert_eq!((read.step, read.training), (7, metrics(0.1)));
        assert!(read.inference["task"]["loss"].is_nan());
    }
}
