//! The processes of a run, joined as the launcher says, and the end of one of them.

use std::env;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::anyhow;

use crate::launch::{DistributedArgs, StoreOwner, World};
use crate::nn::Axes;
use crate::nn::bridge::{Transport, cuda_devices, set_cuda_device};
use crate::partition::{Endpoint, LocalDevice, Mesh, Process, ProcessError, Processes};
use crate::run::failure::Failure;
use crate::run::root::Root;
use crate::run::world::{Backend, backend};
use crate::session::error::SessionError;

/// The variable with the seconds after which a process that does not answer counts as lost.
const TIMEOUT: &str = "GIMLET_PROCESS_TIMEOUT_SECS";

/// The default of [`TIMEOUT`]: that of PyTorch for NCCL.
const DEFAULT_TIMEOUT: u64 = 600;

/// Finds the other processes, if there are any, and chooses the device of this one.
///
/// # Errors
/// They do not come, `stop` asks this one to end, or there are fewer devices than processes.
pub fn join(
    world: Option<&World>,
    flags: &DistributedArgs,
    stop: &AtomicBool,
) -> Result<(Processes, LocalDevice), Failure> {
    let Some(world) = world else { return Ok((Processes::alone(), LocalDevice::available())) };
    let (device, transport) = match (cuda_devices().len(), backend()?) {
        (0, _) => (LocalDevice::Cpu, Transport::Gloo),
        (count, Backend::Gloo) => (LocalDevice::Cuda(world.local_rank % count), Transport::Gloo),
        (count, Backend::Nccl) => {
            let index = world.device(count).map_err(Failure::usage)?;
            (LocalDevice::Cuda(index), Transport::Nccl)
        }
    };
    if let LocalDevice::Cuda(index) = device
        && !set_cuda_device(index)
    {
        return Err(Failure::World(anyhow!("CUDA refuses device {index} of this host")));
    }
    let timeout = timeout()?;
    let endpoint = Endpoint {
        address: (world.master_addr.clone(), world.master_port),
        process: Process { rank: world.rank, count: world.size },
        store: world.store,
        attempt: match world.store {
            // Each attempt has a store of its own. Hosts may count restarts apart.
            StoreOwner::RankZero => "gimlet".to_string(),
            StoreOwner::Launcher => format!("gimlet-{}", world.restart_count),
        },
        is_local: world.is_on_one_host(),
        transport,
        patience: flags.initialization_timeout.map_or(timeout, Duration::from_secs),
        timeout,
    };
    Ok((Processes::join(&endpoint, stop).map_err(Failure::world)?, device))
}

/// Lays out the processes that run a spec.
///
/// # Errors
/// They cannot divide the work, or do not reach each other; the others are told.
pub fn laid_out(
    spec: &impl Root,
    processes: Processes,
    device: LocalDevice,
) -> Result<(Processes, Mesh, Axes), Failure> {
    let mesh = spec.mesh(processes.place(), device).map_err(Failure::usage);
    let axes = |mesh: &Mesh| processes.axes(mesh).map_err(Failure::world);
    match mesh.and_then(|mesh| Ok((axes(&mesh)?, mesh))) {
        Ok((axes, mesh)) => Ok((processes, mesh, axes)),
        Err(failure) => Err(end(processes, failure)),
    }
}

fn timeout() -> Result<Duration, Failure> {
    let Ok(text) = env::var(TIMEOUT) else { return Ok(Duration::from_secs(DEFAULT_TIMEOUT)) };
    match text.parse() {
        Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        _ => Err(Failure::Usage(anyhow!(
            "{TIMEOUT} is `{text}`, expected a number of seconds above 0"
        ))),
    }
}

/// Tells the other processes why this one ends.
pub fn end(processes: Processes, failure: Failure) -> Failure {
    if processes.is_alone() || matches!(failure, Failure::Interrupted(_) | Failure::Said) {
        return failure;
    }
    let is_theirs = match &failure {
        Failure::Usage(error) | Failure::World(error) => {
            let session = error.downcast_ref::<SessionError>();
            matches!(session, Some(SessionError::Processes(ProcessError::Other(_))))
        }
        _ => false,
    };
    if !is_theirs {
        processes.end_with(&failure.to_string());
    }
    failure
}
