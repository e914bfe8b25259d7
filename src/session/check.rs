//! Mistakes in a root spec, and the checks that every root spec makes.

use crate::partition::Partitioner;
use crate::storage::Path;

/// A spec whose values contradict each other, or have no meaning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnfitSpec(
    /// The found and expected values, and the place to change.
    pub String,
);

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

/// Checks the sizes of a mesh.
///
/// # Errors
/// A size is 0.
pub fn check_partitions(partitioner: &Partitioner) -> Result<(), UnfitSpec> {
    let Partitioner::Pjit(pjit) = partitioner;
    let name = match &pjit.model_parallel_submesh {
        Some(_) => "product of partitioning.PjitPartitioner.model_parallel_submesh",
        None => "size of the model axis, partitioning.PjitPartitioner.num_partitions,",
    };
    match pjit.requested_partitions() {
        Some(0) => unfit(format!("the {name} is 0, expected at least 1")),
        _ => Ok(()),
    }
}
