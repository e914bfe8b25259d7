//! Asking again: pauses that double, with jitter so that many hosts do not ask at once.

use std::fmt::Display;
use std::future::Future;
use std::time::{Duration, Instant};

use super::failure::{Failure, GivenUp};
use super::limits::Limits;
use crate::storage::slow::{PATIENCE, tell_of_trouble};

/// A server may ask for more patience than this; it gets this.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Tries where no server has ever answered: a wrong name or no network should not take half a minute to
/// tell.
const TRIES_TO_CONNECT: u32 = 3;

/// The pauses of one request.
pub(super) struct Backoff {
    limits: Limits,
    /// The path or address that is asked for.
    what: String,
    failed: u32,
    /// When something last came of it.
    since: Instant,
}

impl Backoff {
    pub(super) fn new(limits: Limits, what: &impl Display) -> Self {
        Self { limits, what: what.to_string(), failed: 0, since: Instant::now() }
    }

    /// Something came of it: the next failure counts as the first.
    pub(super) fn progressed(&mut self) {
        (self.failed, self.since) = (0, Instant::now());
    }

    /// Pauses before the next try, of which the user is told where it takes long.
    ///
    /// # Errors
    /// The failure, where a further try cannot help or was made often enough.
    pub(super) async fn pause(&mut self, failure: Failure) -> Result<(), Failure> {
        let Failure::Temporary { reason, wait, unreachable } = failure else {
            return Err(failure);
        };
        self.failed += 1;
        let tries = match unreachable {
            true => self.limits.tries.min(TRIES_TO_CONNECT),
            false => self.limits.tries,
        };
        if self.failed >= tries {
            let times = if self.failed == 1 { "try" } else { "tries" };
            let reason = format!("{reason}, after {} {times}", self.failed);
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

    fn word(&self, reason: &str, tries: u32) -> Option<String> {
        let (what, failed) = (&self.what, self.failed);
        let is_slow = self.since.elapsed() >= PATIENCE;
        is_slow.then(|| format!("{what}: {reason}; {failed} of {tries} tries failed, trying again"))
    }
}

/// Makes attempts until one succeeds or no further can help.
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
            || Failure::Temporary { reason: String::new(), wait: None, unreachable: true };
        assert_eq!(tries(unreachable), TRIES_TO_CONNECT);
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
