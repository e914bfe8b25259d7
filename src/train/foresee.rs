//! Errors that would keep a run from starting, found for `--dry_run` in the same way as by the run,
//! but without libtorch and without reading data. Checkpoints are opened and vocabularies loaded;
//! of data files, only names are checked.

use crate::checkpoint::{RestoreCheckpointConfig, Shapes, Stored, list_steps};
use crate::data::{DataError, DatasetConfig, TaskProvider, check_split};
use crate::models::Model;
use crate::storage::Path;
use crate::telemetry;

use super::error::TrainError;
use super::evaluate::Evaluate;
use super::initial::initial;
use super::periods::Periods;
use super::spec::Train;
use super::vocabularies::check_vocabularies;

/// T5X's name of the step in a checkpoint.
const STEP: &str = "state/step";

/// Returns the step at which a training would start.
///
/// # Errors
/// The errors of the training: a missing checkpoint, task, split or vocabulary, a vocabulary that
/// differs from the model's or exceeds its embedding, a last step that has passed already.
pub fn foresee(spec: &Train, tasks: &dyn TaskProvider) -> Result<u64, TrainError> {
    let step = first_step(spec)?;
    Periods::of(spec, 0, step).validated(step)?;
    let held_out = [&spec.train_eval_dataset_cfg, &spec.infer_eval_dataset_cfg];
    for config in held_out.into_iter().flatten() {
        if let Err(unknown) = foresee_data(&spec.model, config, tasks)? {
            telemetry::notice_once(&format!("{unknown}: it is not evaluated"));
        }
    }
    foresee_data(&spec.model, &spec.train_dataset_cfg, tasks)??;
    Ok(step)
}

/// Does the same as [`foresee`] for an evaluation's data.
///
/// # Errors
/// See [`foresee`].
pub fn foresee_evaluation(spec: &Evaluate, tasks: &dyn TaskProvider) -> Result<(), TrainError> {
    let name = &spec.dataset_cfg.mixture_or_task_name;
    foresee_data(&spec.model, &spec.dataset_cfg, tasks)?
        .map_err(|unknown| nothing_to_evaluate(name, &unknown.to_string()))
}

/// Returns the error of an evaluation whose tasks have neither the split nor metrics.
pub fn nothing_to_evaluate(name: &str, reasons: &str) -> TrainError {
    TrainError::Unfit(format!(
        "nothing of '{name}' can be evaluated: {reasons}; bind utils.DatasetConfig.split to a split of a \
         task with metric_fns"
    ))
}

/// Returns the step of the newest checkpoint in MODEL_DIR, else of the configured one, else 0.
fn first_step(spec: &Train) -> Result<u64, TrainError> {
    let model_dir = Path::parse(&spec.model_dir)?;
    if model_dir.is_dir()?
        && let Some(step) = list_steps(&model_dir)?.last()
    {
        return Ok(*step);
    }
    let Some(restore) = &spec.checkpoint_cfg.restore else { return Ok(0) };
    Ok(match initial(restore)? {
        Some(stored) if takes_step(restore, &*stored) => stored.step()?,
        _ => 0,
    })
}

/// Whether a run that restores a checkpoint continues at its step: the step exists, and no rule
/// drops it.
fn takes_step(restore: &RestoreCheckpointConfig, stored: &dyn Stored) -> bool {
    let found = stored.shapes();
    let Some(shape) = found.get(STEP) else { return false };
    let needs = Shapes::from([(STEP.to_string(), shape.clone())]);
    let rest: Vec<String> = found.keys().cloned().collect();
    // An invalid plan is reported by the run, which knows the model's needs.
    restore.plan_part(stored, &needs, &rest).map_or(true, |plan| plan.sources.contains_key(STEP))
}

/// Reports the error of a data set; a split that none of its tasks has is the inner error. For data
/// that cannot be reached, a warning is printed: they may exist on the machine of the run.
fn foresee_data(
    model: &Model,
    config: &DatasetConfig,
    tasks: &dyn TaskProvider,
) -> Result<Result<(), DataError>, TrainError> {
    check_vocabularies(model, config, tasks)?;
    match check_split(config, tasks) {
        Err(error @ DataError::UnknownSplit { .. }) => {
            Ok(Err(tasks.placed(&config.mixture_or_task_name, error)))
        }
        Err(error) => {
            telemetry::warn_once(&error.to_string());
            Ok(Ok(()))
        }
        Ok(()) => Ok(Ok(())),
    }
}
