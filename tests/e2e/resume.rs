//! A run that is interrupted and started again with the same command gives the same results.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::arrays;
use crate::command::{Ended, Train};
use crate::events::{Scalars, read_scalars};
use crate::folder::{Folder, steps};
use crate::play::programs;
use crate::seeded;

const STEPS: u64 = 24;

#[test]
fn a_run_that_is_asked_to_end_saves_and_goes_on() {
    let folder = Folder::new();
    // However late the signal comes, the run has not ended yet.
    let (run, model_dir) = interrupted(&folder, 1_000_000);
    let child = run.start();
    wait(|| !steps(&model_dir).is_empty());
    send(&child, libc::SIGTERM);
    let ended = Ended::new(child.wait_with_output().expect("gimlet ends"));
    // Shells use this status for programs that the signal ended, so that the run does not count as
    // done.
    assert_eq!(ended.status, Some(128 + libc::SIGTERM), "{}", ended.stderr);
    let saved = *steps(&model_dir).last().expect("it saved");
    let said = format!("interrupted: step {saved} is saved; the same command continues");
    assert!(ended.stderr.contains(&said), "{}", ended.stderr);

    let end = saved + STEPS;
    let resumed = run.bind("TRAIN_STEPS", end).succeeds();
    assert!(resumed.stderr.contains(&format!("restored step {saved}")), "{}", resumed.stderr);
    Reference::new(&folder, end).assert_same(&model_dir);
}

#[test]
fn a_run_whose_terminal_closes_saves() {
    let folder = Folder::new();
    let (run, model_dir) = interrupted(&folder, 1_000_000);
    let mut command = run.command();
    // The tests themselves may run under `nohup`.
    on_start(&mut command, libc::SIGHUP, libc::SIG_DFL);
    let child = command.stderr(Stdio::piped()).spawn().expect("gimlet starts");
    wait(|| !steps(&model_dir).is_empty());
    // From the system and from the shell.
    send(&child, libc::SIGHUP);
    send(&child, libc::SIGHUP);
    let ended = Ended::new(child.wait_with_output().expect("gimlet ends"));
    assert_eq!(ended.status, Some(128 + libc::SIGHUP), "{}", ended.stderr);
    assert!(ended.stderr.contains("is saved"), "{}", ended.stderr);
}

#[test]
fn a_run_that_is_asked_to_end_while_libtorch_loads_ends_in_order() {
    let folder = Folder::new();
    let (run, _) = interrupted(&folder, 1_000_000);
    let mut command = run.command();
    on_start(&mut command, libc::SIGHUP, libc::SIG_IGN);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("gimlet starts");
    // The signal is held back until it can be handled.
    wait(|| signals(&child, "SigBlk") || signals(&child, "SigCgt") || has_ended(&mut child));
    // As under `nohup`, the first signal is ignored.
    send(&child, libc::SIGHUP);
    send(&child, libc::SIGTERM);
    let ended = Ended::new(child.wait_with_output().expect("gimlet ends"));
    assert_eq!(ended.status, Some(128 + libc::SIGTERM), "{}", ended.stderr);
    assert!(ended.stderr.contains("interrupted"), "{}", ended.stderr);
}

#[test]
fn a_second_signal_ends_a_run_at_once() {
    let folder = Folder::new();
    // The run waits for text that is never written.
    let pipe = folder.path("lines-0.txt");
    fs::remove_file(&pipe).expect("it is there");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there");
    assert!(made.success());
    let (run, _) = interrupted(&folder, 1_000_000);
    let mut child = run.start();
    // Opening the pipe for writing succeeds once the run reads it.
    let mut writer = fs::OpenOptions::new();
    writer.write(true).custom_flags(libc::O_NONBLOCK);
    let mut opened = None;
    wait(|| {
        opened = writer.open(&pipe).ok();
        opened.is_some() || has_ended(&mut child)
    });
    wait(|| {
        send(&child, libc::SIGTERM);
        has_ended(&mut child)
    });
    let ended = Ended::new(child.wait_with_output().expect("gimlet ends"));
    assert_eq!(ended.status, Some(128 + libc::SIGTERM), "{}", ended.stderr);
    assert!(!ended.stderr.contains("interrupted"), "{}", ended.stderr);
}

