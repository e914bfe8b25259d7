//! `gimlet launch` on several machines: PyTorch's elastic launcher takes over. It comes with the Python package
//! torch, to which libtorch belongs, and starts `gimlet COMMAND` in the processes of this machine.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::anyhow;

use super::failure::Failure;
use super::launch_flags::LaunchArgs;
use super::start::python_with_torch;
use crate::launch::{WorkerGroup, divided_cores};
use crate::telemetry;

/// The module of PyTorch's elastic launcher, which `torchrun` starts too.
const ELASTIC_LAUNCHER: &str = "torch.distributed.run";

/// The variable without which the processes of all starts share a store of the first machine. That launcher (of torch 2.11)
/// keeps its address for later starts: a machine that comes later never learns it, and a loss of the first machine is
/// the end.
const OWN_STORES: &str = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE";

/// The numbers of machines of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machines {
    /// Fewer do not start.
    pub least: usize,
    /// More wait in reserve.
    pub most: usize,
}

impl Machines {
    /// Reads `N` and `MIN:MAX`.
    ///
    /// # Errors
    /// The message about another text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (least, most) = text.split_once(':').unwrap_or((text, text));
        match (least.parse(), most.parse()) {
            (Ok(least), Ok(most)) if 0 < least && least <= most => Ok(Self { least, most }),
            _ => Err(format!(
                "--nnodes is `{text}`, expected a number from 1 on, or a range such as 2:4"
            )),
        }
    }
}

/// Returns the command of PyTorch's elastic launcher, which runs the group's command on this machine.
///
/// # Errors
/// Flags that it does not know; no Python has torch.
pub fn elastic_launcher(args: &LaunchArgs, group: &WorkerGroup) -> Result<Command, Failure> {
    let words = words(args, group)?;
    let mut command = Command::new(python_with_torch()?);
    command.args(words).arg(&group.program).args(&group.args);
    command.envs(divided_cores(group.nproc_per_node));
    if env::var_os(OWN_STORES).is_none() {
        command.env(OWN_STORES, "1");
    }
    Ok(command)
}

/// Replaces this process by that launcher. Returns only if that fails.
pub fn hand_over(mut launcher: Command) -> Failure {
    telemetry::detail(&format!("starting {launcher:?}"));
    let error = launcher.exec();
    let program = launcher.get_program().display();
    Failure::World(anyhow!(error).context(format!("cannot start {program}")))
}

/// Returns the words of that launcher before the program.
fn words(args: &LaunchArgs, group: &WorkerGroup) -> Result<Vec<String>, Failure> {
    if args.grace.is_some() {
        let message =
            "--grace is for one machine; on several, processes have 30 s to end: leave it out";
        return Err(Failure::Usage(anyhow!(message)));
    }
    if args.rdzv_conf.as_deref().is_some_and(|conf| conf.contains("keep_alive_timeout")) {
        let message = "--rdzv_conf has `keep_alive_timeout`, which torchrun does not know: give `keep_alive_interval` and \
                       `keep_alive_max_attempt`, 5 s and 3 by default, whose product it is";
        return Err(Failure::Usage(anyhow!(message)));
    }
    let backend = args.rdzv_backend.clone().unwrap_or_else(|| "c10d".to_string());
    let flags = [
        ("nnodes", Some(args.nnodes.clone())),
        ("nproc_per_node", Some(group.nproc_per_node.to_string())),
        ("max_restarts", Some(args.max_restarts.to_string())),
        ("rdzv_backend", Some(backend)),
        ("rdzv_endpoint", args.meeting_place()),
        ("rdzv_id", args.rdzv_id.clone()),
        ("rdzv_conf", args.rdzv_conf.clone()),
        ("node_rank", args.node_rank.map(|rank| rank.to_string())),
        ("local_addr", args.local_addr.clone()),
    ];
    let given = flags.into_iter().filter_map(|(flag, value)| Some(format!("--{flag}={}", value?)));
    let first = ["-m", ELASTIC_LAUNCHER, "--no_python"].map(str::to_string);
    Ok(first.into_iter().chain(given).collect())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::launch::Launched;
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        launch: LaunchArgs,
    }

    /// Checks the words of torch's launcher, or the message.
    fn check(flags: &str, expected: &str) {
        let line = format!("gimlet --nproc_per_node=2 {flags} -- train");
        let args = Line::parse_from(line.split_whitespace()).launch;
        let launched = Launched::read(&args).expect("the flags are valid");
        let words = words(&args, &launched.group);
        let shown = words.map_or_else(|failure| failure.to_string(), |words| words.join(" "));
        assert_eq!(shown, expected, "{flags}");
    }

    #[test]
    fn machines_are_a_number_or_a_range() {
        assert_eq!(Machines::parse("3"), Ok(Machines { least: 3, most: 3 }));
        assert_eq!(Machines::parse("1:4"), Ok(Machines { least: 1, most: 4 }));
        for text in ["all", "0", "3:2", "0:2", "1:"] {
            let found = Machines::parse(text).unwrap_err();
            let expected = "expected a number from 1 on, or a range such as 2:4";
            assert_eq!(found, format!("--nnodes is `{text}`, {expected}"));
        }
    }

    #[test]
    fn flags_reach_the_launcher_of_torch() {
        let first = "-m torch.distributed.run --no_python";
        check(
            "--nnodes=2 --rdzv_endpoint=a:5",
            &format!(
                "{first} --nnodes=2 --nproc_per_node=2 --max_restarts=0 --rdzv_backend=c10d --rdzv_endpoint=a:5"
            ),
        );
        check(
            "--nnodes=1:2 --master_addr=fd00::1 --max_restarts=3 --rdzv_id=7 --rdzv_conf=join_timeout=60 --local_addr=b",
            &format!(
                "{first} --nnodes=1:2 --nproc_per_node=2 --max_restarts=3 --rdzv_backend=c10d \
                 --rdzv_endpoint=[fd00::1]:29500 --rdzv_id=7 --rdzv_conf=join_timeout=60 --local_addr=b"
            ),
        );
    }

    #[test]
    fn flags_that_the_launcher_of_torch_lacks_are_refused() {
        check(
            "--nnodes=2 --rdzv_endpoint=a:5 --grace=5",
            "--grace is for one machine; on several, processes have 30 s to end: leave it out",
        );
        check(
            "--nnodes=2 --rdzv_endpoint=a:5 --rdzv_conf=keep_alive_timeout=9",
            "--rdzv_conf has `keep_alive_timeout`, which torchrun does not know: give `keep_alive_interval` and \
             `keep_alive_max_attempt`, 5 s and 3 by default, whose product it is",
        );
    }
}
