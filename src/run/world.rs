//! The place of this process among those of a launcher, and the GPUs that it could use.

use std::env;

use anyhow::anyhow;

use crate::launch::{DistributedArgs, World, num_present, num_visible};

use super::failure::Failure;
use super::start::is_for_gpus;

/// The variable that has processes on GPUs exchange tensors by Gloo.
const BACKEND: &str = "GIMLET_BACKEND";

/// The way in which processes exchange tensors of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backend {
    /// From GPU to GPU; each process has one of its own.
    Nccl,
    /// Through the host's memory; several processes may share a GPU.
    Gloo,
}

/// Returns the way in which processes exchange tensors of GPUs.
///
/// # Errors
/// The user names one that does not exist.
pub(super) fn backend() -> Result<Backend, Failure> {
    match env::var(BACKEND).as_deref() {
        Err(_) | Ok("" | "nccl") => Ok(Backend::Nccl),
        Ok("gloo") => Ok(Backend::Gloo),
        Ok(other) => {
            Err(Failure::Usage(anyhow!("{BACKEND} is `{other}`, expected `nccl` or `gloo`")))
        }
    }
}

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
