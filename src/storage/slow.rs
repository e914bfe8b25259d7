//! Tells the user of transfers that take longer than two seconds, of waits and of servers that fail.

use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// What a transfer may take without a word.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// The time between two words.
pub(super) const PAUSE: Duration = Duration::from_secs(10);

static OBSERVER: RwLock<Option<fn(&str)>> = RwLock::new(None);

/// Sets who is told of slow transfers and long waits; without one nobody is.
pub fn set_observer(observer: fn(&str)) {
    *OBSERVER.write().expect("no holder of the observer panics") = Some(observer);
}

/// Tells of a wait that begins.
pub(super) fn tell(word: &str) {
    if let Some(observer) = *OBSERVER.read().expect("no holder of the observer panics") {
        observer(word);
    }
}

/// Tells of something that takes long or fails. Much may at once, where a server is away, and for one
/// reason: one word in a while is enough.
pub(super) fn tell_of_trouble(word: &str) {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.is_none_or(|last| last.elapsed() >= PAUSE) {
        *last = Some(Instant::now());
        tell(word);
    }
}

/// A transfer under way.
pub(super) struct Transfer {
    what: String,
    total: Option<u64>,
    next_word: Instant,
}

impl Transfer {
    /// Starts one: `fetching gs://b/x` of so many bytes.
    pub(super) fn new(what: String, total: Option<u64>) -> Self {
        Self { what, total, next_word: Instant::now() + PATIENCE }
    }

    /// Notes that so many bytes are through.
    pub(super) fn reached(&mut self, bytes: u64) {
        let now = Instant::now();
        if now < self.next_word {
            return;
        }
        self.next_word = now + PAUSE;
        tell(&self.word(bytes));
    }

    fn word(&self, bytes: u64) -> String {
        let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
        match self.total {
            Some(total) => {
                format!("{}: {} of {} MB", self.what, megabytes(bytes), megabytes(total))
            }
            None => format!("{}: {} MB", self.what, megabytes(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_how_far_it_is() {
        let known = Transfer::new("fetching gs://b/x".to_string(), Some(2_000_000));
        assert_eq!(known.word(500_000), "fetching gs://b/x: 0.5 of 2.0 MB");
        let unknown = Transfer::new("sending gs://b/x".to_string(), None);
        assert_eq!(unknown.word(16_000_000), "sending gs://b/x: 16.0 MB");
    }
}
