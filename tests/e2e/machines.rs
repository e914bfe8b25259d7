//! Runs on several machines, by PyTorch's elastic launcher: each machine is a launcher here.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::arrays;
use crate::folder::{Folder, steps};
use crate::processes::{free_port, signal};
use crate::resume::{has_ended, send, wait};

/// A launcher, ended with this value.
pub struct Machine {
    pub launcher: Child,
    log: PathBuf,
}

impl Machine {
    pub fn start(mut command: std::process::Command, log: PathBuf) -> Self {
        let file = File::create(&log).expect("the folder is writable");
        let launcher = command.stdout(Stdio::null()).stderr(file).spawn().expect("it starts");
        Self { launcher, log }
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("it is written")
    }

    /// Returns its processes of the run that have not ended.
    pub fn workers(&self) -> Vec<i32> {
        let id = self.launcher.id();
        let list = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        // Neither a Python that is asked for its torch nor a process that has ended has such an environment.
        let is_worker = |id: &i32| {
            let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains("TORCHELASTIC_RUN_ID=")
        };
        list.split_whitespace().map(|id| id.parse().unwrap()).filter(is_worker).collect()
    }

    pub fn assert_ends(&mut self, status: i32) {
        wait(|| has_ended(&mut self.launcher));
        let found = self.launcher.wait().expect("it has ended").code();
        assert_eq!(found, Some(status), "{}", self.log());
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.launcher.kill();
        let _ = self.launcher.wait();
    }
}

/// Whether there is a Python whose torch has the launcher; otherwise the test says that it is skipped.
pub fn has_torch() -> bool {
    let is_named = env::var_os("GIMLET_PYTHON").is_some();
    if !is_named {
        eprintln!("skipped: GIMLET_PYTHON names no Python with torch");
    }
    is_named
}

fn wait_for_next_save(model_dir: &Path) {
    let before = steps(model_dir);
    wait(|| steps(model_dir).last() > before.last());
}

#[test]
#[ignore = "takes a minute, and needs a Python with torch: `GIMLET_PYTHON=python3 make soak`"]
fn a_run_goes_on_with_fewer_machines_and_takes_in_one_that_comes_back() {
    if !has_torch() {
        return;
    }
    let folder = Folder::new();
    let (model_dir, endpoint) =
        (folder.path("elastic"), format!("--rdzv_endpoint=127.0.0.1:{}", free_port()));
    let conf = "--rdzv_conf=last_call_timeout=6";
    let flags = ["--nnodes=1:2", "--nproc_per_node=1", "--max_restarts=3", &endpoint, conf];
    let train = folder.pretrain(1_000_000).bind_text("MODEL_DIR", &model_dir);
    let train = train.env("GLOO_SOCKET_IFNAME", "lo");
    let train =
        train.tool(&[&["launch"], &flags[..], &["--local_addr=127.0.0.1", "train"]].concat());
    let start = |name: &str| Machine::start(train.command(), folder.path(name));

    let first = start("first.txt");
    let mut second = start("second.txt");
    wait(|| !second.workers().is_empty() || has_ended(&mut second.launcher));
    wait_for_next_save(&model_dir);
    let lost = second.workers();
    send(&second.launcher, libc::SIGKILL);
    lost.into_iter().for_each(|worker| signal(worker, libc::SIGKILL));
    wait_for_next_save(&model_dir);
    let mut third = start("third.txt");
    wait(|| !third.workers().is_empty() || has_ended(&mut third.launcher));
    wait_for_next_save(&model_dir);
    for machine in [&third, &first] {
        send(&machine.launcher, libc::SIGTERM);
    }
    for mut machine in [third, first] {
        machine.assert_ends(1);
    }

    let end = *steps(&model_dir).last().expect("it has saved");
    let whole = folder.path("whole");
    folder.pretrain(end).bind_text("MODEL_DIR", &whole).succeeds();
    arrays::assert_close(&arrays::open(&model_dir, end), &arrays::open(&whole, end), 1e-5);
}
