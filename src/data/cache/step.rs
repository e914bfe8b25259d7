//! The step that divides a task's preprocessors into cached and uncached ones.

use crate::error::DataError;
use crate::preprocess::Preprocessor;
use crate::task::Task;

/// The place of `CacheDatasetPlaceholder` among a task's preprocessors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheStep {
    /// Its place among the preprocessors.
    pub index: usize,
    /// Whether the task may only be read from its cache.
    pub required: bool,
}

/// The cache step of a task, if it has one. SeqIO's rules: at most one, and no preprocessor before
/// it that depends on `task_feature_lengths`, which differ from run to run.
pub fn cache_step(task: &Task) -> Result<Option<CacheStep>, DataError> {
    let steps = task.preprocessors.iter().enumerate().filter_map(|(index, step)| match step {
        Preprocessor::CacheDatasetPlaceholder(placeholder) => {
            Some(CacheStep { index, required: placeholder.required })
        }
        _ => None,
    });
    let steps: Vec<CacheStep> = steps.collect();
    let name = task.task_name();
    if steps.len() > 1 {
        return Err(DataError::Config(format!(
            "task `{name}` has {} steps `CacheDatasetPlaceholder`, expected at most one",
            steps.len()
        )));
    }
    let Some(step) = steps.first().copied() else { return Ok(None) };
    let cached = &task.preprocessors[..step.index];
    match cached.iter().find(|preprocessor| preprocessor.needs_lengths()) {
        None => Ok(Some(step)),
        Some(early) => Err(DataError::Config(format!(
            "task `{name}`: `{}` depends on `task_feature_lengths`, which differ from run to run, \
             and stands before `CacheDatasetPlaceholder`; put it behind",
            early.name()
        ))),
    }
}
