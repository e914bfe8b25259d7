//! Several processes make the run of one: the same losses, evaluations and checkpoints, with dropout, in
//! parts, packed (float32, relative 1e-5). They end together, and say which of them is lost.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};
use std::{fmt, fs};

use gimlet::checkpoint::Stored;

use crate::arrays;
use crate::command::{Ended, Train};
use crate::events::read_scalars;
use crate::folder::{Folder, steps};

pub const STEPS: u64 = 10;
pub const TOLERANCE: f64 = 1e-5;

/// `gimlet launch` of a training, in so many processes.
pub fn launched(train: Train, count: usize) -> Train {
    launched_as(train, count, "train")
}

/// `gimlet launch` of a command, in so many processes.
pub fn launched_as(run: Train, count: usize, command: &str) -> Train {
    run.tool(&["launch", "--nproc_per_node", &count.to_string(), command])
}

fn run(folder: &Folder, name: &str, count: usize, change: &dyn Fn(Train) -> Train) -> PathBuf {
    let model_dir = folder.path(name);
    let train = change(folder.pretrain(STEPS).bind_text("MODEL_DIR", &model_dir));
    if count == 1 { train } else { launched(train, count) }.succeeds();
    model_dir
}

/// The largest difference between two runs, relative to the expected value or norm, and where it is.
#[derive(Default)]
pub struct Difference {
    relative: f64,
    place: String,
}

impl Difference {
    fn or(self, relative: f64, place: impl FnOnce() -> String) -> Self {
        // A number that is none is the largest.
        if relative <= self.relative { self } else { Self { relative, place: place() } }
    }

    pub fn is_at_most(&self, tolerance: f64) -> bool {
        self.relative <= tolerance
    }
}

impl fmt::Debug for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1e} ({})", self.relative, self.place)
    }
}

/// Returns the largest differences of metrics, and of the arrays of the checkpoints after so many steps.
pub fn differences(found: &Path, expected: &Path, steps: u64) -> [Difference; 2] {
    let arrays = [found, expected].map(|dir| arrays::open(dir, steps));
    let metrics = difference_of_metrics(found, expected, "training_eval/lines");
    [metrics, difference_of_arrays(&arrays[0], &arrays[1])]
}

/// Returns the largest difference of metrics, of which one folder has those of evaluations.
pub fn difference_of_metrics(found: &Path, expected: &Path, evaluation: &str) -> Difference {
    let mut metrics = Difference::default();
    for log in ["train", evaluation] {
        let [found, expected] = [found, expected].map(|dir| read_scalars(&dir.join(log)));
        // A weight near zero decides quotients by weights. The confidence of routers is the mean of those of the parts of
        // a batch, of which each has its own number of places.
        let is_left_out = |tag: &str| {
            tag.starts_with("timing/")
                || tag.contains("divided_by_weight")
                || tag == "experts/router_confidence"
        };
        for (tag, points) in expected.iter().filter(|(tag, _)| !is_left_out(tag)) {
            for (step, expected) in points {
                let found = found[tag][step];
                let relative = match found - expected {
                    0.0 => 0.0,
                    difference => (difference / expected).abs(),
                };
                let place =
                    || format!("{log}, step {step}: {tag} is {found} instead of {expected}");
                metrics = metrics.or(relative, place);
            }
        }
    }
    metrics
}

/// Returns the largest difference of arrays.
pub fn difference_of_arrays(found: &dyn Stored, expected: &dyn Stored) -> Difference {
    let largest = |largest: Difference, (name, error)| largest.or(error, || name);
    arrays::errors(found, expected).into_iter().fold(Difference::default(), largest)
}

pub fn assert_same_run(found: &Path, expected: &Path) {
    let found = differences(found, expected, STEPS);
    // Means of squared gradients among the arrays differ twice as much as gradients do.
    let [of_metrics, of_arrays] = &found;
    let is_same = of_metrics.is_at_most(TOLERANCE) && of_arrays.is_at_most(2.0 * TOLERANCE);
    assert!(is_same, "{found:?}");
}

