//! Errors of a data set that would keep a run from starting, found without reading examples. A dry run and the start of
//! the run itself call the same functions, so that they say the same.

use crate::data::{
    DataError, DatasetConfig, DatasetOptions, Functions, TaskProvider, check_dataset, check_split,
    check_training_eval, import_functions, subtasks,
};
use crate::evaluation::Evaluator;
use crate::models::Model;
use crate::telemetry;

use super::error::SessionError;
use super::held_out_task::HeldOutTask;
use super::vocabularies::check_vocabularies;

/// The moment at which errors are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before the run, perhaps on another machine: data that are missing here may exist there, so that they
    /// are only warned of.
    DryRun,
    /// At the start of the run.
    Start,
}

/// The data of a model that a run reads.
#[derive(Clone, Copy)]
pub struct PreflightData<'a> {
    /// The model.
    pub model: &'a Model,
    /// Selects the examples.
    pub config: &'a DatasetConfig,
    /// Finds tasks by name.
    pub tasks: &'a dyn TaskProvider,
    /// The moment.
    pub moment: Moment,
}

impl PreflightData<'_> {
    /// Looks for the batches of a training.
    ///
    /// # Errors
    /// A task, split, cache, module of Python or vocabulary is missing, a vocabulary does not fit the model, or
    /// the lengths do not fit the task.
    pub fn batches(&self, options: &DatasetOptions) -> Result<(), SessionError> {
        self.with_split()??;
        self.imported(Functions::OfExamples)?;
        self.told(check_dataset(self.config, self.tasks, options))
    }

    /// Looks for the batches of an evaluation by the training loss. A split that none of the tasks has is the inner
    /// error.
    ///
    /// # Errors
    /// See [`PreflightData::batches`].
    pub fn held_out_batches(&self) -> Result<Result<(), DataError>, SessionError> {
        if let Err(unknown) = self.with_split()? {
            return Ok(Err(unknown));
        }
        self.imported(Functions::OfExamples)?;
        let options = DatasetOptions {
            converter: self.model.feature_converter(),
            known_ids: Some(self.model.known_ids()),
            ..DatasetOptions::default()
        };
        self.told(check_training_eval(self.config, self.tasks, &options)).map(Ok)
    }

    /// Looks for the examples of an evaluation by decoding. A split that none of the tasks has is the inner error.
    ///
    /// # Errors
    /// See [`PreflightData::batches`].
    pub fn predictions(
        &self,
        evaluator: &Evaluator,
    ) -> Result<Result<(), DataError>, SessionError> {
        if let Err(unknown) = self.with_split()? {
            return Ok(Err(unknown));
        }
        self.imported(Functions::OfMetrics)?;
        if self.config.task_feature_lengths.is_none() {
            // They are those of the longest example.
            return Ok(Ok(()));
        }
        for task in subtasks(&self.config.mixture_or_task_name, self.tasks)? {
            let cache = self.config.use_cached.then(|| self.tasks.caches());
            match HeldOutTask::laid_out(task, self.config, cache, evaluator, self.model) {
                Err(SessionError::Data(error)) => self.told(Err(error))?,
                laid_out => drop(laid_out?),
            }
        }
        Ok(Ok(()))
    }

    /// Imports the Python functions of the tasks.
    ///
    /// # Errors
    /// A module cannot be imported.
    pub fn imported(&self, functions: Functions) -> Result<(), SessionError> {
        self.told(import_functions(self.config, self.tasks, functions))
    }

    /// Compares the vocabularies with the model's, and looks for the split.
    fn with_split(&self) -> Result<Result<(), DataError>, SessionError> {
        check_vocabularies(self.model, self.config, self.tasks)?;
        match check_split(self.config, self.tasks) {
            Err(error @ DataError::UnknownSplit { .. }) => {
                Ok(Err(self.tasks.placed(&self.config.mixture_or_task_name, error)))
            }
            found => self.told(found).map(Ok),
        }
    }

    /// Returns an error of the data, or warns of it if the data may exist where the run is going to be.
    fn told(&self, found: Result<(), DataError>) -> Result<(), SessionError> {
        match found {
            Err(error) if self.moment == Moment::DryRun && error.is_of_machine() => {
                telemetry::warn_once(&error.to_string());
                Ok(())
            }
            found => {
                let name = &self.config.mixture_or_task_name;
                found.map_err(|error| self.tasks.placed(name, error).into())
            }
        }
    }
}
