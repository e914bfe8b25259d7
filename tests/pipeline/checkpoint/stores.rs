//! Checkpoints in a bucket, in which nothing is renamed and any request may fail.

use gimlet::checkpoint::{
    CheckpointError, Commit, Compression, NativeOptions, Procedure, Retention, Saver, Saving,
    Snapshot, Stored, Writer, checkpoint_dir, export_t5x, list_steps, remove_stale,
};
use gimlet::models::open;
use gimlet::storage::{Path, Takeover};
use gimlet::telemetry::{EventWriter, MetricLines};
use serde_json::{Value, json};

use super::{names, newest_whole, save};
use crate::storage::buckets::{google_account, google_server};
use crate::storage::environment;
use crate::storage::faulty::{Bucket, Fault};
use crate::storage::leases::write_foreign;

/// Saves like [`save`], but returns errors.
fn try_save(model_dir: &Path, step: u64) -> Result<Path, CheckpointError> {
    try_save_by(Commit::LastFile, model_dir, step)
}

fn try_save_by(commit: Commit, model_dir: &Path, step: u64) -> Result<Path, CheckpointError> {
    let array = gimlet::checkpoint::Array::from_f32(&[2, 3], &[step as f32; 6]);
    let writer = Writer::begin(model_dir, step, None, &Procedure { commit, share: None })?;
    writer.array("target/a", array.view())?;
    writer.array("state/param_states/a/v_row", array.view())?;
    writer.extra("gimlet/train_ds-000-of-001.json", b"{}")?;
    writer.commit()
}

/// Makes unfinished work look like that of a dead process.
pub(super) fn orphan(model_dir: &Path) {
    let dirs = if model_dir.exists().unwrap() { model_dir.list().unwrap() } else { Vec::new() };
    for dir in dirs {
        let mark = dir.join("gimlet/unfinished.json");
        if mark.exists().unwrap() {
            let mut worker: Value = serde_json::from_slice(&mark.read().unwrap()).unwrap();
            worker["pid"] = json!(u32::MAX);
            worker["token"] = json!("dead");
            mark.write_atomic(worker.to_string().as_bytes()).unwrap();
        }
    }
}

/// Returns the newest checkpoint, which must be whole, without a newer damaged one.
fn newest(model_dir: &Path) -> Box<dyn Stored> {
    let (newest, skipped) = newest_whole(model_dir).unwrap();
    assert!(skipped.is_empty(), "{skipped:?}");
    newest.unwrap()
}

/// Returns the number of requests of `work`.
fn requests(bucket: &Bucket, work: impl FnOnce()) -> usize {
    bucket.set(Fault::None);
    work();
    bucket.count()
}

#[test]
fn a_writer_that_dies_at_any_request_leaves_the_checkpoint_before_it() {
    [Commit::LastFile, Commit::Rename].into_iter().for_each(check_deaths);
}

fn check_deaths(commit: Commit) {
    let try_save = |model_dir: &Path, step| try_save_by(commit, model_dir, step);
    let bucket = Bucket::new();
    let model_dir = bucket.path("run");
    try_save(&model_dir, 1).unwrap();
    let count = requests(&bucket, || drop(try_save(&bucket.path("measured"), 2).unwrap()));
    assert!(count > 8, "{count} requests");
    for number in 1..=count {
        bucket.set(Fault::From(number));
        let saved = try_save(&model_dir, 2);
        bucket.set(Fault::None);
        let step = newest(&model_dir).step().unwrap();
        assert_eq!(list_steps(&model_dir).unwrap(), (1..=step).collect::<Vec<_>>());
        if saved.is_ok() {
            assert_eq!(step, 2, "request {number}");
        }
        orphan(&model_dir);
        remove_stale(&model_dir).unwrap();
        let expected =
            if step == 2 { vec!["checkpoint_1", "checkpoint_2"] } else { vec!["checkpoint_1"] };
        assert_eq!(names(&model_dir), expected, "request {number}");
        if step == 2 {
            checkpoint_dir(&model_dir, 2).remove_dir_all().unwrap();
        }
    }
    try_save(&model_dir, 2).unwrap();
    assert_eq!(newest(&model_dir).step().unwrap(), 2);
}

