//! Files that grow in a store while others read them.

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
