//! Files that grow in a store while other processes read them.

use std::time::{Duration, Instant};

use super::faulty::{Bucket, Fault};

#[test]
fn what_is_appended_is_seen_in_time_and_all_of_it_at_the_end() {
    let bucket = Bucket::new();
    let path = bucket.path("train/events");
    let mut file = path.grow().unwrap();
    let mut expected = Vec::new();
    for number in 0..20_u8 {
        file.append(&[number; 100]).unwrap();
        expected.extend([number; 100]);
        let start = Instant::now();
        while number % 7 == 0 && path.read().ok().as_ref() != Some(&expected) {
            assert!(start.elapsed() < Duration::from_secs(20), "byte {number} is never seen");
        }
    }
    file.finish().unwrap();
    assert!(path.read().unwrap() == expected);
}

#[test]
fn unsent_bytes_are_there_once_they_are_asked_for() {
    let bucket = Bucket::new();
    let path = bucket.path("events");
    let mut file = path.grow().unwrap();
    for number in 0..5_u8 {
        file.append(&[number]).unwrap();
        let unsent = file.unsent().unwrap();
        file.append(b"later").unwrap();
        assert!(unsent.send());
        assert!(
            path.read().unwrap().ends_with(&[number, b'l', b'a', b't', b'e', b'r'])
                || path.read().unwrap().ends_with(&[number])
        );
    }
    bucket.set(Fault::ReadOnly);
    file.append(b"refused").unwrap();
    let refused = file.unsent().unwrap();
    assert!(!refused.send());
    bucket.set(Fault::None);
    assert!(refused.send());
    let unsent = file.unsent().unwrap();
    file.finish().unwrap();
    assert!(unsent.send() && path.read().unwrap().ends_with(b"refused"));
}

#[test]
fn the_end_of_a_growing_file_is_replaced() {
    let bucket = Bucket::new();
    let folder = tempfile::tempdir().unwrap();
    let disk = gimlet::storage::Path::try_from(folder.path()).unwrap();
    for path in [bucket.path("lines"), disk.join("lines")] {
        let mut file = path.grow_anew(b"kept, ".to_vec()).unwrap();
        for (dropped, bytes, expected) in [
            (0, &b"first"[..], &b"kept, first"[..]),
            (5, b"first and more", b"kept, first and more"),
            (14, b"less", b"kept, less"),
            (0, b".", b"kept, less."),
        ] {
            file.replace_end(dropped, bytes).unwrap();
            file.unsent().iter().for_each(|unsent| assert!(unsent.send()));
            assert_eq!(path.read().unwrap(), expected, "{path}");
        }
        file.finish().unwrap();
    }
}

#[test]
fn a_store_that_fails_for_a_while_loses_nothing() {
    let bucket = Bucket::new();
    let path = bucket.path("events");
    let mut file = path.grow().unwrap();
    bucket.set(Fault::ReadOnly);
    file.append(b"a").unwrap();
    let start = Instant::now();
    while file.failure().is_none() {
        assert!(start.elapsed() < Duration::from_secs(20), "the failure is never told");
    }
    bucket.set(Fault::None);
    file.append(b"b").unwrap();
    file.finish().unwrap();
    assert_eq!(path.read().unwrap(), b"ab");
}

#[test]
fn a_failure_that_has_passed_is_none_at_the_end() {
    let bucket = Bucket::new();
    let path = bucket.path("events");
    let mut file = path.grow().unwrap();
    bucket.set(Fault::ReadOnly);
    file.append(b"a").unwrap();
    super::leases::eventually("refused twice", || bucket.count() > 1);
    bucket.set(Fault::None);
    file.finish().unwrap();
    assert_eq!(path.read().unwrap(), b"a");
}

#[test]
fn a_file_that_cannot_be_sent_says_so_at_the_end() {
    let bucket = Bucket::new();
    let mut file = bucket.path("events").grow().unwrap();
    bucket.set(Fault::ReadOnly);
    file.append(b"a").unwrap();
    assert!(file.finish().unwrap_err().to_string().contains("access denied"));
}
