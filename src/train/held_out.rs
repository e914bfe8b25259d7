//! What an evaluation reads, whoever asks for it: a run in training, or one that only evaluates.

use crate::data::{DatasetConfig, TaskProvider};
use crate::models::Model;

use super::error::TrainError;
use super::vocabularies::check_vocabularies;

/// Held-out examples, and the model that is to meet them.
#[derive(Clone, Copy)]
pub struct HeldOut<'a> {
    /// The model.
    pub model: &'a Model,
    /// Which examples.
    pub config: &'a DatasetConfig,
    /// Finds tasks by name.
    pub tasks: &'a dyn TaskProvider,
}

impl<'a> HeldOut<'a> {
    /// Examples in the model's own vocabularies.
    ///
    /// # Errors
    /// Vocabularies differ, or a task is not known.
    pub fn new(
        model: &'a Model,
        config: &'a DatasetConfig,
        tasks: &'a dyn TaskProvider,
    ) -> Result<Self, TrainError> {
        check_vocabularies(model, config, tasks)?;
        Ok(Self { model, config, tasks })
    }
}
