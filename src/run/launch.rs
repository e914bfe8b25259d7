//! `gimlet launch`: runs a command in several processes of this machine, as torchrun does, and leaves several machines to
//! torchrun itself (`machines.rs`). A command on a model without it starts a process for each of several GPUs by itself.

use std::env;
use std::time::Duration;

use anyhow::anyhow;

use crate::launch::{DistributedArgs, GroupEnd, WorkerGroup, World, host_and_port, supervise};
use crate::telemetry;

use super::cache::{cache_command, check_cache};
use super::cli::{Command, parse};
use super::commands::ModelCommand;
use super::failure::Failure;
use super::foreign::ForeignCommand;
use super::interrupt;
use super::launch_flags::LaunchArgs;
use super::machines::{Machines, elastic_launcher, hand_over};
use super::output::write;
use super::world::{visible_gpus, world};

/// The seconds that processes have to end after another one has failed.
const GRACE_SECS: u64 = 30;

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
                    let translated = run.translated(num_processes, color)?;
                    if run.prints_gin() {
                        return write(&translated.command.print_gin(color)?).map(|()| true);
                    }
                    write(&translated.description)?;
                    return translated.command.check(color, num_processes).map(|()| false);
                }
                let found = &self.group.args[0];
                let message = format!(
                    "`gimlet launch` runs `train`, `eval`, `infer`, `t5_mesh_transformer`, `t5_experiments`, `cache` and `bench train_step`, and not `{found}`"
                );
                return Err(Failure::Usage(anyhow!(message)));
            }
        }
        Ok(false)
    }
}

/// Runs the command in processes of this machine if it is the only one, or hands over to the launcher of several machines.
///
/// # Errors
/// Mistakes in the command, before a process is started; the first failure of a process.
pub(super) fn launch(args: &LaunchArgs, color: bool) -> Result<(), Failure> {
    let launched = Launched::read(args)?;
    let Launched { group, machines, .. } = &launched;
    let elastic = (machines.most > 1).then(|| elastic_launcher(args, group)).transpose()?;
    // Mistakes are reported here, once and in colour.
    if launched.check(color, machines.most)? {
        return Ok(());
    }
    let Some(elastic) = elastic else { return run(group) };
    for size in machines.least..machines.most {
        if let Err(failure) = launched.check(false, size) {
            telemetry::notice(&format!("the run cannot continue on {size} machines: {failure}"));
        }
    }
    Err(hand_over(elastic))
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
    if !command.is_shared() {
        return Ok(world.map_or(1, |world| world.size));
    }
    Ok(world.map_or_else(|| visible_gpus().max(1), |world| world.size))
}

/// Returns the number of all processes of another project's command, which has no flags about them.
///
/// # Errors
/// A launcher's variables contradict themselves.
pub(super) fn num_sharing(run: &dyn ForeignCommand) -> Result<usize, Failure> {
    let world = world(&DistributedArgs::default())?;
    let alone = || if run.uses_every_gpu() { visible_gpus().max(1) } else { 1 };
    Ok(world.map_or_else(alone, |world| world.size))
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
        endpoint: endpoint(args.meeting_place().as_deref(), nnodes)?,
        max_restarts: args.max_restarts,
        grace: Duration::from_secs(args.grace.unwrap_or(GRACE_SECS)),
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
            Ok(group) => format!("{} {:?}", group.nproc_per_node, group.endpoint),
            Err(failure) => failure.to_string(),
        };
        assert_eq!(shown, expected, "{flags}");
    }

    #[test]
    fn flags_are_torchruns() {
        check("--nproc_per_node=1", 0, "1 None");
        check("--nproc-per-node 1 --nnodes 1:1 --rdzv-endpoint localhost:0", 4, "1 None");
        check("--rdzv_endpoint=a:5", 1, r#"1 Some(("a", 5))"#);
        check("--rdzv_backend=c10d --rdzv_id=7 --rdzv_endpoint=a:5", 1, r#"1 Some(("a", 5))"#);
        check("--nnodes=2 --master_addr=a", 1, r#"1 Some(("a", 29500))"#);
        check("--master_addr=fd00::1 --master_port=5", 1, r#"1 Some(("fd00::1", 5))"#);
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
