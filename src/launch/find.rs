//! Asks the launchers in turn for this process's place.

use super::environment::Environment;
use super::error::WorldError;
use super::flags::{DistributedArgs, with_flags};
use super::world::World;
use super::{kubernetes, mpi, slurm, torchrun};

impl World {
    /// Returns the place of this process, or `None` if it runs alone. `variable` reads the
    /// environment.
    ///
    /// A launcher that starts a process for each device may say that there is only one: that is a
    /// world of size 1. A single task of SLURM, Pod, or `--process_count=1` says nothing about
    /// devices, so the process is alone.
    ///
    /// # Errors
    /// Variables and flags that contradict each other, are missing or cannot be read.
    pub fn find(
        variable: &dyn Fn(&str) -> Option<String>,
        flags: &DistributedArgs,
    ) -> Result<Option<Self>, WorldError> {
        let environment = Environment(variable);
        let mut found = None;
        // MPI's variables come before SLURM's: mpirun in an allocation starts its own daemons with srun.
        for find in [torchrun::find, mpi::find, slurm::find, kubernetes::find] {
            found = found.map_or_else(|| find(&environment), |world| Ok(Some(world)))?;
        }
        with_flags(found, flags)
    }
}

#[cfg(test)]
mod tests {
    use super::super::environment::fake::found;
    use super::super::world::Launcher;

    #[test]
    fn an_environment_without_a_launcher_is_one_process() {
        assert_eq!(found("HOME=/root WORLD_SIZE=8 SLURM_JOB_ID=7", ""), Ok(None));
    }

    #[test]
    fn torchrun_within_a_task_of_slurm_counts() {
        let slurm = "SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2";
        let torchrun =
            "RANK=9 WORLD_SIZE=16 LOCAL_RANK=1 LOCAL_WORLD_SIZE=8 MASTER_ADDR=a MASTER_PORT=1";
        let world = found(&format!("{slurm} {torchrun}"), "").unwrap().unwrap();
        assert_eq!((world.rank, world.launcher), (9, Launcher::Torchrun));
    }
}
