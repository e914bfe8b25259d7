//! An indexed Job of Kubernetes, with one process in each Pod. The Job's manifest must set WORLD_SIZE, the
//! number of Pods, and MASTER_ADDR, the name of the first Pod: Kubernetes gives the index only.

use super::environment::{Environment, Seat, in_range};
use super::error::WorldError;
use super::world::{Launcher, World};

const INDEX: &str = "JOB_COMPLETION_INDEX";

/// Finds the place of this Pod.
pub(super) fn find(environment: &Environment<'_>) -> Result<Option<World>, WorldError> {
    let Some(rank) = environment.number(INDEX)? else { return Ok(None) };
    // Without a size the Pods of a Job are runs of their own, such as those of a search.
    let Some(size) = environment.number("WORLD_SIZE")? else { return Ok(None) };
    in_range(rank, INDEX, size, "WORLD_SIZE")?;
    if size == 1 {
        return Ok(None);
    }
    let seat = Seat { rank, size, local_rank: 0, local_size: 1 };
    // A Pod has its own ports, so all Jobs can use the same one.
    let master = environment.master(seat, None, "")?;
    Ok(Some(World::new(seat, master, Launcher::Kubernetes)))
}

#[cfg(test)]
mod tests {
    use super::super::environment::fake::check;

    #[test]
    fn a_pod_is_one_process() {
        let pod = "JOB_COMPLETION_INDEX=3 WORLD_SIZE=4";
        check(&format!("{pod} MASTER_ADDR=run-0.run"), "", "3/4 0/1 run-0.run:PORT");
        check("JOB_COMPLETION_INDEX=3", "", "alone");
        check("JOB_COMPLETION_INDEX=0 WORLD_SIZE=1", "", "alone");
        check(
            pod,
            "",
            "`MASTER_ADDR` is not set, expected the host of rank 0, since 4 processes run on several \
             hosts: set it for all processes",
        );
        check(
            &format!("{pod} WORLD_SIZE=3"),
            "",
            "`JOB_COMPLETION_INDEX` is `3`, expected less than WORLD_SIZE, which is 3: they count \
             from 0, and all processes get the same count",
        );
    }
}
