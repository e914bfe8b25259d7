//! `gimlet launch`: runs a command in several processes of this machine, as torchrun does. A command on a model
//! without it does so by itself where several GPUs are visible.

use std::env;
use std::io;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;

use crate::launch::{
    DistributedArgs, GroupEnd, StoreOwner, Terms, WorkerGroup, World, host_and_port, supervise,
};
use crate::telemetry;

use super::cache::{cache_command, check_cache};
use super::cli::{Command, parse};
use super::commands::ModelCommand;
use super::failure::Failure;
use super::interrupt;
use super::machines::{Machines, WaitingTimes};
use super::world::{visible_gpus, world};

/// The seconds that processes have to end after another one has failed.
const GRACE_SECS: u64 = 30;

/// torchrun's default of --master_port.
const MASTER_PORT: u16 = 29_500;

/// Arguments of `gimlet launch`, named as those of torchrun.
#[derive(Args, Debug)]
#[command(override_usage = "gimlet launch [OPTIONS] COMMAND [FLAGS OF COMMAND]...")]
pub struct LaunchArgs {
    /// Processes on this machine, and on every other one; by default one for each visible GPU.
    #[arg(long = "nproc_per_node", alias = "nproc-per-node", value_name = "N")]
    pub nproc_per_node: Option<usize>,
    /// Machines, or the least and the most of them; on each `gimlet launch` is run, with the same flags but
    /// --node_rank.
    #[arg(long = "nnodes", value_name = "N|MIN:MAX", default_value = "1")]
    pub nnodes: String,
    /// Place of this machine among them, from 0; by default they are in the order of their arrival.
    #[arg(long = "node_rank", alias = "node-rank", value_name = "R")]
    pub node_rank: Option<usize>,
    /// One of the machines, and a free port of it; needed with several machines.
    #[arg(long = "rdzv_endpoint", alias = "rdzv-endpoint", value_name = "HOST:PORT")]
    pub rdzv_endpoint: Option<String>,
    /// The machine with --node_rank=0, in place of --rdzv_endpoint.
    #[arg(
        long = "master_addr",
        alias = "master-addr",
        value_name = "HOST",
        conflicts_with = "rdzv_endpoint"
    )]
    pub master_addr: Option<String>,
    /// A free port of --master_addr.
    #[arg(
        long = "master_port",
        alias = "master-port",
        value_name = "PORT",
        default_value_t = MASTER_PORT,
        requires = "master_addr"
    )]
    pub master_port: u16,
    /// A flag of torchrun without effect: machines always meet in one way.
    #[arg(long = "rdzv_backend", alias = "rdzv-backend", hide = true)]
    pub rdzv_backend: Option<String>,
    /// A flag of torchrun without effect: runs differ by their address.
    #[arg(long = "rdzv_id", alias = "rdzv-id", hide = true)]
    pub rdzv_id: Option<String>,
    /// Seconds to wait for machines, such as `join_timeout=600,last_call_timeout=30,keep_alive_timeout=15`.
    #[arg(
        long = "rdzv_conf",
        alias = "rdzv-conf",
        value_name = "NAME=SECONDS,...",
        default_value = ""
    )]
    pub rdzv_conf: String,
    /// Times that all processes are started again after one has failed or a machine is lost.
    #[arg(long = "max_restarts", alias = "max-restarts", value_name = "K", default_value_t = 0)]
    pub max_restarts: usize,
    /// Seconds that the other processes have to end after one has failed, before they are killed.
    #[arg(long = "grace", value_name = "SECONDS", default_value_t = GRACE_SECS)]
    pub grace: u64,
    /// The command, `train`, `eval`, `infer`, `t5_mesh_transformer`, `cache` or `bench train_step`, and its flags.
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub command: Vec<String>,
}

impl LaunchArgs {
    /// Returns the address where the machines meet.
    fn meeting_place(&self) -> Option<String> {
        let of_master = || self.master_addr.as_ref().map(|host| (host, self.master_port));
        let joined = |(host, port): (&String, u16)| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        self.rdzv_endpoint.clone().or_else(|| of_master().map(joined))
    }
}

/// The meaning of the words of `gimlet launch`.
pub(super) struct Launched {
    /// The processes of this machine.
    pub group: WorkerGroup,
    /// The machines of the run.
    pub machines: Machines,
    /// The command of every process.
    pub command: Command,
}