#[test]
fn the_quickstart_stops_at_ctrl_c() {
    let folder = Folder::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("runs/quickstart/run.sh");
    let mut command = Command::new(script);
    command.env("GIMLET", programs().join("gimlet")).env("QUICKSTART_DIR", folder.path("out"));
    // A terminal sends SIGINT to everything that runs in it.
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Tests may run in the background of a script, where SIGINT is ignored.
    on_start(&mut command, libc::SIGINT, libc::SIG_DFL);
    let mut child = command.spawn().expect("bash is there");
    let first = folder.path("out/pretrain/checkpoint_0/checkpoint");
    wait(|| first.exists() || has_ended(&mut child));
    // SAFETY: the group is that of our child, which is not yet waited for.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGINT) };
    let ended = Ended::new(child.wait_with_output().expect("bash ends"));
    assert_eq!(ended.status, Some(128 + libc::SIGINT), "{}", ended.stderr);
    assert!(!ended.stdout.contains("2 of 2"), "{}", ended.stdout);
}

#[test]
fn a_run_that_is_killed_loses_only_what_came_after_the_last_save() {
    let folder = Folder::new();
    let whole = Reference::new(&folder, STEPS);
    seeded::assert_committed(&whole.model_dir);
    let (run, model_dir) = interrupted(&folder, STEPS);
    use Moment::{Saved, Saving, Starting, Training};
    for moment in [Starting, Saved, Saving, Training, Saving] {
        let before = steps(&model_dir);
        let mut child = run.start();
        await_moment(moment, &model_dir, &mut child);
        send(&child, libc::SIGKILL);
        let ended = child.wait().expect("gimlet ends");
        assert_eq!(ended.signal(), Some(libc::SIGKILL), "it ended before the moment {moment:?}");
        assert!(steps(&model_dir).starts_with(&before), "a finished checkpoint is gone");
    }
    run.succeeds();
    whole.assert_same(&model_dir);
}

/// The rates change after the step from which the run continues.
#[test]
fn a_run_whose_rates_change_draws_the_same_after_a_restart() {
    let folder = Folder::new();
    let mixture = "stages/seqio.Mixture.tasks = [('lines', {0: 1.0, 5: 0.0}), ('echo', {0: 0.0, 5: 1.0})]\n\
                   MIXTURE_OR_TASK_NAME = 'stages'\n";
    folder.write("stages.gin", mixture);
    let losses = || {
        let run = folder.pretrain(6).gin_file("stages.gin");
        run.bind("train.train_eval_dataset_cfg", "None").succeeds();
        read_scalars(&folder.path("model/train"))["loss"].clone()
    };
    let whole = losses();
    fs::remove_dir_all(folder.path("model/checkpoint_6")).expect("the run saved its end");
    assert_eq!(steps(&folder.path("model")), [0, 4]);
    assert_eq!((whole.len(), losses()), (6, whole));
}

#[test]
fn a_run_that_is_asked_to_end_does_not_finish_its_evaluation() {
    let folder = Folder::pretrained();
    let held_out = fs::read(folder.path("echo-validation.jsonl")).expect("it is there");
    folder.write("echo-validation.jsonl", held_out.repeat(400));
    let run = folder
        .train("finetune_tiny.gin")
        .bind("infer_eval/utils.DatasetConfig.batch_size", 1)
        .bind("train.train_eval_dataset_cfg", "None")
        .bind("train.run_eval_before_training", "True")
        .bind("TRAIN_STEPS", 5);
    let child = run.start();
    // The evaluation follows the first checkpoint.
    wait(|| !steps(&folder.path("model")).is_empty());
    send(&child, libc::SIGTERM);
    let ended = Ended::new(child.wait_with_output().expect("gimlet ends"));
    assert_eq!(ended.status, Some(128 + libc::SIGTERM), "{}", ended.stderr);
    assert!(ended.stderr.contains("interrupted: step 4 is saved"), "{}", ended.stderr);
    let metrics = folder.path("model/inference_eval/echo-metrics.jsonl");
    assert!(!metrics.exists(), "{}", ended.stderr);

    // The same command evaluates afterwards.
    folder.write("echo-validation.jsonl", held_out);
    run.succeeds();
    let metrics = fs::read_to_string(metrics).expect("both evaluations are over");
    assert_eq!(metrics.lines().count(), 2, "{metrics}");
}

