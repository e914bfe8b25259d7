//! Leases on folders of stores: one holder at a time, even after deaths.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gimlet::storage::{Leased, Path, Process, Takeover, set_observer};
use serde_json::{Value, json};

use super::faulty::{Bucket, Fault};
use super::{LEASE, STALL};

/// The lead of a clock whose times must look new for the whole duration of a test.
const HOUR: Duration = Duration::from_secs(3600);

/// Writes a lease like a process of another machine, last renewed so many seconds ago.
pub(crate) fn write_foreign(folder: &Path, silence: f64) {
    folder.join("gimlet.lease").write_atomic(&foreign(silence)).unwrap();
}

fn foreign(silence: f64) -> Vec<u8> {
    let mut process = serde_json::to_value(Process::this()).unwrap();
    process["host"] = json!("elsewhere");
    process["token"] = json!("theirs");
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let heartbeat = since.as_secs_f64() - silence;
    let lease = json!({"process": process, "token": "x", "heartbeat": heartbeat});
    lease.to_string().into_bytes()
}

/// Does the same in the server's folder, written long ago by its clock.
fn put_old(bucket: &Bucket, silence: f64) {
    let new = bucket.root.join("new");
    std::fs::write(&new, foreign(silence)).unwrap();
    bucket.age("new");
    std::fs::rename(new, bucket.root.join("run/gimlet.lease")).unwrap();
}

fn is_busy(folder: &Path) -> bool {
    matches!(folder.lease(Takeover::No).unwrap(), Leased::Busy(_))
}

/// Waits until something holds.
pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what} never");
        std::thread::yield_now();
    }
}

#[test]
fn a_second_holder_is_refused_and_told_of_the_first() {
    let bucket = Bucket::new();
    let folder = bucket.path("run");
    let held = folder.lease(Takeover::No).unwrap();
    assert!(matches!(held, Leased::Held(_)));
    let Leased::Busy(holder) = folder.lease(Takeover::Yes).unwrap() else {
        panic!("it is held by this very process")
    };
    let expected = format!("process {} on host", std::process::id());
    assert!(holder.to_string().starts_with(&expected), "{holder}");
    drop(held);
    assert!(!folder.exists().unwrap(), "nothing is left");
    assert!(!is_busy(&folder));
}

