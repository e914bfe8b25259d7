//! The place of this process among those of a launcher, and the GPUs that it could use.

use std::env;

use crate::launch::{DistributedArgs, World, num_present, num_visible};

use super::failure::Failure;
use super::start::is_for_gpus;

/// Returns the place of this process among those that a launcher has started.
///
/// # Errors
/// Launchers and flags that contradict themselves.
pub(super) fn world(flags: &DistributedArgs) -> Result<Option<World>, Failure> {
    World::find(&|name| env::var(name).ok(), flags).map_err(Failure::usage)
}

/// Returns the number of GPUs that this build can use.
pub(super) fn visible_gpus() -> usize {
    let variable = |name: &str| env::var(name).ok();
    if is_for_gpus() { num_visible(&variable, num_present) } else { 0 }
}
