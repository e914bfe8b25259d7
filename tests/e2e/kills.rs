//! Random processes of a run are killed or stopped at random moments, and `gimlet launch` starts all of them again.
//! The last checkpoint is bit for bit that of the same processes undisturbed, and no checkpoint is ever visible
//! before it is whole.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use gimlet::checkpoint::{Stored, committed};
use gimlet::models::open;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::arrays;
use crate::buckets::{copy, in_bucket};
use crate::command::{Train, sources};
use crate::folder::{Folder, steps};
use crate::processes::signal;
use crate::resume::{has_ended, send};
use crate::s3::S3;
use crate::server::Server;

/// The number of kills.
const KILLS: &str = "GIMLET_TEST_KILLS";
/// The longest time between two kills: that of a start and some checkpoints.
const LONGEST_LIFE: Duration = Duration::from_secs(7);
/// The time in which a run makes the next checkpoint, however slow the machine is.
const PATIENCE: Duration = Duration::from_secs(300);
/// One signal of so many stops a process, in place of ending it.
const STOPS: u32 = 10;

pub fn num_kills(default: usize) -> usize {
    std::env::var(KILLS).map_or(default, |number| number.parse().expect("a number"))
}

/// Two processes along each axis, of which the others notice soon that one is stopped.
fn mesh(train: Train, max_restarts: usize) -> Train {
    let train = train
        .num_threads(1)
        .bind("partitioning.PjitPartitioner.num_partitions", 2)
        .bind("utils.SaveCheckpointConfig.keep", 4)
        .arg("--initialization_timeout=60")
        .env("GIMLET_PROCESS_TIMEOUT_SECS", "5");
    let restarts = max_restarts.to_string();
    let words = ["launch", "--nproc_per_node=4", "--grace=1", "--max_restarts", &restarts, "train"];
    train.tool(&words)
}

/// A run that is disturbed, and the folder that holds its checkpoints.
struct Disturbed<'a> {
    launcher: Child,
    model_dir: &'a Path,
    log: &'a Path,
    random: StdRng,
}

impl Disturbed<'_> {
    fn newest(&self) -> Option<u64> {
        steps(self.model_dir).last().copied()
    }

    /// Sends a signal to a process of the run at a random moment.
    fn disturb(&mut self) {
        std::thread::sleep(LONGEST_LIFE.mul_f64(self.random.random()));
        let (id, before) = (self.launcher.id(), self.newest());
        let list = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let list = list.unwrap_or_else(|_| panic!("it runs:\n{}", self.log()));
        let children: Vec<i32> = list.split_whitespace().map(|id| id.parse().unwrap()).collect();
        // Between two starts there is none.
        if !children.is_empty() {
            let child = children[self.random.random_range(0..children.len())];
            let is_stop = self.random.random_ratio(1, STOPS);
            signal(child, if is_stop { libc::SIGSTOP } else { libc::SIGKILL });
        }
        self.assert_whole(before);
    }

    /// Asserts that the newest checkpoint is whole, and not older than one that was seen before.
    fn assert_whole(&self, before: Option<u64>) {
        let newest = self.newest();
        assert!(newest >= before, "a finished checkpoint is gone: {before:?}, {newest:?}");
        if let Some(step) = newest {
            let reader = opened(self.model_dir, step);
            for array in reader.leaves() {
                reader.read(array.name).expect("a visible checkpoint is whole");
            }
        }
    }

    /// Lets the run make one more checkpoint, and asks it to end. Returns the step that it saves then.
    fn finish(mut self) -> u64 {
        let (before, end) = (self.newest(), Instant::now() + PATIENCE);
        while self.newest() <= before {
            assert!(!has_ended(&mut self.launcher), "{}", self.log());
            assert!(Instant::now() < end, "no checkpoint follows {before:?}:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        send(&self.launcher, libc::SIGTERM);
        let status = self.launcher.wait().expect("it ends");
        assert_eq!(status.code(), Some(128 + libc::SIGTERM), "{}", self.log());
        self.newest().expect("it has saved")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.log).expect("it is written")
    }
}

impl Drop for Disturbed<'_> {
    fn drop(&mut self) {
        let _ = self.launcher.kill();
    }
}

/// Disturbs a run, and compares its end with that of one without a disturbance.
fn check(folder: &Folder, train: Train, model_dir: &Path, kills: usize) {
    let log = folder.path("log.txt");
    let file = File::create(&log).expect("the folder is writable");
    let mut command = mesh(train, kills).command();
    let launcher = command.stdout(Stdio::null()).stderr(file).spawn().expect("gimlet starts");
    let random = StdRng::seed_from_u64(19);
    let (begun, log) = (Instant::now(), &*log);
    let mut run = Disturbed { launcher, model_dir, log, random };
    for _ in 0..kills {
        run.disturb();
    }
    let end = run.finish();
    let restarts =
        fs::read_to_string(log).expect("it is written").matches("starting all again").count();
    eprintln!("{kills} kills, {restarts} restarts, {end} steps in {:?}", begun.elapsed());
    let whole = folder.path("whole");
    mesh(folder.pretrain(end).bind_text("MODEL_DIR", &whole), 0).succeeds();
    let [found, expected] = [model_dir, &whole].map(|dir| opened(dir, end));
    arrays::assert_same(&*found, &*expected);
}

/// Opens the checkpoint of a step, of any format.
pub fn opened(model_dir: &Path, step: u64) -> Box<dyn Stored> {
    let model_dir = gimlet::storage::Path::try_from(model_dir).expect("the path is text");
    let found = committed(&model_dir).expect("the folder is readable");
    open(&found[&step]).expect("a visible checkpoint is whole")
}

#[test]
fn a_run_of_four_processes_survives_kills_of_any_of_them() {
    let folder = Folder::new();
    let model_dir = folder.path("killed");
    let train = folder.pretrain(1_000_000).bind_text("MODEL_DIR", &model_dir);
    check(&folder, train, &model_dir, num_kills(2));
}

#[test]
#[ignore = "takes minutes: `make soak`"]
fn a_run_of_four_processes_with_files_of_t5_experiments_survives_kills_of_any_of_them() {
    let folder = Folder::new();
    let model_dir = folder.path("killed");
    let train = folder.pretrain(1_000_000).bind_text("MODEL_DIR", &model_dir);
    let train = train.bind_text("utils.SaveCheckpointConfig.format", "trainer");
    check(&folder, train, &model_dir, num_kills(20));
}

#[test]
#[ignore = "takes minutes: `make soak`"]
fn a_run_of_four_processes_in_a_bucket_survives_kills_of_any_of_them() {
    let folder = Folder::new();
    let s3 = S3::new("bucket", Some(("key", "secret")));
    let bucket = s3.root.path().join("bucket");
    copy(&sources("gin"), &bucket.join("gin"));
    let server = Server::start(move |request| s3.answer(request));
    let train = in_bucket(&folder, &server, 1_000_000);
    check(&folder, train, &bucket.join("runs/a"), num_kills(20));
}
