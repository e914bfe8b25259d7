//! Errors that would keep an inference from starting, found for `--dry_run` and before anything is loaded.

use std::sync::Arc;

use crate::data::{
    DatasetConfig, FeatureConverter, Functions, Packing, Task, TaskProvider, check_split,
    import_functions, split_files_found, subtasks,
};
use crate::models::PredictionSpec;
use crate::session::check::{UnfitSpec, unfit};
use crate::session::error::SessionError;
use crate::session::held_out_task::prediction_converter;
use crate::session::vocabularies::check_vocabularies;
use crate::telemetry;

use super::spec::{Infer, Mode};

/// Looks for the data of an inference, and returns its tasks. Data that cannot be reached are the error of
/// their reading: they may exist on the machine of the run.
///
/// # Errors
/// A missing task, split, cache, module of Python, length or vocabulary, a vocabulary that differs from the model's or exceeds its
/// embedding, or a set of answers that cannot be decoded.
pub fn preflight(spec: &Infer, tasks: &dyn TaskProvider) -> Result<Vec<Arc<Task>>, SessionError> {
    let data = &spec.dataset_cfg;
    check_vocabularies(&spec.model, data, tasks)?;
    check_answers(spec)?;
    let name = &data.mixture_or_task_name;
    let of_mixture = subtasks(name, tasks).map_err(|error| tasks.placed(name, error))?;
    for task in &of_mixture {
        check_features(spec, task)?;
        converter(spec, task)?;
        let one =
            DatasetConfig { mixture_or_task_name: task.task_name().to_string(), ..data.clone() };
        import_functions(&one, tasks, Functions::OfExamples)?;
        let found = check_split(&one, tasks).and_then(|()| match data.use_cached {
            true => Ok(()),
            false => split_files_found(task, &data.split).map(drop),
        });
        match found {
            Err(error) if error.is_users() => return Err(error.into()),
            Err(error) => telemetry::warn_once(&error.to_string()),
            Ok(()) => {}
        }
    }
    Ok(of_mixture)
}

/// Returns the converter of a task's examples into the model's rows, one example each.
///
/// # Errors
/// A feature has no length.
pub fn converter(spec: &Infer, task: &Task) -> Result<FeatureConverter, SessionError> {
    let lengths = spec.dataset_cfg.task_feature_lengths.as_ref().expect("the check asks for them");
    match spec.mode {
        Mode::Predict | Mode::PredictWithAux => prediction_converter(task, lengths, &spec.model),
        Mode::Score => {
            let PredictionSpec { converter, bos_id, .. } = spec.model.prediction_spec()?;
            Ok(FeatureConverter::new(&converter, lengths, Packing::None, bos_id)?)
        }
    }
}

/// Checks that the answers of the model's set fit into its targets.
fn check_answers(spec: &Infer) -> Result<(), SessionError> {
    let predictions = spec.model.prediction_spec()?;
    let lengths = spec.dataset_cfg.task_feature_lengths.as_ref();
    let length = lengths.and_then(|lengths| lengths.get("targets")).copied();
    if spec.mode == Mode::Score || predictions.names_classes {
        return Ok(());
    }
    let prediction = predictions.prediction_in(&*predictions.vocabulary.build()?)?;
    match (prediction.constraint, length) {
        (Some(constraint), Some(length)) => Ok(constraint.check_room(length)?),
        _ => Ok(()),
    }
}

fn check_features(spec: &Infer, task: &Task) -> Result<(), UnfitSpec> {
    let name = &spec.output_vocab_feature_name;
    let known = || {
        let names: Vec<String> =
            task.output_features.keys().map(|name| format!("'{name}'")).collect();
        names.join(", ")
    };
    match spec.mode == Mode::Score || task.output_features.contains_key(name) {
        true => Ok(()),
        false => unfit(format!(
            "task `{}` has no feature '{name}' whose vocabulary would decode predictions; bind \
             infer.output_vocab_feature_name to one of {}",
            task.task_name(),
            known()
        )),
    }
}