#[test]
fn several_processes_make_the_run_of_one() {
    let folder = Folder::new();
    let in_parts = |train: Train| {
        train
            .bind("trainer.Trainer.num_microbatches", 2)
            .bind("LOSS_NORMALIZING_FACTOR", "'NUM_REAL_TARGET_TOKENS'")
    };
    let one = run(&folder, "one", 1, &in_parts);
    assert_same_run(&run(&folder, "two", 2, &in_parts), &one);
    assert_same_run(&run(&folder, "four", 4, &in_parts), &one);
    assert!(read_scalars(&folder.path("four/train")).contains_key("timing/slowest_rank_seconds"));
    let log = fs::read_to_string(folder.path("four/logs/rank_3.log")).expect("a log of its own");
    assert!(log.contains("finished at step 10"), "{log}");
}

#[test]
fn a_run_goes_on_with_another_number_of_processes() {
    let folder = Folder::new();
    let adamw = |train: Train| {
        train
            .bind("OPTIMIZER", "@optimizers.chain()")
            .arg("--gin_param=optimizers.chain.transformations = [@optax.clip_by_global_norm(), @optax.adam()]")
            .bind("optax.clip_by_global_norm.max_norm", 0.5)
            .bind("optax.adam.learning_rate", 0.01)
            .arg("--gin_param=from t5x import optimizers")
            .arg("--gin_param=import optax")
    };
    let one = run(&folder, "one", 1, &adamw);
    let changed = |train: Train| adamw(train).bind("TRAIN_STEPS", 6);
    let other = run(&folder, "other", 4, &changed);
    assert_eq!(steps(&other).last(), Some(&6));
    run(&folder, "other", 2, &adamw);
    assert_same_run(&other, &one);
}

#[test]
fn several_processes_evaluate_as_one() {
    let folder = Folder::new();
    let model_dir = folder.path("model");
    folder.pretrain(2).bind_text("MODEL_DIR", &model_dir).succeeds();
    let evaluated = |count| {
        let results = folder.path(count);
        let eval = folder.eval().bind_text("utils.RestoreCheckpointConfig.mode", "all");
        let eval = eval.bind_text("EVAL_OUTPUT_DIR", &results);
        eval.tool(&["launch", "--nproc_per_node", count, "eval"]).succeeds();
        fs::read_to_string(results.join("inference_eval/echo-metrics.jsonl")).expect("results")
    };
    let one = evaluated("1");
    assert_eq!(one.lines().count(), 2, "{one}");
    assert_eq!(evaluated("3"), one);
}

/// A port of this machine that nobody uses.
pub fn free_port() -> u16 {
    let socket = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    socket.expect("a free port").port()
}

/// Starts processes that train without end in sight, and waits for the first measurement of a step.
fn start(folder: &Folder, count: usize) -> (Child, PathBuf) {
    let model_dir = folder.path("model");
    let endless = folder.pretrain(100_000).bind_text("MODEL_DIR", &model_dir);
    let launcher = launched(endless.bind("BATCH_SIZE", 12), count).start();
    let metrics = model_dir.join("train/metrics.jsonl");
    let end = Instant::now() + Duration::from_secs(120);
    while !fs::read_to_string(&metrics).is_ok_and(|lines| lines.contains("\"loss\"")) {
        assert!(Instant::now() < end, "the run has begun");
        std::thread::sleep(Duration::from_millis(20));
    }
    (launcher, model_dir)
}

