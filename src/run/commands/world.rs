//! The processes of a run, as a launcher and flags say it.

use std::env;

use crate::launch::{DistributedArgs, World};
use crate::run::failure::Failure;

/// Returns the place of this process among those that a launcher has started.
///
/// # Errors
/// Launchers and flags that contradict themselves.
pub fn world(flags: &DistributedArgs) -> Result<Option<World>, Failure> {
    World::find(&|name| env::var(name).ok(), flags).map_err(Failure::usage)
}