#[test]
fn one_of_many_that_come_at_once_gets_it() {
    let bucket = Bucket::new();
    let folder = bucket.path("run");
    let all: Vec<Leased> = std::thread::scope(|scope| {
        let take = || folder.lease(Takeover::No).unwrap();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(take)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(all.iter().filter(|leased| matches!(leased, Leased::Held(_))).count(), 1);
}

#[test]
fn it_is_renewed_while_it_is_held() {
    let bucket = Bucket::new();
    let folder = bucket.path("run");
    let _held = folder.lease(Takeover::No).unwrap();
    let read = || folder.join("gimlet.lease").read().unwrap();
    let first = read();
    eventually("renewed", || read() != first);
    eventually("alive", || folder.lease_holder().unwrap().unwrap().is_alive());
}

#[test]
fn one_of_which_nothing_was_heard_is_taken() {
    let bucket = Bucket::new();
    let folder = bucket.path("run");
    write_foreign(&folder, 3.0);
    // By the holder's clock it is old, by the store's it is new.
    bucket.set_written("run/gimlet.lease", SystemTime::now() + HOUR);
    assert!(is_busy(&folder));
    bucket.age("run/gimlet.lease");
    let Leased::Held(_held) = folder.lease(Takeover::No).unwrap() else { panic!("it is old") };
    let holder = folder.lease_holder().unwrap().unwrap();
    assert!(holder.process.is_this());
}

#[test]
fn who_waits_for_a_sign_of_life_is_told_how_long_and_what_skips_it() {
    static WORDS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    set_observer(|word| WORDS.lock().unwrap().push(word.to_string()));
    let bucket = Bucket::new();
    let folder = bucket.path("told");
    write_foreign(&folder, 100.0);
    bucket.age("told/gimlet.lease");
    let Leased::Held(held) = folder.lease(Takeover::No).unwrap() else { panic!("it is old") };
    drop(held);
    write_foreign(&folder, 100.0);
    bucket.age("told/gimlet.lease");
    let Leased::Held(_held) = folder.lease(Takeover::Yes).unwrap() else { panic!("it is old") };
    let words = WORDS.lock().unwrap();
    let told: Vec<&String> =
        words.iter().filter(|word| word.contains("told/gimlet.lease")).collect();
    assert!(told.len() == 1 && told[0].contains("waiting 1 s for a sign of life"), "{told:?}");
    assert!(told[0].ends_with("which --take_over skips"), "{told:?}");
}

#[test]
fn one_that_only_seems_old_is_left_to_its_holder() {
    let bucket = Bucket::new();
    let folder = bucket.path("run");
    write_foreign(&folder, 0.0);
    // As a process with a fast clock sees it, while the holder keeps renewing it.
    put_old(&bucket, 3000.0);
    std::thread::scope(|scope| {
        let taker = scope.spawn(|| is_busy(&folder));
        while !taker.is_finished() {
            put_old(&bucket, 3000.0);
            std::thread::park_timeout(Duration::from_millis(20));
        }
        assert!(taker.join().unwrap());
    });
}

#[test]
fn one_whose_holder_is_known_to_be_dead_is_taken_at_once() {
    let bucket = Bucket::new();
    let folder = bucket.path("run");
    write_foreign(&folder, -HOUR.as_secs_f64());
    assert!(is_busy(&folder));
    let file = folder.join("gimlet.lease");
    let mut lease: Value = serde_json::from_slice(&file.read().unwrap()).unwrap();
    lease["process"]["host"] = json!(Process::this().host);
    lease["process"]["pid"] = json!(u32::MAX);
    file.write_atomic(lease.to_string().as_bytes()).unwrap();
    assert!(!is_busy(&folder));
}

#[test]
fn it_can_be_taken_over_and_its_holder_learns_of_it() {
    let bucket = Bucket::new();
    let folder = bucket.path("run");
    write_foreign(&folder, 0.0);
    let Leased::Held(held) = folder.lease(Takeover::Yes).unwrap() else { panic!("as asked") };
    assert!(!held.is_lost());
    write_foreign(&folder, 0.0);
    eventually("lost", || held.is_lost());
    drop(held);
    assert!(folder.join("gimlet.lease").exists().unwrap(), "the other's lease stays");
}

#[test]
fn a_store_without_conditions_has_leases_too() {
    let bucket = Bucket::new();
    bucket.set(Fault::NoConditions);
    let folder = bucket.path("run");
    let held = folder.lease(Takeover::No).unwrap();
    assert!(matches!(held, Leased::Held(_)) && is_busy(&folder));
    for _ in 0..2 {
        let before = folder.join("gimlet.lease").read().unwrap();
        eventually("renewed", || folder.join("gimlet.lease").read().unwrap() != before);
    }
}

#[test]
fn without_conditions_a_newcomer_keeps_its_lease() {
    let bucket = Bucket::new();
    bucket.set(Fault::NoConditions);
    let folder = bucket.path("run");
    let Leased::Held(held) = folder.lease(Takeover::No).unwrap() else { panic!("it is free") };
    write_foreign(&folder, 0.0);
    eventually("lost", || held.is_lost());
    assert!(!folder.lease_holder().unwrap().unwrap().process.is_this());
}

#[test]
fn who_could_not_renew_for_long_asks_before_it_goes_on() {
    let bucket = Bucket::new();
    let folder = bucket.path("run");
    let Leased::Held(held) = folder.lease(Takeover::No).unwrap() else { panic!("it is free") };
    bucket.set(Fault::From(1));
    let start = Instant::now();
    put_old(&bucket, 0.0);
    eventually("overdue", || start.elapsed() > LEASE);
    bucket.set(Fault::None);
    assert!(held.is_lost());
}

#[test]
fn a_server_that_hangs_does_not_keep_the_holder() {
    let bucket = Bucket::new();
    let held = bucket.path("run").lease(Takeover::No).unwrap();
    bucket.set(Fault::Stall(1));
    eventually("asked", || bucket.count() > 0);
    let start = Instant::now();
    drop(held);
    assert!(start.elapsed() < STALL);
    assert!(!bucket.path("run").exists().unwrap(), "it is given back");
}

#[test]
fn a_lease_that_cannot_be_read_is_named() {
    let bucket = Bucket::new();
    let folder = bucket.path("run");
    folder.join("gimlet.lease").write_atomic(b"?").unwrap();
    let message = folder.lease(Takeover::No).unwrap_err().to_string();
    assert!(message.contains("gimlet.lease`: it is not a lease"), "{message}");
}

#[test]
fn a_bucket_that_is_only_read_says_what_to_set() {
    let bucket = Bucket::new();
    bucket.set(Fault::ReadOnly);
    let message = bucket.path("run").lease(Takeover::No).unwrap_err().to_string();
    assert!(message.contains("cannot write") && message.contains("do not suffice"), "{message}");
}
