//! The checks of a precompilation.

use crate::data::{DatasetOptions, Lengths, TaskProvider};
use crate::models::memory::{Estimate, StepShape};
use crate::partition::{LocalDevice, Mesh, Process};
use crate::session::check::{UnfitSpec, check_mesh, check_partitions, unfit};
use crate::session::error::SessionError;
use crate::session::preflight::{Moment, PreflightData};
use crate::session::step_memory::step_estimate;

use super::spec::Precompile;

/// Finds the first mistake that is visible in the spec alone.
///
/// # Errors
/// The first mistake.
pub fn check(spec: &Precompile) -> Result<(), UnfitSpec> {
    spec.model.check().map_err(UnfitSpec)?;
    spec.model.check_training().map_err(UnfitSpec)?;
    if spec.train_dataset_cfg.batch_size == 0 {
        return unfit("train/utils.DatasetConfig.batch_size is 0, expected at least 1".to_string());
    }
    shape(spec)?;
    check_partitions(&spec.partitioner)
}

/// Returns the mesh of the processes of the training.
///
/// # Errors
/// They cannot divide the model or a batch.
pub fn mesh(spec: &Precompile, process: Process, device: LocalDevice) -> Result<Mesh, UnfitSpec> {
    let unfit = |misfit: crate::partition::Misfit| UnfitSpec(misfit.to_string());
    let mesh = Mesh::new(&spec.partitioner, process, device).map_err(unfit)?;
    let StepShape { rows, lengths, .. } = shape(spec)?;
    check_mesh(&mesh, &spec.model, &lengths)?;
    let count = mesh.data().size;
    match rows.is_multiple_of(count) {
        true => Ok(mesh),
        false => Err(UnfitSpec(format!(
            "a batch of {rows} rows cannot be divided among {count} processes: set BATCH_SIZE to a multiple of \
             {count}"
        ))),
    }
}

/// Looks for the task and its vocabularies.
///
/// # Errors
/// A missing task, split or vocabulary, a vocabulary that differs from the model's or exceeds its embedding.
pub fn preflight(spec: &Precompile, tasks: &dyn TaskProvider) -> Result<(), SessionError> {
    let (model, config) = (&spec.model, &spec.train_dataset_cfg);
    let options = DatasetOptions {
        converter: model.feature_converter(),
        known_ids: Some(model.known_ids()),
        ..DatasetOptions::default()
    };
    PreflightData { model, config, tasks, moment: Moment::DryRun }.batches(&options)
}

/// Estimates the memory of a step on one device.
///
/// # Errors
/// A length is not bound, or the optimizer's rules do not cover a parameter.
pub fn step_memory(spec: &Precompile, mesh: &Mesh) -> Result<Estimate, UnfitSpec> {
    step_estimate(&spec.model, &shape(spec)?, 1, mesh)
}

/// Returns the shape of a batch.
fn shape(spec: &Precompile) -> Result<StepShape, UnfitSpec> {
    let none = Lengths::new();
    let data = &spec.train_dataset_cfg;
    let lengths = data.task_feature_lengths.as_ref().unwrap_or(&none);
    let shape = spec.model.step_shape(data.batch_size, lengths);
    shape.map_err(|error| UnfitSpec(error.to_string()))
}