impl Launched {
    /// Reads the flags and the command.
    ///
    /// # Errors
    /// Mistakes in them.
    pub fn read(args: &LaunchArgs) -> Result<Self, Failure> {
        let words =
            ["gimlet".to_string()].into_iter().chain(args.command.iter().cloned()).collect();
        let command = parse(words)?.command;
        let machines = Machines::parse(&args.nnodes);
        let machines = machines.map_err(|message| Failure::Usage(anyhow!(message)))?;
        Ok(Self { group: group(args, machines, visible_gpus())?, machines, command })
    }

    /// Checks the command for so many machines. Returns whether nothing is left to do.
    ///
    /// # Errors
    /// Mistakes in the command.
    fn check(&self, color: bool, num_machines: usize) -> Result<bool, Failure> {
        let num_processes = self.group.nproc_per_node * num_machines;
        match &self.command {
            Command::Model(command) => command.check(color, num_processes)?,
            Command::Bench(args) if args.runs_in_processes() => args.check(color, num_processes)?,
            Command::Cache(args) if args.dry_run => {
                cache_command(args, color)?;
                return Ok(true);
            }
            Command::Cache(args) => check_cache(args, color)?,
            command => {
                if let Some(run) = command.foreign() {
                    let command = run.translated(num_processes, color)?.command;
                    return command.check(color, num_processes).map(|()| false);
                }
                let found = &self.group.args[0];
                let message = format!(
                    "`gimlet launch` runs `train`, `eval`, `infer`, `t5_mesh_transformer`, `cache` and `bench train_step`, and not `{found}`"
                );
                return Err(Failure::Usage(anyhow!(message)));
            }
        }
        Ok(false)
    }

    /// Returns the rules by which machines start together. `notice` hears of the numbers of machines on which
    /// the command cannot run.
    ///
    /// # Errors
    /// Mistakes in flags.
    pub fn terms(&self, args: &LaunchArgs, notice: &dyn Fn(&str)) -> Result<Terms, Failure> {
        let Self { group, machines, .. } = self;
        let times = WaitingTimes::parse(&args.rdzv_conf);
        let times = times.map_err(|message| Failure::Usage(anyhow!(message)))?;
        let mut sizes = Vec::new();
        for size in machines.least..machines.most {
            match self.check(false, size) {
                Ok(_) => sizes.push(size),
                Err(failure) => {
                    notice(&format!("the run will not start on {size} machines: {failure}"))
                }
            }
        }
        sizes.push(machines.most);
        Ok(Terms {
            sizes,
            max_restarts: args.max_restarts,
            join_timeout: times.join,
            last_call: times.last_call,
            silence: times.keep_alive,
            flags: format!(
                "--nnodes={} --nproc_per_node={} --max_restarts={}",
                args.nnodes, group.nproc_per_node, args.max_restarts
            ),
        })
    }
}

/// Runs the command in processes of this machine. Returns `false` if it runs on several machines, which meet by
/// libtorch's means.
///
/// # Errors
/// Mistakes in the command, before a process is started; the first failure of a process.
pub(super) fn launch_here(args: &LaunchArgs, color: bool) -> Result<bool, Failure> {
    let launched = Launched::read(args)?;
    // Mistakes are reported here, once and in colour.
    if launched.check(color, launched.machines.most)? {
        return Ok(true);
    }
    if let (Some(run), 0) = (launched.command.foreign(), launched.group.node_rank) {
        let num_processes = launched.group.nproc_per_node * launched.machines.most;
        let translated = run.translated(num_processes, color)?;
        run.announce(&translated)?;
        translated.record.write()?;
    }
    if launched.machines.most > 1 {
        launched.terms(args, &telemetry::notice)?;
        return Ok(false);
    }
    run(&launched.group)?;
    Ok(true)
}