#[test]
fn a_run_goes_on_with_another_batch_size_and_counts_relative_steps_from_the_restored_one() {
    let folder = Folder::new();
    folder.pretrain(4).succeeds();
    let other = || folder.pretrain(1).bind("BATCH_SIZE", 4).bind("TRAIN_STEPS_RELATIVE", 3);
    let report = other().arg("--dry_run").succeeds().stdout;
    assert!(report.contains("steps        from 4 to 7\n"), "{report}");
    let resumed = other().succeeds();
    for words in [
        "BATCH_SIZE was 8 and is 4: the data continue at the example",
        "TRAIN_STEPS_RELATIVE = 3: training from step 4 to step 7",
    ] {
        assert!(resumed.stderr.contains(words), "{}", resumed.stderr);
    }
    // As in T5X, each start makes the steps again; the effects of the batch size were reported
    // before.
    let again = other().succeeds();
    assert!(again.stderr.contains("from step 7 to step 10"), "{}", again.stderr);
    assert!(!again.stderr.contains("BATCH_SIZE was"), "{}", again.stderr);
    assert_eq!(steps(&folder.path("model")), [0, 4, 7, 8, 10]);
}

#[test]
fn a_run_of_other_rows_begins_its_data_anew_if_asked_to() {
    let folder = Folder::new();
    folder.pretrain(4).succeeds();
    let lengths = "{'inputs': 32, 'targets': 32}";
    let other = || folder.pretrain(8).bind("TASK_FEATURE_LENGTHS", lengths);
    let refused = other().run();
    assert_eq!(refused.status, Some(2), "{}", refused.stderr);
    let remedy = "utils.RestoreCheckpointConfig.restore_dataset = False";
    assert!(refused.stderr.contains(remedy), "{}", refused.stderr);

    let begun = other().bind("utils.RestoreCheckpointConfig.restore_dataset", "False").succeeds();
    assert!(begun.stderr.contains("no data position: the data starts over"), "{}", begun.stderr);
    assert_eq!(steps(&folder.path("model")), [0, 4, 8]);
}

#[test]
fn a_run_without_a_period_saves_its_end_and_tells_its_seed() {
    let folder = Folder::new();
    let run = folder.pretrain(3).bind("utils.SaveCheckpointConfig.period", "None");
    let ended = run.bind("RANDOM_SEED", "None").bind("train.eval_period", 3).succeeds();
    assert_eq!(steps(&folder.path("model")), [3]);
    assert!(ended.stderr.contains("the seed of this run is "), "{}", ended.stderr);
}

#[test]
fn a_folder_that_a_living_process_trains_into_is_refused() {
    let folder = Folder::new();
    let run = folder.pretrain(1_000_000);
    let mut child = run.start();
    let process = format!("process {} on host ", child.id());
    wait(|| !steps(&folder.path("model")).is_empty() || has_ended(&mut child));
    let second = run.run();
    let dry = run.clone().arg("--dry_run").run();
    send(&child, libc::SIGKILL);
    let first = Ended::new(child.wait_with_output().expect("gimlet ends"));
    assert_eq!(first.status, None, "{}", first.stderr);
    assert_eq!(second.status, Some(2), "{}", second.stderr);
    for words in [&process, "`model`", "MODEL_DIR"] {
        assert!(second.stderr.contains(words), "`{words}` is not in:\n{}", second.stderr);
    }
    assert_eq!(dry.status, Some(0), "{}", dry.stderr);
}

/// The run without interruption.
struct Reference {
    model_dir: PathBuf,
    steps: u64,
}

impl Reference {
    fn new(folder: &Folder, steps: u64) -> Self {
        let model_dir = folder.path("whole");
        folder.pretrain(steps).num_threads(2).bind_text("MODEL_DIR", &model_dir).succeeds();
        Self { model_dir, steps }
    }

