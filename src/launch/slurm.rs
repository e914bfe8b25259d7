//! SLURM's variables within a step of `srun`. Sources: `srun(1)`, section OUTPUT ENVIRONMENT VARIABLES;
//! jax's `_src/clusters/slurm_cluster.py`.
//!
//! The shells of `sbatch` and `salloc` have some of them too, but are one process outside of any step.

use super::environment::{Environment, Seat, in_range};
use super::error::WorldError;
use super::world::{Launcher, World};

/// Numbers from here on are no steps of `srun` but SLURM's own, such as the shell of `salloc`.
const FIRST_SPECIAL_STEP: usize = 0xffff_fff0;
/// Names of the variable with the hosts: those of the step before those of the job.
const NODE_LISTS: [&str; 3] = ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"];

/// Finds the place that `srun` gave to this process.
pub(super) fn find(environment: &Environment<'_>) -> Result<Option<World>, WorldError> {
    if !is_step(environment)? {
        return Ok(None);
    }
    let Some(rank) = environment.number("SLURM_PROCID")? else { return Ok(None) };
    let count = ["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"]
        .into_iter()
        .find(|name| environment.text(name).is_some())
        .unwrap_or("SLURM_STEP_NUM_TASKS");
    let size = environment.needed(count, "SLURM_PROCID")?;
    in_range(rank, "SLURM_PROCID", size, count)?;
    if size == 1 {
        return Ok(None);
    }
    let local_rank = environment.needed("SLURM_LOCALID", "SLURM_PROCID")?;
    let local_size = tasks_per_node(environment)?;
    in_range(local_rank, "SLURM_LOCALID", local_size, "SLURM_STEP_TASKS_PER_NODE")?;
    let seat = Seat { rank, size, local_rank, local_size };
    let master = environment.master(seat, first_host(environment)?, &job(environment))?;
    Ok(Some(World::new(seat, master, Launcher::Slurm)))
}

/// Whether a variable says the same rank as `srun`.
pub(super) fn has_rank_of_step(environment: &Environment<'_>, name: &str) -> bool {
    let rank = environment.text("SLURM_PROCID");
    rank.is_some() && rank == environment.text(name) && is_step(environment) == Ok(true)
}

/// Returns the first host of the step or the job, which has rank 0.
pub(super) fn first_host(environment: &Environment<'_>) -> Result<Option<String>, WorldError> {
    let set = NODE_LISTS.into_iter().find_map(|name| Some((name, environment.text(name)?)));
    let Some((name, list)) = set else { return Ok(None) };
    let host = first_of_list(&list).ok_or_else(|| {
        let remedy = "set MASTER_ADDR to the host of rank 0";
        WorldError::unfit(name, &list, "hosts such as `gpu[01-04,07],login2`", remedy)
    });
    // A host in MASTER_ADDR makes the list unnecessary.
    if host.is_err() && environment.text("MASTER_ADDR").is_some() {
        Ok(None)
    } else {
        host.map(Some)
    }
}

fn is_step(environment: &Environment<'_>) -> Result<bool, WorldError> {
    let step = environment.number("SLURM_STEP_ID")?;
    Ok(step.is_some_and(|step| step < FIRST_SPECIAL_STEP))
}

/// Returns the job with the step, since steps of a job can share a host.
fn job(environment: &Environment<'_>) -> String {
    let text = |name| environment.text(name).unwrap_or_default();
    format!("{}.{}", text("SLURM_JOB_ID"), text("SLURM_STEP_ID"))
}

/// Returns 8 for `8(x2)`, two hosts with eight tasks each.
fn tasks_per_node(environment: &Environment<'_>) -> Result<usize, WorldError> {
    const NAME: &str = "SLURM_STEP_TASKS_PER_NODE";
    let remedy = "run srun with --ntasks-per-node";
    let Some(text) = environment.first_of(&[NAME, "SLURM_TASKS_PER_NODE"]) else {
        return Err(WorldError::missing(NAME, "tasks such as `8(x2)`", remedy));
    };
    let count = |part: &str| part.split('(').next().and_then(|count| count.parse().ok());
    let counts: Option<Vec<usize>> = text.split(',').map(count).collect();
    match counts.as_deref() {
        Some([first, rest @ ..]) if rest.iter().all(|count| count == first) => Ok(*first),
        _ => Err(WorldError::unfit(NAME, &text, "the same number on every host, `8(x2)`", remedy)),
    }
}

