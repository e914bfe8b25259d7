//! The processes of a run, and the place of this one among them.

use std::fmt;

use super::environment::Seat;
use super::error::WorldError;

/// The processes that train one model together, as one of them sees them. Each drives one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// This process, from 0.
    pub rank: usize,
    /// The number of processes.
    pub size: usize,
    /// This process among those of its host, from 0.
    pub local_rank: usize,
    /// The number of processes on its host.
    pub local_size: usize,
    /// The host of rank 0, where the processes meet.
    pub master_addr: String,
    /// The port of the store in which the processes find each other.
    pub master_port: u16,
    /// The process that serves this store.
    pub store: StoreOwner,
    /// The number of times that the launcher has started the processes again.
    pub restart_count: usize,
    /// The launcher that said all this.
    pub launcher: Launcher,
}

/// The process that serves the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOwner {
    /// Rank 0 opens the port.
    RankZero,
    /// The launcher has opened the port; every rank is a client.
    Launcher,
}

/// A program that starts processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// T5X's flags, typed by a user or a script.
    Flags,
    /// torchrun, or `gimlet launch`, which sets the same variables.
    Torchrun,
    /// horovodrun over Gloo.
    Horovodrun,
    /// Open MPI's mpirun.
    OpenMpi,
    /// mpiexec of MPICH, Intel MPI and others that speak PMI.
    Pmi,
    /// SLURM's srun.
    Slurm,
    /// An indexed Job of Kubernetes.
    Kubernetes,
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Launcher::Flags => "the flags",
            Launcher::Torchrun => "torchrun",
            Launcher::Horovodrun => "horovodrun",
            Launcher::OpenMpi => "mpirun",
            Launcher::Pmi => "mpiexec",
            Launcher::Slurm => "srun",
            Launcher::Kubernetes => "the indexed Job",
        })
    }
}

impl World {
    /// Whether all processes run on this host.
    pub fn is_on_one_host(&self) -> bool {
        self.local_size == self.size
    }

    /// Returns the index of this process's device among the visible ones.
    ///
    /// # Errors
    /// More processes on a host than devices.
    pub fn device(&self, num_visible: usize) -> Result<usize, WorldError> {
        match self.local_rank {
            local_rank if local_rank < num_visible => Ok(local_rank),
            // SLURM's --gpus-per-task, or a wrapper of the user's, shows each process its own only.
            _ if num_visible == 1 && self.launcher != Launcher::Torchrun => Ok(0),
            local_rank => Err(WorldError::unfit(
                "local rank",
                local_rank,
                format!("less than the number of visible devices, {num_visible}"),
                format!(
                    "start one process for each device, and not {} on a host, or show more with \
                     CUDA_VISIBLE_DEVICES; with GIMLET_BACKEND=gloo processes share devices, slowly",
                    self.local_size
                ),
            )),
        }
    }

    /// Creates the world of a process whose launcher says nothing but its place.
    pub(super) fn new(seat: Seat, master: (String, u16), launcher: Launcher) -> Self {
        let (master_addr, master_port) = master;
        let Seat { rank, size, local_rank, local_size } = seat;
        Self {
            rank,
            size,
            local_rank,
            local_size,
            master_addr,
            master_port,
            store: StoreOwner::RankZero,
            restart_count: 0,
            launcher,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(local_rank: usize, num_visible: usize, launcher: Launcher, expected: Option<usize>) {
        let seat = Seat { rank: local_rank, size: 4, local_rank, local_size: 4 };
        let world = World::new(seat, ("127.0.0.1".into(), 1), launcher);
        assert_eq!(world.device(num_visible).ok(), expected, "{local_rank} of {num_visible}");
    }

    #[test]
    fn a_process_has_the_device_of_its_local_rank() {
        check(3, 4, Launcher::Torchrun, Some(3));
        check(3, 1, Launcher::Slurm, Some(0));
        check(3, 2, Launcher::Slurm, None);
        check(1, 1, Launcher::Torchrun, None);
        check(0, 0, Launcher::Torchrun, None);
    }
}