#[test]
fn what_is_renamed_in_a_store_is_seen_under_its_name_when_it_is_whole() {
    let bucket = Bucket::new();
    let model_dir = bucket.path("run");
    let procedure = Procedure { commit: Commit::Rename, share: None };
    let writer = Writer::begin(&model_dir, 2, None, &procedure).unwrap();
    let array = gimlet::checkpoint::Array::from_f32(&[2, 3], &[2.0; 6]);
    writer.array("target/a", array.view()).unwrap();
    let [name] = &names(&model_dir)[..] else { panic!("{:?}", names(&model_dir)) };
    assert!(name.starts_with("checkpoint_2.tmp-") && name.ends_with(".gimlet"), "{name}");
    assert!(remove_stale(&model_dir).unwrap().is_empty(), "its writer lives");
    // A damaged checkpoint of this step is replaced.
    let damaged = checkpoint_dir(&model_dir, 2);
    save(&model_dir, 2);
    damaged.join("target.b/0.0").remove_file().unwrap();
    writer.commit().unwrap();
    assert_eq!(names(&model_dir), ["checkpoint_2"]);
    let stored = newest(&model_dir);
    assert_eq!((stored.leaves().len(), stored.read("target/a").unwrap()), (1, array));
    let last = bucket.requests().into_iter().rfind(|request| request.method == "PUT");
    assert!(last.unwrap().target.ends_with("/run/checkpoint_2/checkpoint"));
}

#[test]
fn a_step_that_was_left_half_written_is_written_anew() {
    let bucket = Bucket::new();
    let model_dir = bucket.path("run");
    let count = requests(&bucket, || drop(try_save(&bucket.path("measured"), 2).unwrap()));
    // The last two come after its last file: they check the lease and remove the mark.
    for number in 2..count - 1 {
        bucket.set(Fault::From(number));
        let _ = try_save(&model_dir, 2);
        bucket.set(Fault::None);
        try_save(&model_dir, 2).unwrap();
        newest(&model_dir).verify().unwrap();
        let marks: Vec<_> = model_dir.walk().unwrap();
        assert!(!marks.iter().any(|file| file.file_name() == "unfinished.json"), "{marks:?}");
        model_dir.remove_dir_all().unwrap();
    }
}

#[test]
fn every_request_that_fails_once_is_made_again() {
    check_each_request(Fault::EachOnce);
}

#[test]
fn every_request_that_is_served_without_an_answer_is_made_again() {
    check_each_request(Fault::EachAnswerOnce);
}

/// If each of the different requests of saving and removing a checkpoint fails once, the result is the same.
fn check_each_request(fault: Fault) {
    let bucket = Bucket::new();
    let model_dir = bucket.path("run");
    let work = |commit| {
        try_save_by(commit, &model_dir, 1).unwrap();
        let stored = newest(&model_dir);
        stored.verify().unwrap();
        assert_eq!(stored.step().unwrap(), 1);
        checkpoint_dir(&model_dir, 1).remove_dir_all().unwrap();
        assert!(!model_dir.exists().unwrap(), "{:?}", names(&model_dir));
    };
    for commit in [Commit::LastFile, Commit::Rename] {
        bucket.set(fault);
        work(commit);
        let (failed, count) = (bucket.num_tried(), bucket.count());
        assert!(failed > 20 && count >= 2 * failed, "{failed} of {count} requests failed");
    }
}

#[test]
fn a_store_that_fails_is_never_taken_for_a_damaged_checkpoint() {
    let bucket = Bucket::new();
    let model_dir = bucket.path("run");
    save(&model_dir, 1);
    save(&model_dir, 2);
    let count = requests(&bucket, || drop(newest(&model_dir)));
    for number in 1..=count {
        bucket.set(Fault::From(number));
        let error = newest_whole(&model_dir).map(drop).unwrap_err();
        assert!(!error.is_damage(), "request {number}: {error}");
        assert!(!matches!(error, CheckpointError::AllDamaged { .. }), "request {number}: {error}");
        bucket.set(Fault::Only(number));
        assert_eq!(newest(&model_dir).step().unwrap(), 2, "request {number}");
    }
    for number in [1, count / 2, count] {
        bucket.set(Fault::Stall(number));
        assert_eq!(newest(&model_dir).step().unwrap(), 2, "request {number}");
    }
    // Arrays are read after everything is found whole.
    bucket.set(Fault::None);
    let stored = newest(&model_dir);
    bucket.set(Fault::From(1));
    assert!(!stored.read("target/a").unwrap_err().is_damage());
}

