//! Mistakes in a root spec, and the checks that every root spec makes.

use crate::checkpoint::RestoreCheckpointConfig;
use crate::data::Lengths;
use crate::models::transformer::StackSpec;
use crate::models::{Model, NoFilling, NoPredictions};
use crate::nn::Dtype;
use crate::partition::{LocalDevice, Mesh, Partitioner};
use crate::storage::Path;

use super::error::SessionError;

/// A spec whose values contradict each other, or have no meaning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnfitSpec(
    /// The found and expected values, and the place to change.
    pub String,
);

impl From<NoPredictions> for UnfitSpec {
    fn from(error: NoPredictions) -> Self {
        Self(error.to_string())
    }
}

impl From<NoFilling> for UnfitSpec {
    fn from(error: NoFilling) -> Self {
        Self(error.to_string())
    }
}

/// Refuses a spec.
///
/// # Errors
/// The message.
pub fn unfit<T>(message: String) -> Result<T, UnfitSpec> {
    Err(UnfitSpec(message))
}

/// Checks a path; `binding` names it in the message.
///
/// # Errors
/// The path has no meaning.
pub fn check_path(binding: &str, path: &str) -> Result<(), UnfitSpec> {
    Path::parse(path).map(drop).map_err(|error| UnfitSpec(format!("{binding}: {error}")))
}

/// Whether the folder into which a run writes exists; `binding` names it in the message.
///
/// # Errors
/// It is a file, or cannot be reached.
pub fn folder_exists(binding: &str, path: &Path) -> Result<bool, SessionError> {
    match path.is_dir()? {
        true => Ok(true),
        false if path.exists()? => Err(SessionError::Unfit(format!(
            "{binding} `{path}` is a file, expected a folder or a name that is free"
        ))),
        false => Ok(false),
    }
}

/// Checks the sizes of a mesh.
///
/// # Errors
/// A size is 0.
pub fn check_partitions(partitioner: &Partitioner) -> Result<(), UnfitSpec> {
    let (pjit, name) = (partitioner.pjit(), format!("partitioning.{}", partitioner.name()));
    if partitioner.num_expert_partitions() == Some(0) {
        return unfit(format!("{name}.num_expert_partitions is 0, expected at least 1"));
    }
    let size = match &pjit.model_parallel_submesh {
        Some(_) => format!("product of {name}.model_parallel_submesh"),
        None => format!("size of the model axis, {name}.num_partitions,"),
    };
    match pjit.requested_partitions() {
        Some(0) => unfit(format!("the {size} is 0, expected at least 1")),
        _ => Ok(()),
    }
}

/// Checks that the processes of a mesh divide a model, and rows of these lengths.
///
/// # Errors
/// They do not: the parameter, and values that fit.
pub fn check_mesh(mesh: &Mesh, model: &Model, lengths: &[usize]) -> Result<(), UnfitSpec> {
    let parameter = model.dimensions().parameter("num_heads");
    let check_heads = |stack: &StackSpec| mesh.check_heads(stack.dims.num_heads, &parameter);
    let checked = mesh
        .check(&model.param_tree())
        .and_then(|()| model.transformer().stacks().try_for_each(check_heads))
        .and_then(|()| mesh.check_lengths(lengths));
    checked.map_err(|misfit| UnfitSpec(misfit.to_string()))
}

/// Checks that a device computes in the format of a model's activations.
///
/// # Errors
/// It does not: the parameter, and values that fit.
pub fn check_dtype(model: &Model, device: LocalDevice) -> Result<(), UnfitSpec> {
    match (model.dtype(), device) {
        (Dtype::Float16, LocalDevice::Cpu) => {
            let parameter = model.dimensions().parameter("dtype");
            unfit(format!(
                "{parameter} is 'float16', which only GPUs compute, and there is none: expected 'float32', or 'bfloat16', which \
                 needs no scale of the loss"
            ))
        }
        _ => Ok(()),
    }
}

/// Checks that inputs are no longer than the model reads.
///
/// # Errors
/// Their length, and the greatest one.
pub fn check_inputs(model: &Model, lengths: Option<&Lengths>) -> Result<(), UnfitSpec> {
    let most = model.predicts().and_then(|predictions| predictions.max_inputs);
    match lengths.and_then(|lengths| lengths.get("inputs")).zip(most) {
        Some((&length, most)) if length > most => unfit(format!(
            "`task_feature_lengths` has {length} for 'inputs', expected at most {most}, the positions of the model: bind \
             TASK_FEATURE_LENGTHS"
        )),
        _ => Ok(()),
    }
}

/// Checks that there is a checkpoint to read, and a seed where a checkpoint need not have everything. `command`
/// is the configurable with the parameter `fallback_init_rng`.
///
/// # Errors
/// The first mistake.
pub fn check_restore(
    config: &RestoreCheckpointConfig,
    seed: Option<i64>,
    command: &str,
) -> Result<(), UnfitSpec> {
    if config.path.0.is_empty() {
        return unfit(
            "utils.RestoreCheckpointConfig.path is [], expected a checkpoint, a folder of them or a \
             list: bind CHECKPOINT_PATH"
                .to_string(),
        );
    }
    for path in &config.path.0 {
        check_path("utils.RestoreCheckpointConfig.path (CHECKPOINT_PATH)", path)?;
    }
    match config.fallback_to_scratch && seed.is_none() {
        true => unfit(format!(
            "utils.RestoreCheckpointConfig.fallback_to_scratch initializes parameters, which needs a \
             seed: bind {command}.fallback_init_rng = 0"
        )),
        false => Ok(()),
    }
}
