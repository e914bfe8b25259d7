//! Uploads to buckets: their retries, their patience, and files that they must never replace.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use gimlet::storage::{Path, StorageError};

use super::faulty::{Bucket, Fault, joins_parts, no_such_upload};
use super::s3::S3;
use super::server::{Reply, Request, Server};
use super::{STALL, environment, path};

/// Starts a bucket of this name. `fault` may answer a request in its place, by the number of
/// requests of its kind.
fn server(
    name: &'static str,
    fault: impl Fn(usize, &Request) -> Option<Reply> + Send + Sync + 'static,
) -> (Server, std::sync::MutexGuard<'static, ()>) {
    let (s3, count) = (Arc::new(S3::new(name, Some(("key", "secret")))), AtomicUsize::new(0));
    let server = Server::start(move |request| {
        let is_write = ["PUT", "POST", "DELETE"].contains(&request.method.as_str());
        let number = if is_write { count.fetch_add(1, Ordering::SeqCst) } else { usize::MAX };
        fault(number, request).unwrap_or_else(|| s3.answer(request))
    });
    let environment = environment(&[
        ("AWS_ENDPOINT_URL", &server.url("")),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ]);
    (server, environment)
}

fn refused() -> Result<(), StorageError> {
    let reason = "the lease is lost".to_string();
    Err(StorageError::Failed { path: String::new(), operation: "go on with".into(), reason })
}

fn write(file: &Path) -> gimlet::storage::FileWriter {
    let mut out = file.create_sized(4).unwrap();
    out.write_all(b"ours").unwrap();
    out
}

#[test]
fn what_another_wrote_is_not_replaced_by_who_lost_its_place() {
    let bucket = Bucket::new();
    let file = bucket.path("run").join("file");
    let out = write(&file);
    file.write_atomic(b"theirs").unwrap();
    assert!(out.finish_while(&refused).is_err());
    assert_eq!(file.read().unwrap(), b"theirs");
    // Also if the place is lost after the last check.
    let times = AtomicUsize::new(0);
    let lost = write(&file).finish_while(&|| match times.fetch_add(1, Ordering::SeqCst) {
        0 => Ok(()),
        1 => file.write_atomic(b"theirs, later"),
        _ => refused(),
    });
    assert!(lost.is_err() && times.into_inner() == 3);
    assert_eq!(file.read().unwrap(), b"theirs, later");
    write(&file).finish_while::<StorageError>(&|| Ok(())).unwrap();
    assert_eq!(file.read().unwrap(), b"ours");
}

#[test]
fn who_loses_its_place_while_the_store_is_busy_makes_no_file() {
    let bucket = Bucket::new();
    let file = bucket.path("run").join("file");
    let attempt = |fault, allowed: usize| {
        bucket.set(fault);
        let times = AtomicUsize::new(0);
        let lost = write(&file).finish_while(&|| match times.fetch_add(1, Ordering::SeqCst) {
            time if time < allowed => Ok(()),
            _ => refused(),
        });
        assert!(lost.unwrap_err().to_string().contains("the lease is lost"));
        let requests = bucket.count();
        bucket.set(Fault::None);
        (requests, file.exists().unwrap())
    };
    // It is checked before the first try and before the second, and at the end.
    assert_eq!(attempt(Fault::None, 0), (0, false));
    assert_eq!(attempt(Fault::Only(1), 1), (1, false));
    assert_eq!(attempt(Fault::None, 1), (1, true));
    file.remove_file().unwrap();
    assert_eq!(attempt(Fault::NoConditions, 1), (1, false));
}

#[test]
fn a_busy_server_is_asked_as_often_as_is_said() {
    let busy = |_, request: &Request| (request.method != "GET").then(|| Reply::status(503));
    let (server, _held) = server("overloaded", busy);
    let folder = path("s3://overloaded/run");
    for (number, attempt) in [
        &(|| folder.join("a").write_atomic(b"x")) as &dyn Fn() -> Result<(), StorageError>,
        &|| folder.join("a").rename(&folder.join("b")),
        &|| folder.join("a").remove_file(),
        &|| {
            folder.join("a").append().and_then(|mut out| {
                // A large upload, which begins with a request for its parts.
                let sent = out.write_all(&vec![0; 17 << 20]);
                sent.map_err(|error| StorageError::new("write", &folder, error))
            })
        },
    ]
    .into_iter()
    .enumerate()
    {
        let writes = || server.requests().iter().filter(|one| one.method != "GET").count();
        let before = writes();
        let message = attempt().expect_err(&number.to_string()).to_string();
        assert!(message.contains("503") && message.contains("after 4 tries"), "{message}");
        assert_eq!(writes() - before, 4, "attempt {number}");
    }
}

/// Returns bytes that are uploaded in parts; those of each number differ.
fn large(number: usize) -> Vec<u8> {
    let mut bytes = vec![7; (16 << 20) + 1];
    bytes[0] = number as u8;
    bytes
}

fn write_in_parts(file: &Path, bytes: &[u8]) -> Result<(), StorageError> {
    let mut out = file.create().unwrap();
    out.write_all(bytes).unwrap();
    out.finish()
}

