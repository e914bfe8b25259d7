//! Errors that would keep an evaluation from starting, found for `--dry_run`.

use crate::data::TaskProvider;
use crate::session::error::SessionError;
use crate::session::foresee::foresee_data;

use super::spec::Evaluate;

/// Looks for the data of an evaluation.
///
/// # Errors
/// A missing task, split or vocabulary, a vocabulary that differs from the model's or exceeds its
/// embedding.
pub fn foresee(spec: &Evaluate, tasks: &dyn TaskProvider) -> Result<(), SessionError> {
    let name = &spec.dataset_cfg.mixture_or_task_name;
    foresee_data(&spec.model, &spec.dataset_cfg, tasks)?
        .map_err(|unknown| nothing_to_evaluate(name, &unknown.to_string()))
}

/// Returns the error of an evaluation whose tasks have neither the split nor metrics.
pub fn nothing_to_evaluate(name: &str, reasons: &str) -> SessionError {
    SessionError::Unfit(format!(
        "nothing of '{name}' can be evaluated: {reasons}; bind utils.DatasetConfig.split to a split of a \
         task with metric_fns"
    ))
}
