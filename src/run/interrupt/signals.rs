//! Handles signals in `gimlet-torch`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};
use std::time::Instant;

use signal_hook::low_level;

use super::{SIGNALS, is_ignored, mask};

/// Signals within this many milliseconds are one request: `timeout` sends SIGTERM twice, to the
/// process and to its group, and closing a terminal sends SIGHUP from the system and from the shell.
const ONE_REQUEST_MILLIS: u64 = 300;

/// Whether a signal has asked the process to end.
pub struct Interrupt {
    start: Instant,
    /// Milliseconds from `start` to the first signal, plus 1; 0 before it.
    first: AtomicU64,
    signal: AtomicI32,
    stop: AtomicBool,
}

impl Interrupt {
    /// Starts listening, and handles signals that were held back before.
    ///
    /// # Errors
    /// The system's.
    pub fn listen() -> io::Result<Arc<Self>> {
        let interrupt = Arc::new(Self {
            start: Instant::now(),
            first: AtomicU64::new(0),
            signal: AtomicI32::new(0),
            stop: AtomicBool::new(false),
        });
        for signal in SIGNALS.into_iter().filter(|signal| !is_ignored(*signal)) {
            let theirs = interrupt.clone();
            let action = move || theirs.on(signal, theirs.start.elapsed().as_millis() as u64 + 1);
            // SAFETY: the action reads the clock, uses atomics and may call `_exit`, all async-signal-safe.
            unsafe { low_level::register(signal, action) }?;
        }
        release()?;
        Ok(interrupt)
    }

    /// A flag that is set once a signal has come.
    pub fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// The signal that asked to end.
    pub fn signal(&self) -> Option<i32> {
        self.stop.load(SeqCst).then(|| self.signal.load(SeqCst))
    }

    fn on(&self, signal: i32, now: u64) {
        match self.first.compare_exchange(0, now, SeqCst, SeqCst) {
            Ok(_) => {
                self.signal.store(signal, SeqCst);
                self.stop.store(true, SeqCst);
            }
            Err(first) if insists(first, now) => low_level::exit(128 + signal),
            Err(_) => {}
        }
    }
}

/// Delivers the signals that [`super::hold`] held back.
///
/// # Errors
/// The system's.
pub fn release() -> io::Result<()> {
    mask(libc::SIG_UNBLOCK)
}

/// Whether a signal this many milliseconds after the first one is a second request.
fn insists(first: u64, now: u64) -> bool {
    now.saturating_sub(first) > ONE_REQUEST_MILLIS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_at_once_are_one_request_and_later_ones_insist() {
        assert!(!insists(1_000, 1_000) && !insists(1_000, 1_300));
        assert!(insists(1_000, 1_301));
        // The clock value may be older, if another thread read it earlier.
        assert!(!insists(1_000, 999));
    }
}
