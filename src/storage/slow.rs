//! Tells the user about transfers that take longer than two seconds, about waits and about failing
//! servers.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Time that a transfer may take before the user is told.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Time between two messages.
pub(super) const PAUSE: Duration = Duration::from_secs(10);

static OBSERVER: RwLock<Option<fn(&str)>> = RwLock::new(None);

/// Sets the observer of slow transfers and long waits; without an observer there are no messages.
pub fn set_observer(observer: fn(&str)) {
    *OBSERVER.write().expect("no holder of the observer panics") = Some(observer);
}

/// Reports a wait that begins.
pub(super) fn tell(word: &str) {
    if let Some(observer) = *OBSERVER.read().expect("no holder of the observer panics") {
        observer(word);
    }
}

/// Reports an operation that takes long or fails. When a server is away, many operations may fail
/// at once for the same reason: one message per pause is enough, and while a server is away the
/// message is about the server.
pub(super) fn tell_of_trouble(word: &str) {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.is_none_or(|last| last.elapsed() >= PAUSE) {
        *last = Some(Instant::now());
        let outage = away().outage().map(Outage::told);
        tell(&outage.unwrap_or_else(|| word.to_string()));
    }
}

/// A server that has answered before and is no longer reachable.
struct Outage {
    server: String,
    reason: String,
    since: Instant,
    /// Time of the last attempt.
    tried: Instant,
    /// Maximum time to wait for the server.
    longest: Duration,
    is_told: bool,
}

impl Outage {
    fn told(&mut self) -> String {
        self.is_told = true;
        let (Self { server, reason, .. }, seconds) = (&*self, self.since.elapsed().as_secs());
        format!("{server} is away ({reason}): waited {seconds} of {} s", self.longest.as_secs())
    }
}

/// The server that is away; the first one, if there are several.
#[derive(Default)]
struct Away(Option<Outage>);

impl Away {
    /// After this time without an attempt, no operation waits for the server any more.
    const FORGOTTEN: Duration = Duration::from_secs(60);

    fn outage(&mut self) -> Option<&mut Outage> {
        self.0.take_if(|outage| outage.tried.elapsed() >= Self::FORGOTTEN);
        self.0.as_mut()
    }

    fn lost(&mut self, server: &str, reason: String, longest: Duration) {
        let now = Instant::now();
        match self.outage() {
            Some(outage) if outage.server == server => outage.tried = now,
            Some(_) => {}
            None => {
                let (server, is_told) = (server.to_string(), false);
                let outage = Outage { server, reason, since: now, tried: now, longest, is_told };
                self.0 = Some(outage);
            }
        }
    }

    /// The message about the end of an outage that was reported.
    fn reached(&mut self, server: &str) -> Option<String> {
        let ended = self.0.take_if(|outage| outage.server == server)?;
        let seconds = ended.since.elapsed().as_secs();
        ended.is_told.then(|| format!("{server} is back after {seconds} s"))
    }
}

fn away() -> MutexGuard<'static, Away> {
    static AWAY: Mutex<Away> = Mutex::new(Away(None));
    AWAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a server that was reached before is away. The user has been told of the outage, so other
/// code need not report that work is waiting.
pub fn is_cut_off() -> bool {
    away().outage().is_some()
}

/// Records that a server is away.
pub(super) fn lost(server: &str, reason: String, longest: Duration) {
    away().lost(server, reason, longest);
}

/// Records that a server answers.
pub(super) fn reached(server: &str) {
    let word = away().reached(server);
    if let Some(word) = word {
        tell(&word);
    }
}

/// A transfer in progress.
pub(super) struct Transfer {
    what: String,
    next_word: Instant,
}

impl Transfer {
    /// Starts a transfer, such as `sending gs://b/x`.
    pub(super) fn new(what: String) -> Self {
        Self { what, next_word: Instant::now() + PATIENCE }
    }

    /// Records that `bytes` bytes have been transferred.
    pub(super) fn reached(&mut self, bytes: u64) {
        let now = Instant::now();
        if now < self.next_word {
            return;
        }
        self.next_word = now + PAUSE;
        tell(&self.word(bytes));
    }

    fn word(&self, bytes: u64) -> String {
        format!("{}: {:.1} MB", self.what, bytes as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_one_and_counts_its_time() {
        let mut away = Away::default();
        for (server, reason) in [("a:9", "refused"), ("a:9", "reset"), ("b:9", "refused")] {
            away.lost(server, reason.to_string(), Duration::from_secs(300));
        }
        let word = away.outage().map(Outage::told);
        assert_eq!(word.as_deref(), Some("a:9 is away (refused): waited 0 of 300 s"));
        assert_eq!(away.reached("b:9"), None);
        assert_eq!(away.reached("a:9").as_deref(), Some("a:9 is back after 0 s"));
        assert!(away.outage().is_none());
    }

    #[test]
    fn a_server_that_nobody_asks_any_more_is_not_away() {
        let mut away = Away::default();
        away.lost("a:9", String::new(), Duration::from_secs(300));
        let tried = Instant::now().checked_sub(Away::FORGOTTEN).unwrap();
        away.0.as_mut().unwrap().tried = tried;
        assert!(away.outage().is_none());
    }

    #[test]
    fn a_word_says_how_far_it_is() {
        let transfer = Transfer::new("sending gs://b/x".to_string());
        assert_eq!(transfer.word(16_000_000), "sending gs://b/x: 16.0 MB");
    }
}
