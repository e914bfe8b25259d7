//! The variables of MPI's launchers: horovodrun over Gloo, Open MPI's mpirun, and the mpiexec of MPICH,
//! Intel MPI and Cray, which speak PMI. Sources: horovod's `runner/gloo_run.py`, Open MPI's FAQ
//! "Running MPI jobs", MPICH's `src/pm/hydra`.
//!
//! Of these only horovodrun names a host. The rank 0 of the others is on the first host of SLURM's
//! allocation, if there is one.

use super::environment::{Environment, Seat, fits};
use super::error::WorldError;
use super::slurm::{first_host, has_rank_of_step};
use super::world::{Launcher, World};

/// The names of a launcher's variables.
struct Names {
    launcher: Launcher,
    rank: &'static str,
    size: &'static str,
    local_rank: &'static str,
    local_size: &'static str,
    /// The host of rank 0.
    host: Option<&'static str>,
    /// The job; the first one that is set counts.
    job: &'static [&'static str],
}

/// The launchers, inner ones first: horovodrun may start its processes with mpirun.
const LAUNCHERS: [Names; 4] = [
    Names {
        launcher: Launcher::Horovodrun,
        rank: "HOROVOD_RANK",
        size: "HOROVOD_SIZE",
        local_rank: "HOROVOD_LOCAL_RANK",
        local_size: "HOROVOD_LOCAL_SIZE",
        host: Some("HOROVOD_GLOO_RENDEZVOUS_ADDR"),
        // horovodrun's own store has this port, which is another one for each job.
        job: &["HOROVOD_GLOO_RENDEZVOUS_PORT"],
    },
    Names {
        launcher: Launcher::OpenMpi,
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        local_size: "OMPI_COMM_WORLD_LOCAL_SIZE",
        host: None,
        job: &["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"],
    },
    Names {
        launcher: Launcher::Pmi,
        rank: "PMI_RANK",
        size: "PMI_SIZE",
        local_rank: "MPI_LOCALRANKID",
        local_size: "MPI_LOCALNRANKS",
        host: None,
        job: &["PMI_JOBID", "SLURM_JOB_ID", "PBS_JOBID"],
    },
    // Cray's launcher.
    Names {
        launcher: Launcher::Pmi,
        rank: "PMI_RANK",
        size: "PMI_SIZE",
        local_rank: "PMI_LOCAL_RANK",
        local_size: "PMI_LOCAL_SIZE",
        host: None,
        job: &["PMI_JOBID", "SLURM_JOB_ID", "PBS_JOBID"],
    },
];

/// Finds the place that one of these launchers gave to this process.
pub(super) fn find(environment: &Environment<'_>) -> Result<Option<World>, WorldError> {
    // `srun --mpi=pmi2` sets PMI_RANK beside its own variables, which say more.
    let is_sruns = has_rank_of_step(environment, "PMI_RANK");
    let is_set = |names: &&Names| environment.text(names.rank).is_some();
    let set: Vec<_> = LAUNCHERS.iter().filter(is_set).collect();
    let says_all = |names: &&&Names| environment.text(names.local_rank).is_some();
    let Some(names) = set.iter().find(says_all).or(set.first()) else { return Ok(None) };
    if names.launcher == Launcher::Pmi && is_sruns {
        return Ok(None);
    }
    place(environment, names).map(Some)
}

fn place(environment: &Environment<'_>, names: &Names) -> Result<World, WorldError> {
    let of = |index, count| {
        let missing = || {
            let remedy = "set it to the number of this process on its host";
            WorldError::missing(index, format!("a number, since {} is set", names.rank), remedy)
        };
        environment.pair(index, count)?.ok_or_else(missing)
    };
    let (rank, size) = of(names.rank, names.size)?;
    let (local_rank, local_size) = of(names.local_rank, names.local_size)?;
    let seat = Seat { rank, size, local_rank, local_size };
    let seat = fits(seat, names.local_size, names.size)?;
    let host = names.host.and_then(|name| environment.text(name));
    let host = host.map_or_else(|| first_host(environment), |host| Ok(Some(host)))?;
    let job = environment.first_of(names.job).unwrap_or_default();
    Ok(World::new(seat, environment.master(seat, host, &job)?, names.launcher))
}

#[cfg(test)]
mod tests {
    use super::super::environment::fake::check;

    const HOROVOD: &str = "HOROVOD_RANK=3 HOROVOD_SIZE=4 HOROVOD_LOCAL_RANK=1 HOROVOD_LOCAL_SIZE=2 \
                           HOROVOD_GLOO_RENDEZVOUS_ADDR=10.0.0.1 HOROVOD_GLOO_RENDEZVOUS_PORT=40001";
    const OMPI: &str = "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 \
                        OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=prterun-gpu01-99@1";
    const PMI: &str = "PMI_RANK=3 PMI_SIZE=4";

    #[test]
    fn horovodruns_host_is_used() {
        check(HOROVOD, "", "3/4 1/2 10.0.0.1:PORT");
        check(&format!("{HOROVOD} MASTER_ADDR=gpu07 MASTER_PORT=5"), "", "3/4 1/2 gpu07:5");
        check(
            &format!("{HOROVOD} HOROVOD_LOCAL_RANK=3 HOROVOD_LOCAL_SIZE=4"),
            "",
            "3/4 3/4 127.0.0.1:PORT",
        );
    }

    #[test]
    fn open_mpi_needs_a_host_only_where_there_are_several() {
        check(&format!("{OMPI} MASTER_ADDR=gpu01"), "", "3/4 1/2 gpu01:PORT");
        check(&format!("{OMPI} SLURM_JOB_NODELIST=gpu[03-04]"), "", "3/4 1/2 gpu03:PORT");
        check(
            &format!("{OMPI} OMPI_COMM_WORLD_LOCAL_RANK=3 OMPI_COMM_WORLD_LOCAL_SIZE=4"),
            "",
            "3/4 3/4 127.0.0.1:PORT",
        );
        check(
            OMPI,
            "",
            "`MASTER_ADDR` is not set, expected the host of rank 0, since 4 processes run on several \
             hosts: set it for all processes",
        );
    }

    #[test]
    fn launchers_of_pmi_say_the_local_rank_under_two_names() {
        let master = "MASTER_ADDR=a MASTER_PORT=1";
        check(&format!("{PMI} MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 {master}"), "", "3/4 1/2 a:1");
        check(&format!("{PMI} PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=2 {master}"), "", "3/4 1/2 a:1");
        check(
            PMI,
            "",
            "`MPI_LOCALRANKID` is not set, expected a number, since PMI_RANK is set: set it to the \
             number of this process on its host",
        );
    }

    #[test]
    fn sruns_own_variables_say_more_than_its_pmi() {
        let slurm = "SLURM_STEP_ID=0 SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=3 \
                     SLURM_STEP_TASKS_PER_NODE=4 MASTER_PORT=1";
        check(&format!("{PMI} {slurm}"), "", "3/4 3/4 127.0.0.1:1");
        // mpiexec starts a daemon on each host with srun; the daemon's number is not ours.
        let hydra = "MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 SLURM_STEP_NODELIST=n[1-2]";
        check(&format!("{PMI} {slurm} {hydra} SLURM_PROCID=1"), "", "3/4 1/2 n1:1");
    }
}
