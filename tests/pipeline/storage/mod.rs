//! Files behind paths: on disk, in buckets, on the hub and on the web, with and without faults. All
//! servers run inside the tests.

pub(crate) mod buckets;
mod doctor;
pub(crate) mod faulty;
mod gin;
mod globs;
mod growing;
mod hub;
pub(crate) mod leases;
mod s3;
pub(crate) mod server;
mod suite;
mod uploads;
mod web;

use std::sync::{Mutex, MutexGuard, Once};
use std::time::Duration;

use gimlet::storage::{Limits, Path, set_limits};

/// Bytes of one request in these tests.
const PART: usize = 64 << 10;

/// Time after which these tests consider a server stalled.
const STALL: Duration = Duration::from_secs(2);

/// Time after which these tests consider a silent holder of a lease dead.
const LEASE: Duration = Duration::from_secs(1);

/// Short waits and small parts, the same for all tests of the process.
pub(crate) fn limits() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        set_limits(Limits {
            stall: STALL,
            tries: 4,
            first_pause: Duration::from_millis(1),
            longest_pause: Duration::from_millis(4),
            part_size: PART as u64,
            parts_ahead: 4,
            outage: Duration::from_millis(20),
            lease: LEASE,
            growing_pause: Duration::from_millis(20),
        });
    });
}

fn path(text: &str) -> Path {
    limits();
    Path::parse(text).unwrap()
}

/// Returns the header with which Google's store sends the checksum of a file.
fn goog_hash(bytes: &[u8]) -> String {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits = u64::from(crc32c::crc32c(bytes)) << 4;
    let digit = |place: u32| char::from(digits[(bits >> (6 * (5 - place)) & 63) as usize]);
    format!("crc32c={}==,md5=AAAA", (0..6).map(digit).collect::<String>())
}

/// Returns bytes of which any two stretches differ.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Sets the environment of a test that looks for credentials: only `variables`, without the
/// developer's own.
/// Held while the test runs, so that no other test changes it.
pub(crate) fn environment(variables: &[(&str, &str)]) -> MutexGuard<'static, ()> {
    static ENVIRONMENT: Mutex<()> = Mutex::new(());
    let guard = ENVIRONMENT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let prefixes = ["AWS_", "GOOGLE_", "AZURE_", "HF_", "HUGGING_FACE_", "STORAGE_", "GCE_"];
    let theirs = std::env::vars().map(|(name, _)| name);
    let theirs = theirs.filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)));
    for name in theirs.collect::<Vec<_>>() {
        // SAFETY: all tests that read or change these variables hold the guard, and std locks them.
        unsafe { std::env::remove_var(name) };
    }
    for (name, value) in
        [("HOME", "/nonexistent"), ("NO_PROXY", "127.0.0.1")].iter().chain(variables)
    {
        // SAFETY: as above.
        unsafe { std::env::set_var(name, value) };
    }
    guard
}
