//! The examples of an evaluation, in a training run or in a run that only evaluates.

use std::collections::BTreeMap;

use crate::data::{DatasetConfig, TaskProvider};
use crate::models::Model;

use super::error::SessionError;
use super::vocabularies::check_vocabularies;

/// Task to metric to value.
pub type MetricsByTask = BTreeMap<String, BTreeMap<String, f64>>;

/// Held-out examples, and the model to evaluate on them.
#[derive(Clone, Copy)]
pub struct HeldOut<'a> {
    /// The model.
    pub model: &'a Model,
    /// Selects the examples.
    pub config: &'a DatasetConfig,
    /// Finds tasks by name.
    pub tasks: &'a dyn TaskProvider,
}

impl<'a> HeldOut<'a> {
    /// Checks that the examples use the model's own vocabularies.
    ///
    /// # Errors
    /// Vocabularies differ, or a task is not known.
    pub fn new(
        model: &'a Model,
        config: &'a DatasetConfig,
        tasks: &'a dyn TaskProvider,
    ) -> Result<Self, SessionError> {
        check_vocabularies(model, config, tasks)?;
        Ok(Self { model, config, tasks })
    }
}
