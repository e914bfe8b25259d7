//! Errors that would keep an evaluation from starting, found by `--dry_run` and at the start of the evaluation itself.

use crate::data::{DataError, TaskProvider};
use crate::session::error::SessionError;
use crate::session::preflight::{Moment, PreflightData};

use super::spec::Evaluate;

/// Looks for the data of an evaluation.
///
/// # Errors
/// A missing task, split, cache, module of Python or vocabulary, a vocabulary that differs from the model's or exceeds
/// its embedding, lengths that do not fit the tasks.
pub fn preflight(
    spec: &Evaluate,
    tasks: &dyn TaskProvider,
    moment: Moment,
) -> Result<(), SessionError> {
    let config = &spec.dataset_cfg;
    let data = PreflightData { model: &spec.model, config, tasks, moment };
    let missing = |unknown: DataError| {
        nothing_to_evaluate(&config.mixture_or_task_name, &unknown.to_string())
    };
    if spec.training_evaluator_cls.is_some() {
        data.held_out_batches()?.map_err(missing)?;
    }
    match &spec.inference_evaluator_cls {
        Some(evaluator) => data.predictions(&evaluator.0)?.map_err(missing),
        None => Ok(()),
    }
}

/// Returns the error of an evaluation whose tasks have neither the split nor metrics.
pub fn nothing_to_evaluate(name: &str, reasons: &str) -> SessionError {
    SessionError::Unfit(format!(
        "nothing of '{name}' can be evaluated: {reasons}; bind utils.DatasetConfig.split to a split of a \
         task with metric_fns"
    ))
}
