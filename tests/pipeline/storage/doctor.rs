//! `gimlet doctor s3://...`: each permission is tried, and the missing one named.

use std::process::Command;

use super::faulty::{Bucket, Fault};

/// Returns the program's report on a bucket with a fault, and its exit status.
fn examined(fault: Fault) -> (String, Option<i32>) {
    let bucket = Bucket::new();
    bucket.set(fault);
    let mut command = Command::new(env!("CARGO_BIN_EXE_gimlet"));
    let output = command.args(["doctor", bucket.path("run").as_str()]).output().unwrap();
    bucket.set(Fault::None);
    let is_removed = !bucket.path("run").exists().unwrap();
    assert_eq!(is_removed, fault != Fault::NoDelete, "what may be removed is");
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

#[test]
fn a_bucket_that_allows_all_is_said_to() {
    let (said, status) = examined(Fault::None);
    assert_eq!((said.matches(" yes\n").count(), status), (7, Some(0)), "{said}");
}

#[test]
fn a_missing_permission_is_named() {
    for (fault, permission, allowed) in [
        (Fault::NoList, "s3:ListBucket", 6),
        (Fault::ReadOnly, "s3:PutObject", 1),
        (Fault::NoParts, "s3:PutObject with s3:AbortMultipartUpload", 6),
        (Fault::NoCopies, "s3:PutObject with s3:GetObject", 6),
        (Fault::NoDelete, "s3:DeleteObject", 6),
        (Fault::NoRead, "s3:GetObject", 4),
    ] {
        let (said, status) = examined(fault);
        assert!(said.contains(&format!("no: it needs {permission}; cannot")), "{said}");
        assert_eq!((said.matches(" yes\n").count(), status), (allowed, Some(1)), "{said}");
    }
}

#[test]
fn a_server_without_conditions_is_no_fault() {
    let (said, status) = examined(Fault::NoConditions);
    assert!(said.contains("the server knows no conditions"), "{said}");
    assert_eq!(status, Some(0), "{said}");
}

#[test]
fn a_server_that_replaces_what_has_changed_is_found_out() {
    let (said, status) = examined(Fault::IgnoresChanges);
    assert!(said.contains("the server ignores conditions"), "{said}");
    assert_eq!(status, Some(0), "{said}");
}
