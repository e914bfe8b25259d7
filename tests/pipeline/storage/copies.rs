//! Copies of remote files in `GIMLET_CACHE_DIR`. Each check is a separate process, since the
//! variable applies to the whole process.

use std::fs;
use std::io::Read;
use std::path::Path as LocalPath;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gimlet::storage::Path;

use super::faulty::{Bucket, Fault};
use super::server::{Reply, Server};
use super::{goog_hash, noise};
use crate::child;

#[test]
#[ignore = "a child of other tests"]
fn child_reads() {
    for path in child::task().split(',') {
        let path = super::path(path);
        let mut bytes = Vec::new();
        path.open().unwrap().read_to_end(&mut bytes).unwrap();
        assert!(path.read().unwrap() == bytes);
        assert!(path.open_ranges().unwrap().read(0..4).unwrap() == bytes[..4]);
        let mut rest = Vec::new();
        path.open_at(3).unwrap().read_to_end(&mut rest).unwrap();
        assert!(rest == bytes[3..]);
        println!("read {} {:08x}", bytes.len(), crc32c::crc32c(&bytes));
    }
}

fn try_read(paths: &[&Path], copies: &LocalPath, gigabytes: &str) -> Output {
    let paths: Vec<_> = paths.iter().map(|path| path.as_str()).collect();
    child::command("storage::copies::child_reads", &paths.join(","))
        .env("GIMLET_CACHE_DIR", copies)
        .env("GIMLET_CACHE_GB", gigabytes)
        .output()
        .unwrap()
}

/// Returns the output of a child with a folder of copies about its reading.
fn read(paths: &[&Path], copies: &LocalPath, gigabytes: &str) -> Vec<String> {
    let output = try_read(paths, copies, gigabytes);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    said.lines().filter(|line| line.starts_with("read ")).map(str::to_string).collect()
}

fn line(bytes: &[u8]) -> String {
    format!("read {} {:08x}", bytes.len(), crc32c::crc32c(bytes))
}

/// Returns the number of requests for bytes since the fault was set.
fn fetches(bucket: &Bucket, before: usize) -> usize {
    bucket.requests()[before..].iter().filter(|request| request.header("range").is_some()).count()
}

fn sizes(folder: &LocalPath) -> Vec<u64> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().metadata().unwrap().len()).collect()
}

#[test]
fn a_file_is_fetched_once_and_again_when_it_has_changed() {
    let (bucket, copies) = (Bucket::new(), tempfile::tempdir().unwrap());
    let (file, bytes) = (bucket.path("data"), noise(300_000));
    file.write_atomic(&bytes).unwrap();
    let folder = copies.path().join("made for it");
    assert_eq!(read(&[&file], &folder, "1"), [line(&bytes)]);
    assert_eq!(sizes(&folder), [300_000]);
    let before = bucket.requests().len();
    assert_eq!(read(&[&file], &folder, "1"), [line(&bytes)]);
    assert_eq!(fetches(&bucket, before), 0);
    file.write_atomic(&bytes[1..]).unwrap();
    assert_eq!(read(&[&file], &folder, "1"), [line(&bytes[1..])]);
}

#[test]
fn what_was_used_longest_ago_makes_room() {
    let (bucket, copies) = (Bucket::new(), tempfile::tempdir().unwrap());
    let files = ["a", "b", "c"].map(|name| bucket.path(name));
    files.iter().for_each(|file| file.write_atomic(&noise(40_000)).unwrap());
    // Room for two.
    read(&[&files[0], &files[1], &files[0], &files[2]], copies.path(), "0.0001");
    assert_eq!(sizes(copies.path()), [40_000, 40_000]);
    let before = bucket.requests().len();
    read(&[&files[0], &files[2]], copies.path(), "0.0001");
    assert_eq!(fetches(&bucket, before), 0);
    // A file that would take most of the room is read without a copy.
    let large = bucket.path("large");
    large.write_atomic(&noise(60_000)).unwrap();
    assert_eq!(read(&[&large], copies.path(), "0.0001"), [line(&noise(60_000))]);
    assert_eq!(sizes(copies.path()), [40_000, 40_000]);
}

