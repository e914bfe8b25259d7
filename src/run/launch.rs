//! `gimlet launch`: runs a command in several processes of this machine, as torchrun does. A command on a model
//! without it does so by itself where several GPUs are visible.

use std::env;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;

use crate::launch::{
    GroupEnd, WorkerGroup, World, host_and_port, num_present, num_visible, supervise,
};
use crate::telemetry;

use super::cache::{cache_command, check_cache};
use super::cli::{Command, parse};
use super::commands::{ModelCommand, world};
use super::failure::Failure;
use super::interrupt;
use super::start::is_for_gpus;

/// The seconds that processes have to end after another one has failed.
const GRACE_SECS: u64 = 30;

/// Arguments of `gimlet launch`, named as those of torchrun.
#[derive(Args, Debug)]
#[command(override_usage = "gimlet launch [OPTIONS] COMMAND [FLAGS OF COMMAND]...")]
pub struct LaunchArgs {
    /// Processes on this machine, and on every other one; by default one for each visible GPU.
    #[arg(long = "nproc_per_node", alias = "nproc-per-node", value_name = "N")]
    pub nproc_per_node: Option<usize>,
    /// Machines; on each of them `gimlet launch` is run, with the same flags but --node_rank.
    #[arg(long = "nnodes", value_name = "N", default_value = "1")]
    pub nnodes: String,
    /// This machine among them, from 0.
    #[arg(long = "node_rank", alias = "node-rank", value_name = "R", default_value_t = 0)]
    pub node_rank: usize,
    /// Machine 0, and a free port of it; needed with several machines.
    #[arg(long = "rdzv_endpoint", alias = "rdzv-endpoint", value_name = "HOST:PORT")]
    pub rdzv_endpoint: Option<String>,
    /// Times that all processes are started again after one has failed.
    #[arg(long = "max_restarts", alias = "max-restarts", value_name = "K", default_value_t = 0)]
    pub max_restarts: usize,
    /// Seconds that the other processes have to end after one has failed, before they are killed.
    #[arg(long = "grace", value_name = "SECONDS", default_value_t = GRACE_SECS)]
    pub grace: u64,
    /// The command, `train`, `eval`, `infer`, `cache` or `bench train_step`, and its flags.
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub command: Vec<String>,
}

/// Runs the command in processes of its own.
///
/// # Errors
/// Mistakes in the command, before a process is started; the first failure of a process.
pub(super) fn launch_command(args: &LaunchArgs, color: bool) -> Result<(), Failure> {
    let words = ["gimlet".to_string()].into_iter().chain(args.command.iter().cloned()).collect();
    let command = parse(words)?.command;
    let group = group(args, visible_gpus())?;
    let num_processes = group.nproc_per_node * group.nnodes;
    // Mistakes are reported here, once and in colour.
    match &command {
        Command::Model(command) => command.check(color, num_processes)?,
        Command::Bench(args) if args.runs_in_processes() => args.check(color, num_processes)?,
        Command::Cache(args) if args.dry_run => return cache_command(args, color),
        Command::Cache(args) => check_cache(args, color)?,
        _ => {
            let found = &args.command[0];
            let message = format!(
                "`gimlet launch` runs `train`, `eval`, `infer`, `cache` and `bench train_step`, and not `{found}`"
            );
            return Err(Failure::Usage(anyhow!(message)));
        }
    }
    run(&group)
}

/// Runs the command in a process for each visible GPU, if there are several and no launcher has started this
/// process. Returns whether it did.
///
/// # Errors
/// Launchers and flags that contradict themselves; the first failure of a process.
pub(super) fn on_every_device(command: &ModelCommand, args: &[String]) -> Result<bool, Failure> {
    let world = world(&command.distributed())?;
    let num_devices = num_devices(world.as_ref(), visible_gpus);
    if num_devices == 1 {
        return Ok(false);
    }
    telemetry::notice(&format!("starting {num_devices} processes, one for each visible GPU"));
    run(&WorkerGroup {
        program: env::current_exe().map_err(Failure::world)?,
        args: args[1..].to_vec(),
        nproc_per_node: num_devices,
        nnodes: 1,
        node_rank: 0,
        endpoint: None,
        max_restarts: 0,
        grace: Duration::from_secs(GRACE_SECS),
    })?;
    Ok(true)
}

/// Returns the number of all processes in which a command runs.
///
/// # Errors
/// Launchers and flags that contradict themselves.
pub(super) fn num_processes(command: &ModelCommand) -> Result<usize, Failure> {
    let world = world(&command.distributed())?;
    Ok(world.map_or_else(|| visible_gpus().max(1), |world| world.size))
}

/// Returns the number of processes that a command without a launcher needs.
fn num_devices(world: Option<&World>, visible_gpus: impl FnOnce() -> usize) -> usize {
    match world {
        Some(_) => 1,
        None => visible_gpus().max(1),
    }
}

/// Returns the number of GPUs that this build can use.
pub(super) fn visible_gpus() -> usize {
    let variable = |name: &str| env::var(name).ok();
    if is_for_gpus() { num_visible(&variable, num_present) } else { 0 }
}

