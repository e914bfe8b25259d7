//! torchrun's variables, which `gimlet launch` sets too. Source: PyTorch's `torch/distributed/run.py`
//! and `rendezvous.py`.

use super::environment::{Environment, Seat, fits};
use super::error::WorldError;
use super::world::{Launcher, StoreOwner, World};

/// The number of times that the processes were started again.
pub(super) const RESTART_COUNT: &str = "TORCHELASTIC_RESTART_COUNT";
/// The name of the run.
const RUN_ID: &str = "TORCHELASTIC_RUN_ID";
/// `True` if the launcher serves the store.
pub(super) const USE_AGENT_STORE: &str = "TORCHELASTIC_USE_AGENT_STORE";

/// Finds the place that torchrun gave to this process.
pub(super) fn find(environment: &Environment<'_>) -> Result<Option<World>, WorldError> {
    let Some((rank, size)) = environment.pair("RANK", "WORLD_SIZE")? else { return Ok(None) };
    // Kubeflow's PyTorchJob sets no LOCAL_RANK: each of its Pods is one process.
    let local = environment.pair("LOCAL_RANK", "LOCAL_WORLD_SIZE")?;
    let (local_rank, local_size) = local.unwrap_or((0, 1));
    let seat = Seat { rank, size, local_rank, local_size };
    let seat = fits(seat, "LOCAL_WORLD_SIZE", "WORLD_SIZE")?;
    let run_id = environment.text(RUN_ID).unwrap_or_default();
    let master = environment.master(seat, None, &run_id)?;
    let is_served = environment.text(USE_AGENT_STORE).is_some_and(|value| value == "True");
    Ok(Some(World {
        store: if is_served { StoreOwner::Launcher } else { StoreOwner::RankZero },
        restart_count: environment.number(RESTART_COUNT)?.unwrap_or(0),
        ..World::new(seat, master, Launcher::Torchrun)
    }))
}

#[cfg(test)]
mod tests {
    use super::super::environment::fake::{check, found};
    use super::*;

    const PLACE: &str =
        "RANK=9 WORLD_SIZE=16 LOCAL_RANK=1 LOCAL_WORLD_SIZE=8 MASTER_ADDR=gpu01 MASTER_PORT=29500";

    #[test]
    fn torchruns_place_is_found() {
        check(PLACE, "", "9/16 1/8 gpu01:29500");
        check(
            "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_PORT=1",
            "",
            "0/1 0/1 127.0.0.1:1",
        );
        // PyTorchJob.
        check("RANK=1 WORLD_SIZE=2 MASTER_ADDR=job-0 MASTER_PORT=23456", "", "1/2 0/1 job-0:23456");
    }

    #[test]
    fn restarts_and_the_agents_store_are_known() {
        let agent = "TORCHELASTIC_RESTART_COUNT=2 TORCHELASTIC_RUN_ID=job TORCHELASTIC_USE_AGENT_STORE=True";
        let world = found(&format!("{PLACE} {agent}"), "").unwrap().unwrap();
        assert_eq!((world.restart_count, world.store), (2, StoreOwner::Launcher));
        let world = found(PLACE, "").unwrap().unwrap();
        assert_eq!((world.restart_count, world.store), (0, StoreOwner::RankZero));
    }

    #[test]
    fn contradictions_name_the_variable_and_the_remedy() {
        check(
            &format!("{PLACE} RANK=16"),
            "",
            "`RANK` is `16`, expected less than WORLD_SIZE, which is 16: they count from 0, and all \
             processes get the same count",
        );
        check(
            &format!("{PLACE} RANK=first"),
            "",
            "`RANK` is `first`, expected a whole number: unset it if no launcher set it",
        );
        check(
            "RANK=1",
            "",
            "`WORLD_SIZE` is not set, expected a number, since RANK is set: set both, or unset RANK \
             if no launcher set it",
        );
        check(
            &format!("{PLACE} LOCAL_WORLD_SIZE=32"),
            "",
            "`LOCAL_WORLD_SIZE` is `32`, expected at most WORLD_SIZE, which is 16: the processes of a \
             host are part of all processes",
        );
        check(
            &format!("{PLACE} MASTER_PORT=70000"),
            "",
            "`MASTER_PORT` is `70000`, expected a port from 1 to 65535: choose a port that is free on \
             the host of rank 0",
        );
        check(
            "RANK=1 WORLD_SIZE=2",
            "",
            "`MASTER_ADDR` is not set, expected the host of rank 0, since 2 processes run on several \
             hosts: set it for all processes",
        );
    }
}
