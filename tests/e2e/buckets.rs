//! A run whose MODEL_DIR and gin files lie in a bucket.

use std::path::Path;
use std::time::Duration;

use crate::arrays;
use crate::command::{Ended, Train, sources};
use crate::events::read_scalars;
use crate::folder::{Folder, steps};
use crate::resume::{has_ended, send, wait};
use crate::s3::S3;
use crate::server::Server;

#[test]
fn a_run_in_a_bucket_is_refused_to_others_and_goes_on_after_it_was_killed() {
    let folder = Folder::new();
    let s3 = S3::new("bucket", Some(("key", "secret")));
    let bucket = s3.root.path().join("bucket");
    copy(&sources("gin"), &bucket.join("gin"));
    let server = Server::start(move |request| s3.answer(request));
    let run = in_bucket(&folder, &server, 1_000_000);
    let model_dir = bucket.join("runs/a");

    let mut child = run.start();
    let process = format!("process {} on host ", child.id());
    wait(|| steps(&model_dir).len() > 1 || has_ended(&mut child));
    let second = run.run();
    send(&child, libc::SIGKILL);
    let first = Ended::new(child.wait_with_output().expect("gimlet ends"));
    assert_eq!(first.status, None, "{}", first.stderr);
    assert_eq!(second.status, Some(2), "{}", second.stderr);
    for words in [&process, "`s3://bucket/runs/a`", "--take_over"] {
        assert!(second.stderr.contains(words), "`{words}` is not in:\n{}", second.stderr);
    }
    let saved = *steps(&model_dir).last().expect("it saved") as i64;
    let losses = &read_scalars(&model_dir.join("train"))["loss"];
    let missing: Vec<i64> = (1..=saved).filter(|step| !losses.contains_key(step)).collect();
    assert!(missing.is_empty(), "step {saved} is saved, and there is no loss of {missing:?}");
    let lease = model_dir.join("gimlet.lease");
    assert!(lease.exists(), "nobody could give it back: {}", first.stderr);

    let end = steps(&model_dir).last().expect("it saved") + 4;
    let resumed = in_bucket(&folder, &server, end).succeeds();
    assert!(resumed.stderr.contains("restored step"), "{}", resumed.stderr);
    let whole = folder.path("whole");
    folder.pretrain(end).num_threads(2).bind_text("MODEL_DIR", &whole).succeeds();
    let [found, expected] = [&model_dir, &whole].map(|dir| arrays::open(dir, end));
    arrays::assert_same(&found, &expected);
    let losses = &read_scalars(&model_dir.join("train"))["loss"];
    assert!((1..=end as i64).all(|step| losses.contains_key(&step)), "{losses:?}");
    let config = std::fs::read_to_string(model_dir.join("config.gin")).expect("it is written");
    assert!(config.contains("s3://bucket/runs/a"), "{config}");
    assert!(model_dir.join("model-info.txt").exists());
    assert!(!model_dir.join("gimlet.lease").exists());
    for step in steps(&model_dir) {
        let mark = model_dir.join(format!("checkpoint_{step}/gimlet/unfinished.json"));
        assert!(!mark.exists(), "{}", mark.display());
    }
}

#[test]
#[ignore = "takes ten minutes: `make soak`"]
fn runs_survive_a_server_that_is_away_for_twenty_seconds() {
    const STEPS: u64 = 60;
    let folder = Folder::new();
    let whole = folder.path("whole");
    folder.pretrain(STEPS).num_threads(2).bind_text("MODEL_DIR", &whole).succeeds();
    // Amid steps, evaluations and saves, at moments that differ.
    for run in 0..14 {
        let s3 = S3::new("bucket", Some(("key", "secret")));
        let bucket = s3.root.path().join("bucket");
        copy(&sources("gin"), &bucket.join("gin"));
        let server = Server::start(move |request| s3.answer(request));
        let model_dir = bucket.join("runs/a");
        let mut child = in_bucket(&folder, &server, STEPS).start();
        wait(|| steps(&model_dir).len() > 1 || has_ended(&mut child));
        std::thread::sleep(Duration::from_millis(37 * run));
        assert!(!has_ended(&mut child), "run {run} ended before the server was away");
        server.away_for(Duration::from_secs(20));
        let ended = Ended::new(child.wait_with_output().expect("gimlet ends"));
        assert_eq!(ended.status, Some(0), "run {run}: {}", ended.stderr);
        let [found, expected] = [&model_dir, &whole].map(|dir| arrays::open(dir, STEPS));
        arrays::assert_same(&found, &expected);
        let losses = &read_scalars(&model_dir.join("train"))["loss"];
        assert!((1..=STEPS as i64).all(|step| losses.contains_key(&step)), "run {run}: {losses:?}");
    }
}

/// `gimlet train` with everything but the data in the bucket.
pub fn in_bucket(folder: &Folder, server: &Server, steps: u64) -> Train {
    Train::new(&folder.path(""))
        .arg("--gin_search_paths=s3://bucket/gin")
        .gin_file("s3://bucket/gin/pretrain_tiny.gin")
        .bind("TRAIN_STEPS", steps)
        .bind_text("MODEL_DIR", "s3://bucket/runs/a")
        .num_threads(2)
        .env("GIMLET_OFFLINE", "0")
        .env("NO_PROXY", "127.0.0.1")
        .env("AWS_ENDPOINT_URL", &server.url(""))
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
}

/// Copies a folder with all its files.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("the bucket can be written");
    for entry in std::fs::read_dir(from).expect("is readable") {
        let entry = entry.expect("is readable").path();
        let to = to.join(entry.file_name().expect("it has a name"));
        match entry.is_dir() {
            true => copy(&entry, &to),
            false => drop(std::fs::copy(&entry, to).expect("the bucket can be written")),
        }
    }
}
