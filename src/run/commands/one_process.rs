//! Refuses several processes while they cannot work together.

use std::env;

use anyhow::anyhow;

use crate::launch::{DistributedArgs, World};
use crate::run::failure::Failure;

/// Refuses several processes, each of which would train alone and write into the same MODEL_DIR.
///
/// # Errors
/// A launcher or flags that speak of several processes.
pub fn one_process(flags: &DistributedArgs) -> Result<(), Failure> {
    let world = World::find(&|name| env::var(name).ok(), flags).map_err(Failure::usage)?;
    match world.filter(|world| world.size > 1) {
        None => Ok(()),
        Some(world) => Err(Failure::Usage(anyhow!(
            "running over {} processes, as {} says, is not supported yet: start the command once, without \
             a launcher and without --process_count",
            world.size,
            world.launcher
        ))),
    }
}
