//! How patient and how greedy reading from elsewhere is.

use std::sync::{OnceLock, RwLock};
use std::time::Duration;

use crate::storage::credentials::variable;

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
    /// A server that has answered before and is not reached any more is waited for this long.
    pub outage: Duration,
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
            outage: OUTAGE,
            lease: Duration::from_secs(60),
            growing_pause: Duration::from_secs(30),
        }
    }
}

/// The environment variable for the seconds that a server which is not reached any more is waited for.
pub const OUTAGE_VARIABLE: &str = "GIMLET_OUTAGE_SECS";

/// What it is by default.
const OUTAGE: Duration = Duration::from_secs(300);

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
    let set = LIMITS.read().expect("no holder of the limits panics").clone();
    set.unwrap_or_else(|| Limits { outage: outage().unwrap_or(OUTAGE), ..Limits::default() })
}

/// How long the environment has servers waited for.
///
/// # Errors
/// The text, where it is not a number of seconds.
pub(super) fn outage() -> Result<Duration, String> {
    static GIVEN: OnceLock<Result<Duration, String>> = OnceLock::new();
    let read = || match variable(OUTAGE_VARIABLE) {
        None => Ok(OUTAGE),
        Some(text) => text.trim().parse().map(Duration::from_secs).map_err(|_| text),
    };
    GIVEN.get_or_init(read).clone()
}
