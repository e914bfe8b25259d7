//! Refuses several processes while they cannot work together.

use std::env;
use std::fmt::Display;

use anyhow::anyhow;

use crate::launch::{DistributedArgs, World};
use crate::run::failure::Failure;

/// Whether several processes can train one model together.
pub const SEVERAL_WORK: bool = false;

/// Returns the place of this process among several.
///
/// # Errors
/// Launchers and flags that contradict themselves, or speak of several processes while these cannot work.
pub fn world(flags: &DistributedArgs) -> Result<Option<World>, Failure> {
    let world = World::find(&|name| env::var(name).ok(), flags).map_err(Failure::usage)?;
    if let Some(world) = &world {
        check_size(world.size, &world.launcher)?;
    }
    Ok(world)
}

/// Refuses several processes, each of which would train alone and write into the same MODEL_DIR.
///
/// # Errors
/// A number of processes that cannot work together.
pub fn check_size(size: usize, said_by: &dyn Display) -> Result<(), Failure> {
    if size <= 1 || SEVERAL_WORK {
        return Ok(());
    }
    Err(Failure::Usage(anyhow!(
        "running over {size} processes, as {said_by} says, is not supported yet: start the command once, \
         without a launcher and without --process_count"
    )))
}