#[test]
fn a_write_whose_answer_is_lost_is_no_failure() {
    let bucket = Bucket::new();
    let (file, moved) = (bucket.path("run").join("file"), bucket.path("run").join("moved"));
    let work = |number: usize| {
        write(&file).finish_while::<StorageError>(&|| Ok(())).unwrap();
        file.rename(&moved).unwrap();
        assert!(!file.exists().unwrap(), "answer {number}");
        assert_eq!(moved.read().unwrap(), b"ours", "answer {number}");
        moved.write_atomic(b"others").unwrap();
        write(&moved).finish_while::<StorageError>(&|| Ok(())).unwrap();
        assert_eq!(moved.read().unwrap(), b"ours", "answer {number}");
        moved.remove_file().unwrap();
    };
    losing_answers(&bucket, work);
}

#[test]
fn parts_that_are_put_together_without_an_answer_are_a_file() {
    let bucket = Bucket::new();
    let file = bucket.path("run").join("file");
    losing_answers(&bucket, |number| {
        write_in_parts(&file, &large(number)).unwrap();
        assert_eq!(file.read_range(0..1).unwrap(), [number as u8]);
        assert_eq!(file.size().unwrap(), (16 << 20) + 1);
    });
}

/// Repeats `work`, so that each of its requests is once served without an answer.
fn losing_answers(bucket: &Bucket, work: impl Fn(usize)) {
    bucket.set(Fault::None);
    work(0);
    for number in 1..=bucket.count() {
        bucket.set(Fault::LostAnswer(number));
        work(number);
    }
}

#[test]
fn parts_that_the_store_has_lost_are_no_file() {
    let lost = |_, request: &Request| joins_parts(request).then(no_such_upload);
    let (_server, _held) = server("forgetful", lost);
    let file = path("s3://forgetful/file");
    assert!(write_in_parts(&file, &large(1)).unwrap_err().is_not_found());
    assert!(!file.exists().unwrap());
    // An earlier file of the same size is not mistaken for it.
    let mut out = file.create_sized(17 << 20).unwrap();
    out.write_all(&large(2)).unwrap();
    out.finish().unwrap();
    assert!(write_in_parts(&file, &large(3)).unwrap_err().is_not_found());
    assert_eq!(file.read_range(0..1).unwrap(), [2]);
}

#[test]
fn a_server_that_goes_away_is_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let file = path(&format!("http://{}/file", listener.local_addr().unwrap()));
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        // Before the answer, so that the next request finds no server.
        drop(listener);
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx")
            .unwrap();
    });
    assert_eq!(file.read().unwrap(), b"x");
    let message = file.read().unwrap_err().to_string();
    assert!(message.contains("tries; GIMLET_OUTAGE_SECS sets how long"), "{message}");
    assert!(!message.contains("--path_map"), "{message}");
}

#[test]
fn a_server_that_says_when_to_write_again_is_waited_for() {
    let busy =
        |number, _: &Request| (number == 0).then(|| Reply::status(503).with("Retry-After", "1"));
    let (server, _held) = server("later", busy);
    let start = Instant::now();
    path("s3://later/file").write_atomic(b"x").unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_success_that_turns_out_as_a_failure_is_tried_again() {
    let failure = "<?xml version=\"1.0\"?><Error><Code>InternalError</Code></Error>";
    let busy = move |_, request: &Request| {
        static COPIES: AtomicUsize = AtomicUsize::new(0);
        let is_copy = request.header("x-amz-copy-source").is_some();
        (is_copy && COPIES.fetch_add(1, Ordering::SeqCst) == 0).then(|| Reply::ok(failure))
    };
    let (_server, _held) = server("hidden", busy);
    let folder = path("s3://hidden");
    folder.join("a").write_atomic(b"x").unwrap();
    folder.join("a").rename(&folder.join("b")).unwrap();
    assert_eq!(folder.join("b").read().unwrap(), b"x");
}

#[test]
fn a_write_that_stalls_is_soon_made_again() {
    let stalls = |number, _: &Request| {
        if number == 0 {
            std::thread::park_timeout(10 * STALL);
        }
        None
    };
    let (_server, _held) = server("stalling", stalls);
    let start = Instant::now();
    path("s3://stalling/file").write_atomic(b"x").unwrap();
    assert!(start.elapsed() < 4 * STALL, "{:?}", start.elapsed());
}

#[test]
fn a_chunk_goes_in_one_request_and_all_together_are_bounded() {
    let (server, _held) = server("chunks", |_, _| None);
    let file = |number: usize| path("s3://chunks").join(&number.to_string());
    let mut chunks: Vec<_> =
        (0..4).map(|number| file(number).create_sized(64 << 20).unwrap()).collect();
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        scope.spawn(move || sender.send(file(4).create_sized(64 << 20).unwrap()));
        let waited = receiver.recv_timeout(Duration::from_millis(200));
        assert!(matches!(waited, Err(RecvTimeoutError::Timeout)), "there is memory for four");
        let mut first = chunks.remove(0);
        first.write_all(&vec![7; 20 << 20]).unwrap();
        first.finish().unwrap();
        receiver.recv().unwrap();
    });
    assert_eq!(server.requests().len(), 1);
    assert_eq!(file(0).size().unwrap(), 20 << 20);
}
