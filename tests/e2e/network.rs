//! Two machines whose network is cut: namespaces of the system, with two processes of a run in each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::arrays;
use crate::command::Train;
use crate::folder::{Folder, steps};
use crate::machines::{Machine, has_torch};
use crate::processes::launched;
use crate::resume::{has_ended, wait};

const STEPS: u64 = 400;
/// The seconds after which a process that does not answer counts as lost.
const TIMEOUT_SECS: u64 = 8;
/// The time in which all processes have ended: the timeout, the roll call of those that are left, and the
/// words of the one that ends first.
const BOUND: Duration = Duration::from_secs(TIMEOUT_SECS + 25);

/// Two namespaces with a cable between them, removed with this value.
struct Network {
    names: [String; 2],
}

fn ip(words: &str) -> bool {
    let status = Command::new("ip").args(words.split(' ')).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

impl Network {
    /// Returns `None` where the system does not permit it.
    fn new() -> Option<Self> {
        let id = std::process::id();
        let network = Self { names: ["a", "b"].map(|side| format!("gimlet-{side}-{id}")) };
        let [a, b] = &network.names;
        // Names of devices have at most 15 letters.
        let is_made = ip(&format!("netns add {a}"))
            && ip(&format!("netns add {b}"))
            && ip(&format!("-n {a} link add cable type veth peer name cable netns {b}"));
        let is_up = |name: &str, address: &str| {
            ip(&format!("-n {name} address add {address}/24 dev cable"))
                && ip(&format!("-n {name} link set lo up"))
                && ip(&format!("-n {name} link set cable up"))
        };
        (is_made && is_up(a, "10.77.0.1") && is_up(b, "10.77.0.2")).then_some(())?;
        let hosts = format!("127.0.0.1 localhost\n10.77.0.1 {a}\n10.77.0.2 {b}\n");
        for name in &network.names {
            let folder = hosts_folder(name);
            fs::create_dir_all(&folder).ok()?;
            fs::write(folder.join("hosts"), &hosts).ok()?;
        }
        Some(network)
    }

    fn set(&self, state: &str) {
        assert!(ip(&format!("-n {} link set cable {state}", self.names[0])), "cable {state}");
    }

    /// A command as the machine of that number runs it.
    fn on(&self, machine: usize, train: &Train) -> Command {
        let (name, inner) = (&self.names[machine], train.command());
        let mut command = Command::new("ip");
        command.args(["netns", "exec", name, "unshare", "--uts", "sh", "-c"]);
        command.args([&format!("hostname {name}; exec \"$@\""), "sh"]);
        command.arg(inner.get_program()).args(inner.get_args());
        command.current_dir(inner.get_current_dir().expect("it runs in a folder"));
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdin(Stdio::null());
        command
    }
}

/// The folder from which `ip netns exec` takes files of `/etc`.
fn hosts_folder(name: &str) -> PathBuf {
    Path::new("/etc/netns").join(name)
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&format!("netns del {name}"));
            let _ = fs::remove_dir_all(hosts_folder(name));
        }
    }
}

#[test]
#[ignore = "takes three minutes, and needs rights and a Python with torch: `GIMLET_PYTHON=python3 make soak`"]
fn a_network_that_is_cut_ends_all_processes_in_time_and_the_run_goes_on_when_it_is_healed() {
    if !has_torch() {
        return;
    }
    let Some(network) = Network::new() else {
        eprintln!("skipped: this system does not permit network namespaces");
        return;
    };
    let folder = Folder::new();
    let model_dir = folder.path("cut");
    let train = folder.pretrain(STEPS).bind_text("MODEL_DIR", &model_dir);
    let train = train.env("GIMLET_PROCESS_TIMEOUT_SECS", &TIMEOUT_SECS.to_string());
    let endpoint = format!("--rdzv_endpoint={}:29400", network.names[0]);
    let flags = ["--nnodes=2", "--nproc_per_node=2", "--max_restarts=1", &endpoint];
    let train = train.tool(&[&["launch"][..], &flags, &["train"]].concat());
    // One machine's device is found by its host name, the other one's is chosen.
    let other = train.clone().env("GLOO_SOCKET_IFNAME", "cable");
    let start = |machine, train, log| Machine::start(network.on(machine, train), folder.path(log));
    let mut machines = [start(0, &train, "a.txt"), start(1, &other, "b.txt")];
    wait(|| {
        steps(&model_dir).len() > 2 || machines.iter_mut().any(|it| has_ended(&mut it.launcher))
    });

    network.set("down");
    let cut = Instant::now();
    let have_ended = |machines: &[Machine]| machines.iter().all(|it| it.workers().is_empty());
    wait(|| have_ended(&machines) || cut.elapsed() > BOUND);
    eprintln!("all processes ended {:?} after the network was cut", cut.elapsed());
    assert!(cut.elapsed() < BOUND, "{}\n{}", machines[0].log(), machines[1].log());
    let saved = steps(&model_dir).last().copied();
    network.set("up");
    for machine in &mut machines {
        machine.assert_ends(0);
    }
    assert!(saved < Some(STEPS), "it was cut before its end: {saved:?}");
    let whole = folder.path("whole");
    launched(folder.pretrain(STEPS).bind_text("MODEL_DIR", &whole), 4).succeeds();
    let [found, expected] = [&model_dir, &whole].map(|dir| arrays::open(dir, STEPS));
    arrays::assert_same(&found, &expected);
}