#[test]
fn files_of_others_neither_count_nor_make_room() {
    let (bucket, copies) = (Bucket::new(), tempfile::tempdir().unwrap());
    let theirs = ["notes.txt", "0123456789abcdef0123456789abcdef.txt"];
    for name in theirs {
        fs::write(copies.path().join(name), noise(90_000)).unwrap();
    }
    let files = ["a", "b"].map(|name| bucket.path(name));
    files.iter().for_each(|file| file.write_atomic(&noise(40_000)).unwrap());
    read(&[&files[0], &files[1]], copies.path(), "0.0001");
    let mut found = sizes(copies.path());
    found.sort_unstable();
    assert_eq!(found, [40_000, 40_000, 90_000, 90_000]);
}

#[test]
fn room_is_made_before_a_fetch() {
    let (bucket, copies) = (Bucket::new(), tempfile::tempdir().unwrap());
    let files = ["a", "b", "c"].map(|name| bucket.path(name));
    files.iter().for_each(|file| file.write_atomic(&noise(40_000)).unwrap());
    read(&[&files[0], &files[1]], copies.path(), "0.0001");
    let entries = fs::read_dir(copies.path()).unwrap();
    let before: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    // A failed fetch shows the content of the folder in the meantime.
    bucket.set(Fault::From(2));
    assert!(!try_read(&[&files[2]], copies.path(), "0.0001").status.success());
    bucket.set(Fault::None);
    assert_eq!(before.iter().filter(|copy| copy.exists()).count(), 1);
}

/// No user may make a folder there, and root gets an error that the file system is read-only.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_cannot_be_written_is_gone_without() {
    let bucket = Bucket::new();
    let file = bucket.path("data");
    file.write_atomic(b"some bytes").unwrap();
    assert_eq!(read(&[&file], "/sys/gimlet-copies".as_ref(), "1"), [line(b"some bytes")]);
}

#[test]
fn a_download_that_was_cut_goes_on_where_it_was() {
    let (bucket, copies) = (Bucket::new(), tempfile::tempdir().unwrap());
    let (file, bytes) = (bucket.path("data"), noise(300_000));
    file.write_atomic(&bytes).unwrap();
    read(&[&file], copies.path(), "1");
    // Like the file of a killed process.
    let whole = fs::read_dir(copies.path()).unwrap().next().unwrap().unwrap().path();
    fs::write(whole.with_extension("part"), &bytes[..200_000]).unwrap();
    fs::remove_file(&whole).unwrap();
    bucket.set(Fault::None);
    let before = bucket.requests().len();
    assert_eq!(read(&[&file], copies.path(), "1"), [line(&bytes)]);
    let first = bucket.requests()[before..].iter().filter_map(|request| request.range()).next();
    assert_eq!(first.map(|(start, _)| start), Some(200_000));
    assert_eq!(sizes(copies.path()), [300_000]);
}

#[test]
fn a_download_that_goes_on_is_compared_as_a_whole() {
    let (bytes, copies) = (noise(300_000), tempfile::tempdir().unwrap());
    let sent = bytes.clone();
    let server = Server::start(move |request| {
        let reply = Reply::file(request, &sent).with("x-goog-hash", &goog_hash(&sent));
        reply.with("ETag", "\"1\"")
    });
    let file = super::path(&server.url("/data"));
    assert_eq!(read(&[&file], copies.path(), "1"), [line(&bytes)]);
    let whole = fs::read_dir(copies.path()).unwrap().next().unwrap().unwrap().path();
    fs::write(whole.with_extension("part"), vec![0; 200_000]).unwrap();
    fs::remove_file(&whole).unwrap();
    let output = try_read(&[&file], copies.path(), "1");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("and the store says"), "{said}");
    // The damaged copy is removed, so that the next try fetches everything.
    assert_eq!(sizes(copies.path()), [0]);
    assert_eq!(read(&[&file], copies.path(), "1"), [line(&bytes)]);
}

#[test]
fn a_download_that_was_damaged_begins_anew() {
    let (bytes, copies) = (noise(300_000), tempfile::tempdir().unwrap());
    let damages = Arc::new(AtomicBool::new(true));
    let (sent, damaging) = (bytes.clone(), damages.clone());
    let server = Server::start(move |request| {
        let mut body = sent.clone();
        body[0] ^= u8::from(damaging.load(Ordering::SeqCst));
        let reply = Reply::file(request, &body).with("x-goog-hash", &goog_hash(&sent));
        reply.with("ETag", "\"1\"")
    });
    let file = super::path(&server.url("/data"));
    let output = try_read(&[&file], copies.path(), "1");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("and the store says"), "{said}");
    assert_eq!(sizes(copies.path()), [0]);
    damages.store(false, Ordering::SeqCst);
    assert_eq!(read(&[&file], copies.path(), "1"), [line(&bytes)]);
}
