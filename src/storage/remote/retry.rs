//! Retries requests, with pauses that double and jitter so that many hosts do not retry at once.

use std::fmt::Display;
use std::future::Future;
use std::time::{Duration, Instant};

use super::failure::{Contact, Failure, GivenUp};
use super::limits::{Limits, OUTAGE_VARIABLE};
use crate::slow::{PATIENCE, tell_of_trouble};

/// Maximum wait that is granted to a server.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Number of attempts when no server has ever answered: a wrong name or a missing network should be
/// reported in less than half a minute.
const TRIES_TO_CONNECT: u32 = 3;

/// The pauses of one request.
pub(super) struct Backoff {
    limits: Limits,
    /// The requested path or address.
    what: String,
    failed: u32,
    /// Number of failures in which a server was not reached that had answered before.
    lost: u32,
    /// Time of the first such failure since a server last answered.
    away_since: Option<Instant>,
    /// Time of the last progress.
    since: Instant,
}

impl Backoff {
    pub(super) fn new(limits: Limits, what: &impl Display) -> Self {
        let (what, since) = (what.to_string(), Instant::now());
        Self { limits, what, failed: 0, lost: 0, away_since: None, since }
    }

    /// Records progress: the next failure counts as the first.
    pub(super) fn progressed(&mut self) {
        (self.failed, self.lost, self.away_since) = (0, 0, None);
        self.since = Instant::now();
    }

    /// Pauses before the next attempt; the user is told if the wait is long.
    ///
    /// # Errors
    /// The failure, if a further attempt cannot help or there were enough attempts.
    pub(super) async fn pause(&mut self, failure: Failure) -> Result<(), Failure> {
        let Failure::Temporary { reason, wait, contact } = failure else {
            return Err(failure);
        };
        self.failed += 1;
        let tries = match contact {
            Contact::Never => self.limits.tries.min(TRIES_TO_CONNECT),
            Contact::Made | Contact::Lost => self.limits.tries,
        };
        if self.is_enough(contact, tries) {
            let times = if self.failed == 1 { "try" } else { "tries" };
            let remedy = match contact {
                Contact::Lost => format!("; {OUTAGE_VARIABLE} sets how long Gimlet waits for it"),
                _ => String::new(),
            };
            let reason = format!("{reason}, after {} {times}{remedy}", self.failed);
            let unreachable = contact == Contact::Never;
            return Err(Failure::GivenUp(GivenUp { reason, unreachable }));
        }
        if let Some(word) = self.word(&reason, tries) {
            tell_of_trouble(&word);
        }
        let grown = self.limits.first_pause.saturating_mul(1 << (self.failed - 1).min(16));
        let jitter = 0.5 + rand::random::<f64>() / 2.0;
        let pause = grown.min(self.limits.longest_pause).mul_f64(jitter);
        tokio::time::sleep(pause.max(wait.unwrap_or_default().min(LONGEST_WAIT))).await;
        Ok(())
    }

    /// Whether to give up. A server that is away is tried at least until the time limit of an outage;
    /// after it is back, failures of the outage do not count.
    fn is_enough(&mut self, contact: Contact, tries: u32) -> bool {
        if contact == Contact::Lost {
            self.lost += 1;
            let since = *self.away_since.get_or_insert_with(Instant::now);
            return self.failed >= tries && since.elapsed() >= self.limits.outage;
        }
        self.away_since = None;
        self.failed - self.lost >= tries
    }

    fn word(&self, reason: &str, tries: u32) -> Option<String> {
        let (what, failed) = (&self.what, self.failed);
        let is_slow = self.since.elapsed() >= PATIENCE;
        is_slow.then(|| format!("{what}: {reason}; {failed} of {tries} tries failed, trying again"))
    }
}

/// Makes attempts until one succeeds or further attempts cannot help.
pub(super) async fn retry<T, F>(
    limits: Limits,
    what: &impl Display,
    mut attempt: impl FnMut() -> F,
) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let mut backoff = Backoff::new(limits, what);
    loop {
        match attempt().await {
            Ok(value) => return Ok(value),
            Err(failure) => backoff.pause(failure).await?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tries(failure: fn() -> Failure) -> u32 {
        let limits = Limits { first_pause: Duration::ZERO, ..Limits::default() };
        let mut made = 0;
        let result: Result<(), _> = super::super::client::wait(retry(limits, &"a", || {
            made += 1;
            async { Err(failure()) }
        }));
        assert!(result.is_err());
        made
    }

    #[test]
    fn only_what_may_pass_is_tried_again_and_not_for_ever() {
        assert_eq!(tries(|| Failure::temporary("busy")), Limits::default().tries);
        assert_eq!(tries(|| Failure::NotFound), 1);
        assert_eq!(tries(|| Failure::Permanent("no".to_string())), 1);
        let unreachable =
            || Failure::Temporary { reason: String::new(), wait: None, contact: Contact::Never };
        assert_eq!(tries(unreachable), TRIES_TO_CONNECT);
    }

    #[test]
    fn a_server_that_is_back_may_be_busy_as_often_as_any() {
        let limits = Limits { outage: Duration::from_secs(300), ..Limits::default() };
        let tries = limits.tries;
        let mut backoff = Backoff::new(limits, &"a");
        let mut is_enough = |contact| {
            backoff.failed += 1;
            backoff.is_enough(contact, tries)
        };
        assert!((0..3 * tries).all(|_| !is_enough(Contact::Lost)));
        assert!((1..tries).all(|_| !is_enough(Contact::Made)));
        assert!(is_enough(Contact::Made));
    }

    #[test]
    fn who_waits_long_is_told_why() {
        let mut backoff = Backoff::new(Limits::default(), &"s3://b/x");
        backoff.failed = 1;
        assert_eq!(backoff.word("the server does not answer", 8), None);
        backoff.since = Instant::now().checked_sub(PATIENCE).unwrap();
        let word = "s3://b/x: the server does not answer; 1 of 8 tries failed, trying again";
        assert_eq!(backoff.word("the server does not answer", 8).as_deref(), Some(word));
        backoff.progressed();
        assert_eq!(backoff.word("the server does not answer", 8), None);
    }
}