#[test]
fn pruning_that_dies_at_any_request_leaves_whole_checkpoints() {
    let bucket = Bucket::new();
    let model_dir = bucket.path("run");
    let retention = Retention { keep: Some(1), keep_dataset_checkpoints: Some(1) };
    for step in 1..=2 {
        try_save(&model_dir, step).unwrap();
    }
    let filled = bucket.copied();
    let count = requests(&bucket, || drop(retention.apply(&model_dir, 2, None).unwrap()));
    for number in 1..=count {
        bucket.put_back(&filled);
        bucket.set(Fault::From(number));
        let _ = retention.apply(&model_dir, 2, None);
        bucket.set(Fault::None);
        for step in list_steps(&model_dir).unwrap() {
            open(&checkpoint_dir(&model_dir, step)).unwrap().verify().unwrap();
        }
        assert_eq!(newest(&model_dir).step().unwrap(), 2);
        orphan(&model_dir);
        remove_stale(&model_dir).unwrap();
        retention.apply(&model_dir, 2, None).unwrap();
        assert_eq!(names(&model_dir), ["checkpoint_2"], "request {number}");
    }
}

#[test]
fn a_bucket_that_is_only_read_stays_as_it_is() {
    let bucket = Bucket::new();
    let model_dir = bucket.path("run");
    save(&model_dir, 1);
    bucket.set(Fault::ReadOnly);
    let message = try_save(&model_dir, 2).unwrap_err().to_string();
    assert!(message.contains("checkpoint_2") && message.contains("access denied"), "{message}");
    assert!(message.contains("the credentials in $AWS_ACCESS_KEY_ID do not suffice"), "{message}");
    assert_eq!(names(&model_dir), ["checkpoint_1"]);
    assert_eq!(newest(&model_dir).step().unwrap(), 1);
}

#[test]
fn who_lost_the_lease_commits_nothing() {
    let bucket = Bucket::new();
    let model_dir = bucket.path("run");
    save(&model_dir, 1);
    let held = model_dir.lease(Takeover::No).unwrap();
    let writer = Writer::create(&model_dir, 2, None).unwrap();
    write_foreign(&model_dir, 0.0);
    let message = writer.commit().unwrap_err().to_string();
    assert!(message.contains("on host elsewhere"), "{message}");
    assert!(message.contains("nothing is saved there by this process"), "{message}");
    let message = Writer::create(&model_dir, 3, None).unwrap_err().to_string();
    assert!(message.contains("on host elsewhere"), "{message}");
    assert_eq!(newest(&model_dir).step().unwrap(), 1);
    assert_eq!(list_steps(&model_dir).unwrap(), [1]);
    drop(held);
}

#[test]
fn who_lost_the_lease_writes_no_further_file() {
    let bucket = Bucket::new();
    let model_dir = bucket.path("run");
    let held = model_dir.lease(Takeover::No).unwrap();
    let writer = Writer::create(&model_dir, 2, None).unwrap();
    let array = gimlet::checkpoint::Array::from_f32(&[2, 3], &[2.0; 6]);
    writer.array("target/a", array.view()).unwrap();
    write_foreign(&model_dir, 0.0);
    // As by the other run, which has taken over.
    checkpoint_dir(&model_dir, 2).remove_dir_all().unwrap();
    let message = writer.array("target/b", array.view()).unwrap_err().to_string();
    assert!(message.contains("on host elsewhere"), "{message}");
    assert!(writer.extra("gimlet/run.json", b"{}").is_err() && writer.commit().is_err());
    assert!(names(&model_dir).iter().all(|name| name == "gimlet.lease"), "{:?}", names(&model_dir));
    drop(held);
}

