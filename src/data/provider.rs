//! Tasks and mixtures by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cache::Caches;
use super::error::DataError;
use super::mixture::Mixture;
use super::task::Task;

/// The task or mixture that a name in `mixture_or_task_name` refers to.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskOrMixture {
    /// One task.
    Task(Arc<Task>),
    /// Several tasks at rates.
    Mixture(Arc<Mixture>),
}

/// Finds tasks and mixtures by name, and their caches; the run implements it over its task files.
pub trait TaskProvider {
    /// The folders that are searched for the caches of its tasks.
    fn caches(&self) -> Caches {
        Caches::default()
    }

    /// The task or mixture of that name, or [`DataError::UnknownTask`] with the nearest names.
    fn get(&self, name: &str) -> Result<TaskOrMixture, DataError>;

    /// Adds the place to an error of the tasks of a name, if a mixture is the mistake.
    fn placed(&self, _name: &str, error: DataError) -> DataError {
        error
    }
}

impl TaskProvider for BTreeMap<String, TaskOrMixture> {
    fn get(&self, name: &str) -> Result<TaskOrMixture, DataError> {
        BTreeMap::get(self, name).cloned().ok_or_else(|| DataError::UnknownTask {
            name: name.to_string(),
            suggestion: gimlet_gin::did_you_mean(name, self.keys().map(String::as_str)),
        })
    }
}
