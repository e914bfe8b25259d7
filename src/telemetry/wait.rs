//! Work without a progress line of its own: after two seconds, the user gets messages about it and
//! its progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::console;

/// The duration of work without a message.
const PATIENCE: Duration = Duration::from_secs(2);

/// The time between two messages.
const PAUSE: Duration = Duration::from_secs(10);

/// Reports work from a separate thread, because the working thread may be blocked. Dropping it
/// means the end of the work.
///
/// ```
/// use gimlet_telemetry::Wait;
/// let wait = Wait::new("reading my_run/checkpoint_1000", Some(3_000_000_000));
/// wait.add(1_000_000);
/// ```
pub struct Wait {
    shared: Arc<Shared>,
    /// Nothing is sent: the thread notices that the sender is dropped.
    ending: Option<Sender<()>>,
    teller: Option<JoinHandle<()>>,
}

struct Shared {
    what: String,
    /// Number of bytes, if progress is measured in them.
    total: Option<u64>,
    done: Arc<AtomicU64>,
    start: Instant,
}

impl Wait {
    /// Starts reporting work; `what` begins the line. `total` is the number of its bytes, if they
    /// are counted.
    pub fn new(what: &str, total: Option<u64>) -> Self {
        Self::start(what, (total, Arc::default()), PATIENCE, console::notice)
    }

    /// Starts reporting work of another thread, of `total` bytes, which counts its progress in
    /// `done`.
    pub fn of(what: &str, total: u64, done: Arc<AtomicU64>) -> Self {
        Self::start(what, (Some(total), done), PATIENCE, console::notice)
    }

    /// Notes that so many more bytes are done.
    pub fn add(&self, bytes: u64) {
        self.shared.done.fetch_add(bytes, Ordering::Relaxed);
    }

    fn start(
        what: &str,
        (total, done): (Option<u64>, Arc<AtomicU64>),
        patience: Duration,
        tell: impl Fn(&str) + Send + 'static,
    ) -> Self {
        let shared =
            Arc::new(Shared { what: what.to_string(), total, done, start: Instant::now() });
        let (ending, end) = channel();
        let theirs = shared.clone();
        let teller = std::thread::Builder::new().name("wait".to_string());
        // Without a thread the work continues without messages.
        let teller = teller.spawn(move || theirs.tell(patience, &end, &tell)).ok();
        Self { shared, ending: Some(ending), teller }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        drop(self.ending.take());
        if let Some(teller) = self.teller.take() {
            // This ensures that no message comes after the end.
            let _ = teller.join();
        }
    }
}

impl Shared {
    fn tell(&self, patience: Duration, end: &Receiver<()>, tell: &dyn Fn(&str)) {
        let mut pause = patience;
        while end.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            if !gimlet_storage::is_cut_off() {
                tell(&self.word(self.start.elapsed()));
            }
            pause = PAUSE;
        }
    }

    fn word(&self, elapsed: Duration) -> String {
        let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
        let done = megabytes(self.done.load(Ordering::Relaxed));
        match self.total {
            Some(total) => format!("{}: {done} of {} MB", self.what, megabytes(total)),
            None => format!("{}: {} s so far", self.what, elapsed.as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn who_waits_is_told_what_for_and_how_far_it_is() {
        let first_word = |total| {
            let (sender, words) = channel();
            let tell = move |word: &str| sender.send(word.to_string()).expect("it is received");
            let _wait = Wait::start("reading a", (total, Arc::default()), Duration::ZERO, tell);
            words.recv().unwrap()
        };
        assert_eq!(first_word(Some(2_000_000)), "reading a: 0.0 of 2.0 MB");
        assert!(first_word(None).starts_with("reading a: "));
    }

    #[test]
    fn work_that_is_over_is_not_told_of() {
        let counted = (Some(2_000_000), Arc::new(AtomicU64::new(400_000)));
        let wait = Wait::start("a", counted, PATIENCE, |word| panic!("{word}"));
        wait.add(100_000);
        assert_eq!(wait.shared.word(PATIENCE), "a: 0.5 of 2.0 MB");
    }
}
