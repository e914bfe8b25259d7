//! Tells the user what a slow start waits for: an import of TensorFlow may take a minute.

use std::sync::RwLock;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Time that a start may take before the user is told.
const PATIENCE: Duration = Duration::from_secs(10);

static OBSERVER: RwLock<Option<fn(&str)>> = RwLock::new(None);

/// Sets the observer of slow starts; without an observer there are no messages.
pub fn set_observer(observer: fn(&str)) {
    *OBSERVER.write().expect("no holder of the observer panics") = Some(observer);
}

/// Does the work, and says what it is once it takes long: after 10 seconds, after 20, after 40 and so on.
pub(super) fn waiting<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let observer = *OBSERVER.read().expect("no holder of the observer panics");
    match observer {
        Some(observer) => told(what, PATIENCE, &observer, work),
        None => work(),
    }
}

fn told<T>(
    what: &str,
    patience: Duration,
    tell: &(dyn Fn(&str) + Sync),
    work: impl FnOnce() -> T,
) -> T {
    let (ending, end) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (start, mut pause) = (Instant::now(), patience);
            while end.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = start.elapsed();
                tell(&format!("{what}: {} s so far", pause.as_secs()));
            }
        });
        let done = work();
        // The thread ends.
        drop(ending);
        done
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_takes_long_is_told_and_other_work_is_not() {
        let (sender, words) = channel();
        let tell = move |word: &str| sender.send(word.to_string()).expect("it is received");
        let first = told("waiting for a", Duration::from_millis(1), &tell, || words.recv());
        assert_eq!(first.as_deref(), Ok("waiting for a: 0 s so far"));
        assert_eq!(told("b", PATIENCE, &|word| panic!("{word}"), || 5), 5);
    }
}
