//! The functions of the user's Python that a task runs, imported before its examples are read: a module
//! that is missing should not end a job that has waited for days.

use super::cache::cache_step;
use super::dataset::DatasetConfig;
use super::error::{DataError, if_split};
use super::pipeline::mixture_tasks;
use super::postprocess::Postprocessor;
use super::preprocess::Preprocessor;
use super::provider::TaskProvider;
use super::source::Format;
use super::task::Task;
use gimlet_metrics::MetricFn;
use gimlet_python::{PythonFunction, PythonWorkers};

/// The functions of tasks that a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Functions {
    /// Those that make examples.
    OfExamples,
    /// Those of postprocessing and metrics too.
    OfMetrics,
}

/// Imports the Python functions of a data set's tasks.
///
/// # Errors
/// A module or function cannot be imported; the error is the one with which the first example, or the
/// first evaluation, would fail.
pub fn import_functions(
    config: &DatasetConfig,
    tasks: &dyn TaskProvider,
    functions: Functions,
) -> Result<(), DataError> {
    let mut imported: Vec<PythonFunction> = Vec::new();
    for task in mixture_tasks(&config.mixture_or_task_name, tasks)?.values() {
        for (function, workers) in functions_of(task, config, functions)? {
            if imported.contains(&function) {
                continue;
            }
            let found = function.request("find", []).and_then(|find| workers.call(&function, find));
            found.map_err(|error| DataError::Python {
                task: task.task_name().to_string(),
                place: function.part.to_string(),
                reason: error.to_string(),
            })?;
            imported.push(function);
        }
    }
    Ok(())
}

fn functions_of(
    task: &Task,
    config: &DatasetConfig,
    functions: Functions,
) -> Result<Vec<(PythonFunction, PythonWorkers)>, DataError> {
    let cached = cache_step(task)?.filter(|_| config.use_cached);
    let mut found = Vec::new();
    if cached.is_none() {
        let files = if_split(task.source.split(task.task_name(), &config.split))?;
        for file in files.into_iter().flat_map(|split| split.files) {
            if let Format::Python { source, .. } = file.format {
                found.push((source.function.clone(), source.workers.clone()));
            }
        }
    }
    let few_shot = task.source.few_shot().filter(|_| cached.is_none()).into_iter();
    let of_few_shot = few_shot
        .flat_map(|source| source.eval_preprocessors.iter().chain(&source.train_preprocessors));
    let first = cached.map_or(0, |step| step.index + 1);
    for step in of_few_shot.chain(&task.preprocessors[first..]) {
        if let Preprocessor::PythonPreprocessor(step) = step {
            found.push((step.function(), step.workers.clone()));
        }
    }
    if functions == Functions::OfMetrics {
        if let Some(Postprocessor::PythonPostprocessor(fn_)) = &task.postprocess_fn {
            found.push((fn_.function(), fn_.workers.clone()));
        }
        for metric in &task.metric_fns {
            if let MetricFn::PythonMetric(metric) = &metric.0 {
                found.push((metric.function(), metric.workers.clone()));
            }
        }
    }
    Ok(found)
}