/// Runs the command in a process for each visible GPU, if there are several and no launcher has started this
/// process. Returns whether it did.
///
/// # Errors
/// Launchers and flags that contradict themselves; the first failure of a process.
pub(super) fn on_every_device(command: &ModelCommand, args: &[String]) -> Result<bool, Failure> {
    let world = world(&command.distributed())?;
    let num_devices = num_devices(world.as_ref(), visible_gpus);
    if num_devices == 1 || !command.is_shared() {
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
        store: StoreOwner::RankZero,
        run_id: None,
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
    if !command.is_shared() {
        return Ok(world.map_or(1, |world| world.size));
    }
    Ok(world.map_or_else(|| visible_gpus().max(1), |world| world.size))
}

/// Returns the number of all processes of a command whose work is shared, which has no flags about them.
///
/// # Errors
/// A launcher's variables contradict themselves.
pub(super) fn num_sharing() -> Result<usize, Failure> {
    let world = world(&DistributedArgs::default())?;
    Ok(world.map_or_else(|| visible_gpus().max(1), |world| world.size))
}

/// Whether this process speaks for all processes of a command whose work is shared.
///
/// # Errors
/// A launcher's variables contradict themselves.
pub(super) fn is_first() -> Result<bool, Failure> {
    Ok(world(&DistributedArgs::default())?.is_none_or(|world| world.rank == 0))
}

/// Returns the number of processes that a command without a launcher needs.
fn num_devices(world: Option<&World>, visible_gpus: impl FnOnce() -> usize) -> usize {
    match world {
        Some(_) => 1,
        None => visible_gpus().max(1),
    }
}

fn run(group: &WorkerGroup) -> Result<(), Failure> {
    let signals = interrupt::received().map_err(Failure::world)?;
    ended(group, supervise(group, &signals, &telemetry::notice))
}

/// Returns the result of a command whose processes have ended.
///
/// # Errors
/// The failure that ended them.
pub(super) fn ended(group: &WorkerGroup, end: io::Result<GroupEnd>) -> Result<(), Failure> {
    let end = end.map_err(|error| {
        let message = format!("cannot start {}", group.program.display());
        Failure::World(anyhow!(error).context(message))
    })?;
    match end {
        GroupEnd::Finished => Ok(()),
        GroupEnd::Interrupted(status) => Err(Failure::Interrupted(i32::from(status) - 128)),
        GroupEnd::Failed(failure) => Err(Failure::Worker(failure)),
        GroupEnd::Lost(message) => Err(Failure::World(anyhow!(message))),
        GroupEnd::Unlike(message) => Err(Failure::Usage(anyhow!(message))),
    }
}

/// Checks the flags.
fn group(
    args: &LaunchArgs,
    machines: Machines,
    visible_gpus: usize,
) -> Result<WorkerGroup, Failure> {
    let usage = |message: String| Failure::Usage(anyhow!(message));
    let nnodes = machines.most;
    if let Some(rank) = args.node_rank.filter(|rank| *rank >= nnodes) {
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
        node_rank: args.node_rank.unwrap_or(0),
        endpoint: endpoint(args.meeting_place().as_deref(), nnodes)?,
        store: StoreOwner::RankZero,
        run_id: None,
        max_restarts: args.max_restarts,
        grace: Duration::from_secs(args.grace),
    })
}

/// Returns the place where the processes meet; `None` for a free port of this machine.
fn endpoint(flag: Option<&str>, nnodes: usize) -> Result<Option<(String, u16)>, Failure> {
    match flag {
        Some(flag) if nnodes == 1 && flag.ends_with(":0") => Ok(None),
        Some(flag) => host_and_port("--rdzv_endpoint", flag).map(Some).map_err(Failure::usage),
        None if nnodes == 1 => Ok(None),
        None => Err(Failure::Usage(anyhow!(
            "{nnodes} machines need --rdzv_endpoint=HOST:PORT, with the name of one of them"
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
        let machines = Machines::parse(&args.nnodes).expect("a number or a range");
        let shown = match group(&args, machines, visible_gpus) {
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
        check("--rdzv_backend=c10d --rdzv_id=7 --rdzv_endpoint=a:5", 1, r#"1 1 Some(("a", 5))"#);
        check("--nnodes=2 --master_addr=a", 1, r#"1 2 Some(("a", 29500))"#);
        check("--master_addr=fd00::1 --master_port=5", 1, r#"1 1 Some(("fd00::1", 5))"#);
    }

    #[test]
    fn mistakes_in_flags_are_refused() {
        let no_gpu = "there is no visible GPU to start a process for: give --nproc_per_node";
        check("", 0, no_gpu);
        check("--nproc_per_node=0", 4, "--nproc_per_node is 0, expected at least 1");
        check("--node_rank=1", 1, "--node_rank is 1, expected less than --nnodes, 1");
        let found = endpoint(None, 2).expect_err("where do they meet?").to_string();
        assert_eq!(
            found,
            "2 machines need --rdzv_endpoint=HOST:PORT, with the name of one of them"
        );
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