#[test]
fn a_folder_in_which_another_process_is_at_work_is_left_to_it() {
    let bucket = Bucket::new();
    let model_dir = bucket.path("run");
    let mark = checkpoint_dir(&model_dir, 2).join("gimlet/unfinished.json");
    let mut elsewhere = serde_json::to_value(gimlet::storage::Process::this()).unwrap();
    elsewhere["host"] = json!("elsewhere");
    elsewhere["token"] = json!("theirs");
    mark.write_atomic(elsewhere.to_string().as_bytes()).unwrap();
    for commit in [Commit::LastFile, Commit::Rename] {
        let message = try_save_by(commit, &model_dir, 2).unwrap_err().to_string();
        assert!(message.contains("on host elsewhere writes `s3://"), "{message}");
        assert!(message.contains("checkpoint_2`") && mark.exists().unwrap(), "{message}");
    }
    checkpoint_dir(&model_dir, 2).remove_dir_all().unwrap();
    try_save(&model_dir, 2).unwrap();
}

#[test]
fn the_mark_of_a_process_killed_behind_its_last_file_is_taken_away() {
    let bucket = Bucket::new();
    let model_dir = bucket.path("run");
    try_save(&model_dir, 1).unwrap();
    let mark = checkpoint_dir(&model_dir, 1).join("gimlet/unfinished.json");
    mark.write_atomic(b"{}").unwrap();
    assert_eq!(remove_stale(&model_dir).unwrap(), []);
    assert!(!mark.exists().unwrap());
    assert_eq!(list_steps(&model_dir).unwrap(), [1]);
}

#[test]
fn an_old_checkpoint_that_cannot_be_removed_ends_no_run() {
    let bucket = Bucket::new();
    let model_dir = bucket.path("run");
    try_save(&model_dir, 1).unwrap();
    let left = checkpoint_dir(&model_dir, 9).join("gimlet/unfinished.json");
    left.write_atomic(b"{}").unwrap();
    bucket.set(Fault::NoDelete);
    assert_eq!(remove_stale(&model_dir).unwrap(), []);
    let mut saver = Saver::new(Saving {
        model_dir: model_dir.clone(),
        target_dtype: None,
        compression: Compression::default(),
        retention: Retention { keep: Some(1), keep_dataset_checkpoints: None },
        procedure: Procedure::default(),
    });
    let array = gimlet::checkpoint::Array::from_f32(&[2, 3], &[1.0; 6]);
    let mut save = |step| {
        saver.save(step, None, |snapshot| snapshot.array("target/a", array.view())).unwrap();
        saver.wait().unwrap();
    };
    save(2);
    assert_eq!(list_steps(&model_dir).unwrap(), [1, 2]);
    bucket.set(Fault::None);
    save(3);
    assert_eq!(list_steps(&model_dir).unwrap(), [3]);
    // The next run completes the removal that this one began.
    orphan(&model_dir);
    assert_eq!(remove_stale(&model_dir).unwrap(), [checkpoint_dir(&model_dir, 9)]);
}

#[test]
fn metrics_are_in_the_bucket_before_the_checkpoint_of_their_step_is_seen() {
    let bucket = Bucket::new();
    let model_dir = bucket.path("run");
    let mut saver = saver(&model_dir);
    let mut events = EventWriter::new(model_dir.join("train"), Some(0));
    let mut lines = MetricLines::new(model_dir.join("train/metrics.jsonl"), 0);
    let array = gimlet::checkpoint::Array::from_f32(&[2, 3], &[1.0; 6]);
    for step in 1..=4 {
        events.scalars(step, [("loss", 1.0)]);
        lines.scalars(step, [("loss", 1.0)]);
        let unsent = [events.unsent(), lines.unsent()];
        let copy = |snapshot: &mut Snapshot| {
            snapshot.array("target/a", array.view());
            snapshot.after(unsent.into_iter().flatten());
        };
        saver.save(step as u64, None, copy).unwrap();
        saver.wait().unwrap();
        // A process that is killed now leaves this state.
        let sent = model_dir.join("train/metrics.jsonl").read_to_string().unwrap();
        assert_eq!(sent.lines().count(), step as usize);
    }
    let requests = bucket.requests();
    let puts: Vec<&str> =
        requests.iter().filter(|one| one.method == "PUT").map(|one| &one.target[..]).collect();
    let last = |part: &str| puts.iter().rposition(|target| target.contains(part)).unwrap();
    for log in ["metrics.jsonl", "events.out"] {
        assert!(last(log) < last("checkpoint_4/checkpoint"), "{log}: {puts:?}");
    }
}

