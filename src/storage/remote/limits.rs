//! How patient and how greedy reading from elsewhere is.

use std::sync::RwLock;
use std::time::Duration;

/// How long to wait for servers and for other processes, how often to ask again, and how much to read ahead.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// A server that sends nothing for this long is asked anew.
    pub stall: Duration,
    /// How often in a row a request may fail without a byte of progress.
    pub tries: u32,
    /// The pause before the second try; each further pause is twice as long.
    pub first_pause: Duration,
    /// The longest pause that grows this way.
    pub longest_pause: Duration,
    /// Bytes that one request asks for.
    pub part_size: u64,
    /// Requests of one reader that run ahead of the one being read.
    pub parts_ahead: usize,
    /// A lease whose holder was not heard of for this long may be taken.
    pub lease: Duration,
    /// A growing file is sent at most once in this time.
    pub growing_pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            stall: Duration::from_secs(30),
            tries: 8,
            first_pause: Duration::from_millis(250),
            longest_pause: Duration::from_secs(15),
            part_size: 8 << 20,
            parts_ahead: 4,
            lease: Duration::from_secs(60),
            growing_pause: Duration::from_secs(30),
        }
    }
}

static LIMITS: RwLock<Option<Limits>> = RwLock::new(None);

/// Sets the process-wide limits; files that are open keep theirs.
///
/// # Panics
/// Where a limit is 0, except for `parts_ahead`.
pub fn set_limits(limits: Limits) {
    assert!(limits.tries > 0 && limits.part_size > 0 && !limits.stall.is_zero());
    *LIMITS.write().expect("no holder of the limits panics") = Some(limits);
}

pub(in crate::storage) fn limits() -> Limits {
    LIMITS.read().expect("no holder of the limits panics").clone().unwrap_or_default()
}