/// Returns `gpu01` for `gpu[01-04,07],login2`.
fn first_of_list(list: &str) -> Option<String> {
    let mut host = String::new();
    let mut rest = list;
    loop {
        let end = rest.find(['[', ',']).unwrap_or(rest.len());
        host.push_str(&rest[..end]);
        if !rest[end..].starts_with('[') {
            break;
        }
        let (numbers, after) = rest[end + 1..].split_once(']')?;
        let first = numbers.split(['-', ',']).next().filter(|first| !first.is_empty())?;
        host.push_str(first);
        rest = after;
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    (!host.is_empty() && host.chars().all(is_name)).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::super::environment::fake::check;
    use super::*;

    const STEP: &str = "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=9 SLURM_LOCALID=1 SLURM_NTASKS=16 \
                        SLURM_STEP_NUM_TASKS=16 SLURM_STEP_TASKS_PER_NODE=8(x2) SLURM_STEP_NODELIST=gpu[03-04]";

    #[test]
    fn a_task_of_srun_finds_its_place() {
        check(STEP, "", "9/16 1/8 gpu03:PORT");
        check(&format!("{STEP} MASTER_ADDR=ib03 MASTER_PORT=5"), "", "9/16 1/8 ib03:5");
        check(&format!("{STEP} SLURM_STEP_TASKS_PER_NODE=16"), "", "9/16 1/16 127.0.0.1:PORT");
    }

    #[test]
    fn shells_of_sbatch_and_salloc_and_single_tasks_are_alone() {
        check("SLURM_JOB_ID=7 SLURM_NTASKS=16 SLURM_PROCID=0", "", "alone");
        check(
            "SLURM_JOB_ID=7 SLURM_NTASKS=16 SLURM_STEP_ID=4294967290 SLURM_PROCID=0",
            "",
            "alone",
        );
        check(&format!("{STEP} SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1"), "", "alone");
    }

    #[test]
    fn hosts_have_the_same_number_of_tasks() {
        check(
            &format!("{STEP} SLURM_STEP_TASKS_PER_NODE=2(x2),1"),
            "",
            "`SLURM_STEP_TASKS_PER_NODE` is `2(x2),1`, expected the same number on every host, \
             `8(x2)`: run srun with --ntasks-per-node",
        );
        check(
            &format!("{STEP} SLURM_LOCALID=8"),
            "",
            "`SLURM_LOCALID` is `8`, expected less than SLURM_STEP_TASKS_PER_NODE, which is 8: they \
             count from 0, and all processes get the same count",
        );
        check(
            &format!("{STEP} SLURM_PROCID=16"),
            "",
            "`SLURM_PROCID` is `16`, expected less than SLURM_STEP_NUM_TASKS, which is 16: they count \
             from 0, and all processes get the same count",
        );
    }

    #[test]
    fn the_first_host_of_a_list_is_found() {
        for (list, expected) in [
            ("gpu[01-04,07],login2", Some("gpu01")),
            ("login2,gpu[01-04]", Some("login2")),
            ("rack[2-3]n[05,07]-ib", Some("rack2n05-ib")),
            ("gpu[7],b", Some("gpu7")),
            ("node-1.example.org", Some("node-1.example.org")),
            ("gpu[01-04", None),
            ("gpu[]", None),
            (",a", None),
            ("a b", None),
        ] {
            assert_eq!(first_of_list(list).as_deref(), expected, "{list}");
        }
        check(
            &format!("{STEP} SLURM_STEP_NODELIST=gpu[01"),
            "",
            "`SLURM_STEP_NODELIST` is `gpu[01`, expected hosts such as `gpu[01-04,07],login2`: set \
             MASTER_ADDR to the host of rank 0",
        );
        check(&format!("{STEP} SLURM_STEP_NODELIST=gpu[01 MASTER_ADDR=a"), "", "9/16 1/8 a:PORT");
    }
}
