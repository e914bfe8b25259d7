//! Runs on several machines: each is a launcher here. A lost one costs the steps after the last save, and one that
//! comes back is taken in at the next start.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::arrays;
use crate::command::Train;
use crate::folder::{Folder, steps};
use crate::processes::{free_port, signal, worker};
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

    /// Waits until the launcher has printed some words.
    pub fn wait_for(&mut self, words: &str) {
        wait(|| self.log().contains(words) || has_ended(&mut self.launcher));
        assert!(self.log().contains(words), "`{words}` is not in:\n{}", self.log());
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

/// A launcher of a run, of which others are on this machine too.
fn launcher(train: &Train, port: u16, flags: &[&str]) -> Train {
    let endpoint = format!("--rdzv_endpoint=127.0.0.1:{port}");
    let words = ["launch", "--nproc_per_node=1", "--grace=1", &endpoint];
    let train = train.clone().env("GLOO_SOCKET_IFNAME", "lo");
    train.tool(&[&words[..], flags, &["train"]].concat())
}

fn wait_for_next_save(model_dir: &Path) {
    let before = steps(model_dir);
    wait(|| steps(model_dir).last() > before.last());
}

#[test]
fn a_run_goes_on_with_fewer_machines_and_takes_in_one_that_comes_back() {
    let folder = Folder::new();
    let (model_dir, port) = (folder.path("elastic"), free_port());
    let train = folder.pretrain(1_000_000).bind_text("MODEL_DIR", &model_dir);
    let conf = "--rdzv_conf=last_call_timeout=6,keep_alive_timeout=5";
    let launcher = launcher(&train, port, &["--nnodes=1:2", "--max_restarts=3", conf]);
    let start = |name: &str| Machine::start(launcher.command(), folder.path(name));

    let mut first = start("first.txt");
    wait(|| TcpStream::connect(("127.0.0.1", port)).is_ok() || has_ended(&mut first.launcher));
    let mut second = start("second.txt");
    second.wait_for("machine 1 of 2, start 0");
    wait_for_next_save(&model_dir);
    // The system ends its processes with it.
    send(&second.launcher, libc::SIGKILL);
    first.wait_for("starting all again, 1 of 3");
    first.wait_for("machine 0 of 1, start 1");
    wait_for_next_save(&model_dir);
    let mut third = start("third.txt");
    third.wait_for("the others run without this machine");
    signal(worker(&first.launcher, 0), libc::SIGKILL);
    third.wait_for("machine 1 of 2, start 2");
    wait_for_next_save(&model_dir);
    send(&first.launcher, libc::SIGTERM);
    first.assert_ends(128 + libc::SIGTERM);
    third.assert_ends(128 + libc::SIGTERM);

    let end = *steps(&model_dir).last().expect("it has saved");
    let whole = folder.path("whole");
    folder.pretrain(end).bind_text("MODEL_DIR", &whole).succeeds();
    arrays::assert_close(&arrays::open(&model_dir, end), &arrays::open(&whole, end), 1e-5);
}

#[test]
fn launchers_with_other_flags_are_refused() {
    let folder = Folder::new();
    let (train, port) = (folder.pretrain(1), free_port());
    let launcher = |flag| launcher(&train, port, &["--nnodes=2", flag]);
    let mut first =
        Machine::start(launcher("--max_restarts=1").command(), folder.path("first.txt"));
    wait(|| TcpStream::connect(("127.0.0.1", port)).is_ok() || has_ended(&mut first.launcher));
    let refused = launcher("--max_restarts=2").run();
    assert_eq!(refused.status, Some(2), "{}", refused.stderr);
    let flags =
        |max_restarts| format!("--nnodes=2 --nproc_per_node=1 --max_restarts={max_restarts}");
    let words = format!("this launcher has {} and that at --rdzv_endpoint {}", flags(2), flags(1));
    assert!(refused.stderr.contains(&words), "{}", refused.stderr);
    send(&first.launcher, libc::SIGTERM);
    first.assert_ends(128 + libc::SIGTERM);
}
