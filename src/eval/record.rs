//! The values with which a folder's results of a task or mixture were made, and the checkpoint of each step:
//! `eval.MIXTURE.json`, beside T5X's list of the checkpoints that are done.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::session::error::SessionError;
use crate::session::made_with::{MadeWith, Values};
use crate::storage::{Path, StorageError};

use super::spec::Evaluate;

/// The values that change no metric, or that the names of files and the checkpoints show.
const WITHOUT_EFFECT: [&str; 13] = [
    "evaluate.dataset_cfg.batch_size",
    "evaluate.dataset_cfg.mixture_or_task_name",
    "evaluate.dataset_cfg.module",
    "evaluate.dataset_cfg.num_prefetch_threads",
    "evaluate.dataset_cfg.use_memory_cache",
    "evaluate.inference_evaluator_cls.logger_cls",
    "evaluate.model.optimizer_def",
    "evaluate.output_dir",
    "evaluate.partitioner",
    "evaluate.restore_checkpoint_cfg.mode",
    "evaluate.restore_checkpoint_cfg.nearest_steps",
    "evaluate.restore_checkpoint_cfg.path",
    "evaluate.summarize_config_fn",
];

/// The results of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvalRecord {
    /// The values that decide the metrics.
    made_with: MadeWith,
    /// The checkpoint whose results are kept, by step.
    checkpoints: BTreeMap<u64, String>,
}

impl EvalRecord {
    /// Returns the record for an evaluation, with the checkpoints of earlier ones of the same values. `named` are all
    /// checkpoints that the evaluation names, and `steps` those that are left, by step.
    ///
    /// # Errors
    /// The folder holds results of other values, or of another checkpoint of one of these steps. Results that an earlier
    /// version or T5X made do not say with what.
    pub fn of(
        spec: &Evaluate,
        values: &Values,
        named: &BTreeSet<String>,
        steps: &[(u64, &Path)],
    ) -> Result<Self, SessionError> {
        let made_with = MadeWith::new(values, &WITHOUT_EFFECT);
        let (folder, file) = (&spec.output_dir, file(spec)?);
        let earlier: Option<Self> = match file.read() {
            Err(error) if error.is_not_found() => None,
            text => serde_json::from_slice(&text?).ok(),
        };
        let Some(earlier) = earlier else {
            return Ok(Self { made_with, checkpoints: BTreeMap::new() });
        };
        let name = &spec.dataset_cfg.mixture_or_task_name;
        let remedy = "set EVAL_OUTPUT_DIR to another folder";
        earlier.made_with.check(
            &made_with,
            &format!("`{folder}` holds results of {name} of"),
            remedy,
        )?;
        for (step, path) in steps {
            let other = earlier.checkpoints.get(step);
            if let Some(other) = other.filter(|other| !named.contains(*other)) {
                return Err(SessionError::Unfit(format!(
                    "`{folder}` holds results of {name} with `{other}`, which those of `{path}` would replace, since \
                     results are kept by step, and both are of step {step}: {remedy}"
                )));
            }
        }
        Ok(Self { made_with, ..earlier })
    }

    /// Adds a checkpoint whose results are written from now on.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn add(&mut self, file: &Path, step: u64, checkpoint: &Path) -> Result<(), StorageError> {
        self.checkpoints.insert(step, checkpoint.to_string());
        // Names of tasks may hold slashes.
        file.parent().expect("it lies in a folder").create_dir_all()?;
        file.write_atomic(&serde_json::to_vec_pretty(self).expect("texts have a JSON form"))
    }
}

/// Returns the file of the record.
///
/// # Errors
/// The folder has no valid name.
pub fn file(spec: &Evaluate) -> Result<Path, StorageError> {
    let name = &spec.dataset_cfg.mixture_or_task_name;
    // Mesh TensorFlow evaluates predictions and losses into one folder.
    let kind = if spec.inference_evaluator_cls.is_some() { "" } else { ".losses" };
    Ok(Path::parse(&spec.output_dir)?.join(&format!("eval.{name}{kind}.json")))
}