    /// Asserts that every metric of every step, and the last checkpoint, are bit for bit the same.
    fn assert_same(&self, model_dir: &Path) {
        for events in ["train", "training_eval/lines"] {
            let [found, expected] =
                [model_dir, &self.model_dir].map(|dir| untimed(read_scalars(&dir.join(events))));
            assert_eq!(found, expected, "{events}");
        }
        let scalars = read_scalars(&model_dir.join("train"));
        assert!(scalars["loss"].keys().copied().eq(1..=self.steps as i64));
        assert_eq!(read_lines(&model_dir.join("train/metrics.jsonl")), scalars);
        let [found, expected] =
            [model_dir, &self.model_dir].map(|dir| arrays::open(dir, self.steps));
        arrays::assert_same(&found, &expected);
    }
}

/// Reads `metrics.jsonl`, rounded like event files; each step appears there once.
fn read_lines(file: &std::path::Path) -> Scalars {
    let mut out = Scalars::new();
    let mut last = -1;
    for line in fs::read_to_string(file).expect("it is written").lines() {
        let line: BTreeMap<String, f64> = serde_json::from_str(line).expect("a line is an object");
        let step = line["step"] as i64;
        assert!(step > last, "step {step} follows step {last}");
        last = step;
        for (tag, value) in line.into_iter().filter(|(tag, _)| tag != "step") {
            out.entry(tag).or_default().insert(step, f64::from(value as f32));
        }
    }
    out
}

fn untimed(mut scalars: Scalars) -> Scalars {
    scalars.retain(|tag, _| !tag.starts_with("timing/"));
    scalars
}

/// A moment at which a run is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    /// It has made its folder.
    Starting,
    /// It has saved once more.
    Saved,
    /// It has saved once more, and then trained.
    Training,
    /// It has saved once more, and is writing the next checkpoint.
    Saving,
}

/// Waits for the moment, or for the end of the run.
fn await_moment(moment: Moment, model_dir: &Path, child: &mut Child) {
    let num_lines = || {
        let lines = fs::read_to_string(model_dir.join("train/metrics.jsonl")).unwrap_or_default();
        lines.lines().count()
    };
    let is_saving = || {
        let entries = fs::read_dir(model_dir).expect("the run has made it");
        entries.flatten().any(|entry| entry.file_name().to_string_lossy().contains(".tmp-"))
    };
    if moment == Moment::Starting {
        return wait(|| model_dir.exists() || has_ended(child));
    }
    let before = steps(model_dir);
    wait(|| steps(model_dir) > before || has_ended(child));
    let trained = num_lines();
    match moment {
        Moment::Training => wait(|| num_lines() > trained || has_ended(child)),
        Moment::Saving => wait(|| is_saving() || has_ended(child)),
        Moment::Starting | Moment::Saved => {}
    }
}

fn interrupted(folder: &Folder, steps: u64) -> (Train, PathBuf) {
    let model_dir = folder.path("interrupted");
    let run = folder.pretrain(steps).num_threads(2).bind_text("MODEL_DIR", &model_dir);
    (run, model_dir)
}

pub fn send(child: &Child, signal: i32) {
    // SAFETY: the process is our child and not yet waited for, so its id is still its own.
    unsafe { libc::kill(child.id() as i32, signal) };
}

/// Sets the action of the command on a signal until the command sets another one.
fn on_start(command: &mut Command, signal: i32, action: libc::sighandler_t) {
    let set = move || {
        // SAFETY: `signal` may be called between fork and exec.
        unsafe { libc::signal(signal, action) };
        Ok(())
    };
    // SAFETY: as above.
    unsafe { command.pre_exec(set) };
}

/// Whether SIGTERM is among the signals in a line of the kernel's status of the process: `SigBlk`,
/// `SigCgt`.
fn signals(child: &Child, line: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let mask = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(":\t"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
    mask & 1 << (libc::SIGTERM - 1) != 0
}

pub fn has_ended(child: &mut Child) -> bool {
    child.try_wait().expect("the child is ours").is_some()
}

pub fn wait(mut until: impl FnMut() -> bool) {
    let started = Instant::now();
    while !until() {
        assert!(started.elapsed() < Duration::from_secs(120), "waited in vain");
        std::thread::sleep(Duration::from_millis(2));
    }
}