fn run(group: &WorkerGroup) -> Result<(), Failure> {
    let signals = interrupt::received().map_err(Failure::world)?;
    let end = supervise(group, &signals, &telemetry::notice).map_err(|error| {
        let message = format!("cannot start {}", group.program.display());
        Failure::World(anyhow!(error).context(message))
    })?;
    match end {
        GroupEnd::Finished => Ok(()),
        GroupEnd::Interrupted(status) => Err(Failure::Interrupted(i32::from(status) - 128)),
        GroupEnd::Failed(failure) => Err(Failure::Worker(failure)),
    }
}

/// Checks the flags.
fn group(args: &LaunchArgs, visible_gpus: usize) -> Result<WorkerGroup, Failure> {
    let usage = |message: String| Failure::Usage(anyhow!(message));
    let nnodes = nnodes(&args.nnodes).map_err(usage)?;
    if args.node_rank >= nnodes {
        let rank = args.node_rank;
        return Err(usage(format!("--node_rank is {rank}, expected less than --nnodes, {nnodes}")));
    }
    let nproc_per_node = match (args.nproc_per_node, visible_gpus) {
        (Some(0), _) => return Err(usage("--nproc_per_node is 0, expected at least 1".into())),
        (Some(number), _) => number,
        (None, 0) => {
            let message = "there is no visible GPU to start a process for: give --nproc_per_node";
            return Err(usage(message.into()));
        }
        (None, visible) => visible,
    };
    Ok(WorkerGroup {
        program: env::current_exe().map_err(Failure::world)?,
        args: args.command.clone(),
        nproc_per_node,
        nnodes,
        node_rank: args.node_rank,
        endpoint: endpoint(args.rdzv_endpoint.as_deref(), nnodes)?,
        max_restarts: args.max_restarts,
        grace: Duration::from_secs(args.grace),
    })
}

/// Reads `N` and `N:N`, a smallest and a largest number of machines.
fn nnodes(text: &str) -> Result<usize, String> {
    let (least, most) = text.split_once(':').unwrap_or((text, text));
    match (least.parse(), most.parse()) {
        (Ok(0), _) | (_, Ok(0)) | (Err(_), _) | (_, Err(_)) => {
            Err(format!("--nnodes is `{text}`, expected a number from 1 on"))
        }
        (Ok(least), Ok(most)) if least == most => Ok(most),
        _ => Err(format!(
            "--nnodes={text}: a number of machines that changes is not supported yet; give one number"
        )),
    }
}

/// Returns the place where the processes meet; `None` for a free port of this machine.
fn endpoint(flag: Option<&str>, nnodes: usize) -> Result<Option<(String, u16)>, Failure> {
    match flag {
        Some(flag) if nnodes == 1 && flag.ends_with(":0") => Ok(None),
        Some(flag) => host_and_port("--rdzv_endpoint", flag).map(Some).map_err(Failure::usage),
        None if nnodes == 1 => Ok(None),
        None => Err(Failure::Usage(anyhow!(
            "{nnodes} machines need --rdzv_endpoint=HOST:PORT, with the name of machine 0"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        launch: LaunchArgs,
    }

    /// Checks the processes, machines and endpoint, or the message.
    fn check(flags: &str, visible_gpus: usize, expected: &str) {
        let line = format!("gimlet {flags} -- train");
        let args = Line::parse_from(line.split_whitespace()).launch;
        let shown = match group(&args, visible_gpus) {
            Ok(group) => {
                format!("{} {} {:?}", group.nproc_per_node, group.nnodes, group.endpoint)
            }
            Err(failure) => failure.to_string(),
        };
        assert_eq!(shown, expected, "{flags}");
    }

    #[test]
    fn flags_are_torchruns() {
        check("--nproc_per_node=1", 0, "1 1 None");
        check("--nproc-per-node 1 --nnodes 1:1 --rdzv-endpoint localhost:0", 4, "1 1 None");
        check("--rdzv_endpoint=a:5", 1, r#"1 1 Some(("a", 5))"#);
    }

    #[test]
    fn mistakes_in_flags_are_refused() {
        let no_gpu = "there is no visible GPU to start a process for: give --nproc_per_node";
        check("", 0, no_gpu);
        check("--nproc_per_node=0", 4, "--nproc_per_node is 0, expected at least 1");
        let elastic = "a number of machines that changes is not supported yet; give one number";
        check("--nnodes=1:4", 1, &format!("--nnodes=1:4: {elastic}"));
        check("--nnodes=all", 1, "--nnodes is `all`, expected a number from 1 on");
        check("--nnodes=0", 1, "--nnodes is `0`, expected a number from 1 on");
        check("--node_rank=1", 1, "--node_rank is 1, expected less than --nnodes, 1");
        let found = endpoint(None, 2).expect_err("where do they meet?").to_string();
        assert_eq!(found, "2 machines need --rdzv_endpoint=HOST:PORT, with the name of machine 0");
        assert!(endpoint(Some("a:0"), 2).is_err() && endpoint(Some("a"), 1).is_err());
    }

    #[test]
    fn a_process_without_a_launcher_uses_all_gpus() {
        assert_eq!(num_devices(None, || 8), 8);
        assert_eq!(num_devices(None, || 0), 1);
        let variable = |name: &str| {
            let one = [("RANK", "0"), ("WORLD_SIZE", "1")];
            one.iter().find(|(set, _)| *set == name).map(|(_, value)| value.to_string())
        };
        let world = World::find(&variable, &Default::default()).unwrap();
        assert_eq!(num_devices(world.as_ref(), || 8), 1);
    }
}
