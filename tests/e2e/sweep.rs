//! `gimlet sweep` over trainings: killed at random, it ends as an undisturbed one.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::arrays;
use crate::command::Train;
use crate::folder::Folder;
use crate::kills::{num_kills, opened};
use crate::processes::signal;
use crate::resume::send;

/// The longest time between two kills: that of about two points.
const LONGEST_LIFE: Duration = Duration::from_secs(3);

/// The command that runs the sweep of a file into a folder.
fn sweep(folder: &Folder, all: &str, steps: u64) -> Train {
    let all = format!("--folder={all}");
    let words = ["sweep", "sweep.gin", &all, "train"];
    folder.pretrain(steps).tool(&words).bind_text("MODEL_DIR", Path::new("{folder}"))
}

/// A sweep over as many rates and as many seeds as given.
fn folder(num_rates: usize, num_seeds: usize) -> Folder {
    let folder = Folder::new();
    let rates: Vec<f64> = (1..=num_rates).map(|rate| rate as f64 / 10.0).collect();
    let seeds: Vec<usize> = (0..num_seeds).collect();
    let rate = "utils.create_learning_rate_scheduler.base_learning_rate";
    let text = format!(
        "gimlet.Sweep:\n  grid = {{'{rate}': {rates:?}}}\n  seeds = {seeds:?}\n  \
         name = 'rate{{base_learning_rate}}/run{{run}}'\n"
    );
    folder.write("sweep.gin", text);
    folder
}

/// Kills the sweep or the process of its point `kills` times, and compares it with an undisturbed one.
fn check(num_rates: usize, num_seeds: usize, steps: u64, kills: usize) {
    let folder = folder(num_rates, num_seeds);
    let begun = Instant::now();
    disturb(|| sweep(&folder, "killed", steps).command(), kills);
    sweep(&folder, "killed", steps).succeeds();
    eprintln!("{kills} kills in {:?}", begun.elapsed());
    sweep(&folder, "whole", steps).succeeds();
    let table = |all: &str| {
        let table = Train::new(&folder.path("")).tool(&["table", all, "--format=csv"]);
        table.succeeds().stdout
    };
    assert_eq!(table("killed"), table("whole"));
    for rate in 1..=num_rates {
        for run in 1..=num_seeds {
            let of = |all: &str| folder.path(&format!("{all}/rate0.{rate}/run{run}"));
            let [found, expected] = ["killed", "whole"].map(|all| opened(&of(all), steps));
            arrays::assert_same(&*found, &*expected);
        }
    }
}

/// Starts a sweep, kills it or the process of its point at random, and starts it again, until so many kills.
fn disturb(sweep: impl Fn() -> Command, kills: usize) {
    let start = || {
        let mut command = sweep();
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("gimlet starts")
    };
    let mut random = StdRng::seed_from_u64(46);
    let mut running = start();
    for done in 0..kills {
        // A process takes a while until it has begun.
        thread::sleep(Duration::from_millis(300) + LONGEST_LIFE.mul_f64(random.random::<f64>()));
        let has_ended = |running: &mut Child| running.try_wait().expect("it is a child").is_some();
        match random.random_range(0..3) {
            // The point has failed, and the next one follows.
            0 => _ = point_of(&running).map(|process| signal(process, libc::SIGKILL)),
            1 => send(&running, libc::SIGTERM),
            _ => send(&running, libc::SIGKILL),
        }
        thread::sleep(Duration::from_millis(100));
        if has_ended(&mut running) {
            running = start();
        }
        eprintln!("kill {done} of {kills}");
    }
    send(&running, libc::SIGKILL);
    running.wait().expect("it ends");
}

/// The process of the point at which a sweep is, if it has one at this moment.
fn point_of(sweep: &Child) -> Option<i32> {
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", sweep.id()));
    children.ok()?.split_whitespace().next()?.parse().ok()
}

#[test]
fn a_sweep_that_is_killed_ends_as_one_that_is_not() {
    check(2, 1, 24, 1);
}

#[test]
#[ignore = "takes minutes: `make soak`"]
fn a_sweep_of_twelve_points_that_is_killed_thirty_times_ends_as_one_that_is_not() {
    check(4, 3, 120, num_kills(30));
}
