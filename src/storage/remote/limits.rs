//! Limits on waiting and on memory for remote reading.

use std::sync::{OnceLock, RwLock};
use std::time::Duration;

use crate::credentials::variable;

/// Times to wait for servers and for other processes, the number of retries, and the amount of data
/// to read ahead.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// A request is retried when the server sends nothing for this long.
    pub stall: Duration,
    /// Maximum number of consecutive failures without a byte of progress.
    pub tries: u32,
    /// The pause before the second try; each further pause is twice as long.
    pub first_pause: Duration,
    /// The maximum pause.
    pub longest_pause: Duration,
    /// Number of bytes per request.
    pub part_size: u64,
    /// Number of requests of one reader ahead of the request being read.
    pub parts_ahead: usize,
    /// Time to wait for a server that has answered before and is no longer reachable.
    pub outage: Duration,
    /// A lease may be taken over when its holder was silent for this long.
    pub lease: Duration,
    /// Minimum time between two uploads of a growing file.
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

/// The environment variable with the seconds to wait for a server that is no longer reachable.
pub const OUTAGE_VARIABLE: &str = "GIMLET_OUTAGE_SECS";

/// Default of this time.
const OUTAGE: Duration = Duration::from_secs(300);

static LIMITS: RwLock<Option<Limits>> = RwLock::new(None);

/// Sets the process-wide limits; open files keep their limits.
///
/// # Panics
/// If a limit is 0, except for `parts_ahead`.
pub fn set_limits(limits: Limits) {
    assert!(limits.tries > 0 && limits.part_size > 0 && !limits.stall.is_zero());
    *LIMITS.write().expect("no holder of the limits panics") = Some(limits);
}

pub(crate) fn limits() -> Limits {
    let set = LIMITS.read().expect("no holder of the limits panics").clone();
    set.unwrap_or_else(|| Limits { outage: outage().unwrap_or(OUTAGE), ..Limits::default() })
}

/// The time to wait for unreachable servers, from the environment.
///
/// # Errors
/// The text, if it is not a number of seconds.
pub(super) fn outage() -> Result<Duration, String> {
    static GIVEN: OnceLock<Result<Duration, String>> = OnceLock::new();
    let read = || match variable(OUTAGE_VARIABLE) {
        None => Ok(OUTAGE),
        Some(text) => text.trim().parse().map(Duration::from_secs).map_err(|_| text),
    };
    GIVEN.get_or_init(read).clone()
}