#[test]
fn a_checkpoint_is_saved_though_its_metrics_were_refused() {
    let bucket = Bucket::new();
    let model_dir = bucket.path("run");
    let mut file = model_dir.join("train/metrics.jsonl").grow().unwrap();
    bucket.set(Fault::ReadOnly);
    file.append(b"{}").unwrap();
    let unsent = file.unsent().unwrap();
    drop(file);
    bucket.set(Fault::None);
    let mut saver = saver(&model_dir);
    let array = gimlet::checkpoint::Array::from_f32(&[2, 3], &[1.0; 6]);
    let copy = |snapshot: &mut Snapshot| {
        snapshot.array("target/a", array.view());
        snapshot.after([unsent]);
    };
    saver.save(1, None, copy).unwrap();
    saver.wait().unwrap();
    assert_eq!(list_steps(&model_dir).unwrap(), [1]);
}

/// A saver that keeps everything.
fn saver(model_dir: &Path) -> Saver {
    Saver::new(Saving {
        model_dir: model_dir.clone(),
        target_dtype: None,
        compression: Compression::default(),
        retention: Retention { keep: None, keep_dataset_checkpoints: None },
        procedure: Procedure::default(),
    })
}

#[test]
fn a_checkpoint_that_orbax_has_not_finished_is_passed_over() {
    let server = google_server("orbax");
    let _held = environment(&[("GOOGLE_SERVICE_ACCOUNT_KEY", &google_account(&server))]);
    let model_dir = Path::parse("gs://orbax/run").unwrap();
    try_save(&model_dir, 1).unwrap();
    let put = |name: &str| model_dir.join(name).write_atomic(b"{}").unwrap();
    put("checkpoint_2/_CHECKPOINT_METADATA");
    let check = |expected: &[u64]| {
        assert_eq!(list_steps(&model_dir).unwrap(), expected);
        assert_eq!(newest(&model_dir).step().unwrap(), 1);
        assert_eq!(remove_stale(&model_dir).unwrap(), [], "it is not ours");
    };
    check(&[1]);
    put("checkpoint_2/state/_METADATA");
    check(&[1]);
    put("checkpoint_2/commit_success.txt");
    assert_eq!(list_steps(&model_dir).unwrap(), [1, 2]);
}

/// Marks a checkpoint as the work of a process on another machine.
fn mark_elsewhere(checkpoint: &Path) {
    let mut elsewhere = serde_json::to_value(gimlet::storage::Process::this()).unwrap();
    elsewhere["host"] = json!("elsewhere");
    elsewhere["token"] = json!("theirs");
    let mark = checkpoint.join("gimlet/unfinished.json");
    mark.write_atomic(elsewhere.to_string().as_bytes()).unwrap();
}

#[test]
fn a_conversion_takes_another_machines_place_only_where_it_is_told_to() {
    let bucket = Bucket::new();
    let model_dir = bucket.path("run");
    let from = open(&save(&bucket.path("from"), 2)).unwrap();
    mark_elsewhere(&checkpoint_dir(&model_dir, 2));
    let export = |takeover| {
        let options = NativeOptions { takeover, ..NativeOptions::default() };
        export_t5x(&*from, (model_dir.clone(), 2), &options)
    };
    let error = export(Takeover::No).unwrap_err().to_string();
    assert!(error.contains("elsewhere") && error.contains("`--take_over`"), "{error}");
    assert!(list_steps(&model_dir).unwrap().is_empty());
    open(&export(Takeover::Yes).unwrap()).unwrap().verify().unwrap();
    assert_eq!(list_steps(&model_dir).unwrap(), [2]);
}

#[test]
fn the_holder_of_the_lease_removes_what_others_left() {
    let bucket = Bucket::new();
    let model_dir = bucket.path("run");
    save(&model_dir, 1);
    mark_elsewhere(&checkpoint_dir(&model_dir, 2));
    assert_eq!(remove_stale(&model_dir).unwrap(), [], "it may be alive");
    let living = Writer::create(&model_dir, 3, None).unwrap();
    let held = model_dir.lease(Takeover::No).unwrap();
    assert_eq!(remove_stale(&model_dir).unwrap(), [checkpoint_dir(&model_dir, 2)]);
    drop(living);
    drop(held);
    // A checkpoint that was begun before the lease now belongs to another run.
    assert_eq!(newest(&model_dir).step().unwrap(), 1);
}
