//! T5X's flags for many processes. Source: T5X's `train.py`, which passes them to
//! `jax.distributed.initialize`; like jax, a launcher's variables stand for flags that are omitted.

use clap::Args;

use super::environment::{Seat, in_range};
use super::error::WorldError;
use super::world::{Launcher, World};

const ADDRESS: &str = "--coordinator_address";
const COUNT: &str = "--process_count";
const INDEX: &str = "--process_index";

/// T5X's flags for running on many processes: accepted, and hidden while only one can run.
#[derive(Args, Clone, Debug, Default)]
pub struct DistributedArgs {
    /// Join the processes named by the flags below.
    #[arg(long = "multiprocess_gpu", hide = true)]
    pub multiprocess_gpu: bool,
    /// HOST:PORT of process 0.
    #[arg(long = "coordinator_address", value_name = "HOST:PORT", hide = true)]
    pub coordinator_address: Option<String>,
    /// Number of processes.
    #[arg(long = "process_count", value_name = "N", hide = true)]
    pub process_count: Option<usize>,
    /// Index of this process.
    #[arg(long = "process_index", value_name = "I", hide = true)]
    pub process_index: Option<usize>,
    /// Seconds to wait for the other processes.
    #[arg(long = "initialization_timeout", value_name = "SECONDS", hide = true)]
    pub initialization_timeout: Option<u64>,
}

/// Returns the world of the flags; those that are omitted are as the launcher says.
pub(super) fn with_flags(
    found: Option<World>,
    flags: &DistributedArgs,
) -> Result<Option<World>, WorldError> {
    if !flags.multiprocess_gpu {
        return refuse_half_given(flags).map(|()| found);
    }
    match found {
        Some(world) => agree(world, flags).map(Some),
        None => of_flags_alone(flags),
    }
}

/// Refuses a count that T5X would ignore, since each process would then train alone.
fn refuse_half_given(flags: &DistributedArgs) -> Result<(), WorldError> {
    match flags.process_count {
        None | Some(0 | 1) => Ok(()),
        Some(count) => {
            let expected = format!("--multiprocess_gpu beside it to run {count} processes");
            Err(WorldError::unfit(COUNT, count, expected, format!("add it or drop {COUNT}")))
        }
    }
}

/// Checks that flags and launcher say the same; the address of the flags counts.
fn agree(mut world: World, flags: &DistributedArgs) -> Result<World, WorldError> {
    for (name, flag, said) in
        [(COUNT, flags.process_count, world.size), (INDEX, flags.process_index, world.rank)]
    {
        if let Some(flag) = flag.filter(|flag| *flag != said) {
            let expected = format!("{said}, as {} says", world.launcher);
            return Err(WorldError::unfit(name, flag, expected, "drop the flag"));
        }
    }
    if let Some(address) = &flags.coordinator_address {
        (world.master_addr, world.master_port) = host_and_port(ADDRESS, address)?;
    }
    Ok(world)
}

fn of_flags_alone(flags: &DistributedArgs) -> Result<Option<World>, WorldError> {
    let remedy = "give all three flags, or start the processes with srun, torchrun or mpirun";
    let missing = |name, expected| WorldError::missing(name, expected, remedy);
    let size = flags.process_count.ok_or_else(|| missing(COUNT, "the number of processes"))?;
    let rank = flags.process_index.ok_or_else(|| missing(INDEX, "the index of this process"))?;
    in_range(rank, INDEX, size, COUNT)?;
    if size == 1 {
        return Ok(None);
    }
    let address = flags.coordinator_address.as_ref();
    let address = address.ok_or_else(|| missing(ADDRESS, "HOST:PORT of process 0"))?;
    let master = host_and_port(ADDRESS, address)?;
    let seat = Seat { rank, size, local_rank: 0, local_size: 1 };
    Ok(Some(World::new(seat, master, Launcher::Flags)))
}

/// Reads `host:port` and `[::1]:port`, the value of a flag.
///
/// # Errors
/// Another value.
pub fn host_and_port(flag: &str, address: &str) -> Result<(String, u16), WorldError> {
    let parse = |address: &str| {
        let (host, port) = address.rsplit_once(':')?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        let is_clear = !host.is_empty() && (bare.is_some() || !host.contains(':'));
        let port = port.parse().ok().filter(|port| *port > 0)?;
        is_clear.then(|| (host.to_string(), port))
    };
    parse(address).ok_or_else(|| {
        let remedy = "name a host that all processes reach, and a port that is free there";
        WorldError::unfit(flag, address, "HOST:PORT, such as `10.0.0.1:12345`", remedy)
    })
}

#[cfg(test)]
mod tests {
    use super::super::environment::fake::check;

    const SLURM: &str = "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=9 SLURM_LOCALID=1 SLURM_NTASKS=16 \
                         SLURM_STEP_TASKS_PER_NODE=8(x2) SLURM_STEP_NODELIST=gpu[03-04] MASTER_PORT=5";
    const ALL: &str =
        "--multiprocess_gpu --coordinator_address=a:1 --process_count=2 --process_index=1";

    #[test]
    fn flags_alone_are_enough() {
        check("", ALL, "1/2 0/1 a:1");
        check(
            "",
            &format!("{} --process_count=1 --process_index=0", "--multiprocess_gpu"),
            "alone",
        );
        check("", &ALL.replace("a:1", "[fd00::1]:8"), "1/2 0/1 fd00::1:8");
    }

    #[test]
    fn omitted_flags_are_the_launchers() {
        check(SLURM, "--multiprocess_gpu", "9/16 1/8 gpu03:5");
        // Older scripts of T5X for SLURM say what its variables say.
        let scripts = "--coordinator_address=10.0.0.3:12345 --process_count=16 --process_index=9";
        check(SLURM, &format!("--multiprocess_gpu {scripts}"), "9/16 1/8 10.0.0.3:12345");
    }

    #[test]
    fn flags_that_contradict_the_launcher_are_refused() {
        check(
            SLURM,
            "--multiprocess_gpu --process_count=2",
            "`--process_count` is `2`, expected 16, as srun says: drop the flag",
        );
    }

    #[test]
    fn half_given_flags_are_refused() {
        check(
            "",
            "--multiprocess_gpu",
            "`--process_count` is not set, expected the number of processes: give all three flags, or \
             start the processes with srun, torchrun or mpirun",
        );
        check(
            "",
            "--process_count=2",
            "`--process_count` is `2`, expected --multiprocess_gpu beside it to run 2 processes: add \
             it or drop --process_count",
        );
        check(
            "",
            &ALL.replace("=1", "=2").replace(":1", ":2"),
            "`--process_index` is `2`, expected less than --process_count, which is 2: they count \
             from 0, and all processes get the same count",
        );
        check(
            "",
            &ALL.replace("a:1", "a"),
            "`--coordinator_address` is `a`, expected HOST:PORT, such as `10.0.0.1:12345`: name a host \
             that all processes reach, and a port that is free there",
        );
    }
}
