//! Errors of a data set that would keep a run from starting, found without reading data.

use crate::data::{DataError, DatasetConfig, TaskProvider, check_split};
use crate::models::Model;
use crate::telemetry;

use super::error::SessionError;
use super::vocabularies::check_vocabularies;

/// Reports the error of a data set; a split that none of its tasks has is the inner error. For data
/// that cannot be reached, a warning is printed: they may exist on the machine of the run.
///
/// # Errors
/// A task or vocabulary is missing, or a vocabulary does not fit the model.
pub fn foresee_data(
    model: &Model,
    config: &DatasetConfig,
    tasks: &dyn TaskProvider,
) -> Result<Result<(), DataError>, SessionError> {
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