/// Returns the process that a launcher has started as that rank.
fn worker(launcher: &Child, rank: usize) -> i32 {
    let id = launcher.id();
    let path = format!("/proc/{id}/task/{id}/children");
    let children = fs::read_to_string(path).expect("the launcher runs");
    let wanted = format!("RANK={rank}");
    let is_it = |child: &&str| {
        let environment = fs::read(format!("/proc/{child}/environ")).expect("the process runs");
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    let child = children.split_whitespace().find(is_it).expect("a process for each rank");
    child.parse().expect("process numbers are numbers")
}

pub fn signal(process: i32, number: i32) {
    // SAFETY: it only sends a signal to a process that this test has started.
    assert_eq!(unsafe { libc::kill(process, number) }, 0);
}

#[test]
fn a_killed_process_ends_the_others_and_is_named() {
    let folder = Folder::new();
    let (launcher, model_dir) = start(&folder, 3);
    let killed = Instant::now();
    signal(worker(&launcher, 2), libc::SIGKILL);
    let ended = Ended::new(launcher.wait_with_output().expect("it ends"));
    assert!(killed.elapsed() < Duration::from_secs(30), "{:?}", killed.elapsed());
    assert_eq!(ended.status, Some(137), "{}", ended.stderr);
    assert!(ended.stderr.contains("error: rank 2 on "), "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("error:").count(), 1, "{}", ended.stderr);
    let log = fs::read_to_string(model_dir.join("logs/rank_1.log")).expect("a log of its own");
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn a_signal_to_any_process_saves_and_ends_all() {
    let folder = Folder::new();
    let (launcher, model_dir) = start(&folder, 2);
    signal(worker(&launcher, 1), libc::SIGTERM);
    let ended = Ended::new(launcher.wait_with_output().expect("it ends"));
    assert_eq!(ended.status, Some(143), "{}", ended.stderr);
    let last = *steps(&model_dir).last().expect("it has saved");
    assert!(
        ended.stderr.contains(&format!("interrupted: step {last} is saved")),
        "{}",
        ended.stderr
    );
}

#[test]
fn processes_that_do_not_run_the_same_are_refused() {
    let folder = Folder::new();
    let model_dir = folder.path("model");
    let train = folder.pretrain(STEPS).bind_text("MODEL_DIR", &model_dir);
    let check = |other: Train, expected: &str| {
        let port = free_port().to_string();
        let place = |train: Train, rank: &str| {
            let train = train.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", &port);
            let train = train.env("RANK", rank).env("WORLD_SIZE", "2");
            train.env("LOCAL_RANK", rank).env("LOCAL_WORLD_SIZE", "2")
        };
        let other = place(other, "1").start();
        let first = place(train.clone(), "0").run();
        let other = Ended::new(other.wait_with_output().expect("it ends"));
        for ended in [first, other] {
            assert_eq!(ended.status, Some(2), "{}", ended.stderr);
            let is_said = ended.stderr.contains("process 1 on ") && ended.stderr.contains(expected);
            assert!(is_said, "`{expected}` is not in {}", ended.stderr);
        }
        assert!(!model_dir.exists());
    };
    let rates = "configuration: `DROPOUT_RATE = 0.3` where process 0 has `DROPOUT_RATE = 0.1`";
    check(train.clone().bind("DROPOUT_RATE", 0.3), rates);
    let elsewhere = folder.path("elsewhere");
    let model_dirs = format!("`MODEL_DIR = '{}'` where process 0 has", elsewhere.display());
    check(train.clone().bind_text("MODEL_DIR", &elsewhere), &model_dirs);
    let host = Folder::new();
    fs::remove_file(host.path("lines-1.txt")).expect("it is there");
    check(host.pretrain(STEPS).bind_text("MODEL_DIR", &model_dir), "none may be missing");
}

#[test]
fn a_second_launch_into_one_folder_is_refused() {
    let folder = Folder::new();
    let (launcher, model_dir) = start(&folder, 2);
    let second = launched(folder.pretrain(STEPS).bind_text("MODEL_DIR", &model_dir), 2).run();
    signal(worker(&launcher, 0), libc::SIGKILL);
    assert_eq!(launcher.wait_with_output().expect("it ends").status.code(), Some(137));
    assert_eq!(second.status, Some(2), "{}", second.stderr);
    assert!(second.stderr.contains("error: rank 0 on "), "{}", second.stderr);
    assert!(second.stderr.contains("MODEL_DIR"), "{}", second.stderr);
}

#[test]
fn a_batch_that_cannot_be_divided_is_refused_with_one_that_can() {
    let folder = Folder::new();
    let ended = launched(folder.pretrain(STEPS), 3).run();
    assert_eq!(ended.status, Some(2), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("cannot be divided among 3 processes: set BATCH_SIZE = 6"),
        "{}",
        ended.stderr
    );
}
