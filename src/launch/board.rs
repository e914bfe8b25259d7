//! The place where a launcher's main thread and the thread that talks to the other launchers leave their words.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::rounds::{NodeState, Plan};

/// The words of this launcher, and those of the coordinator.
#[derive(Debug)]
pub struct Board {
    /// The time without an answer after which this machine is cut off.
    silence: Duration,
    words: Mutex<Words>,
}

#[derive(Debug)]
struct Words {
    state: NodeState,
    /// This launcher and the newest plan.
    heard: Option<(usize, Plan)>,
    at: Instant,
    /// The reason why no plan will follow.
    broken: Option<String>,
}

/// The state of the run, as this launcher knows it.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// Nobody has answered for so long.
    Silence(Duration),
    /// This launcher, and the newest plan.
    Plan(usize, Plan),
    /// Nobody will answer any more.
    Broken(String),
}

impl Board {
    /// Creates the board of a launcher that waits for a round.
    pub fn new(silence: Duration) -> Self {
        let words =
            Words { state: NodeState::Waiting, heard: None, at: Instant::now(), broken: None };
        Self { silence, words: Mutex::new(words) }
    }

    /// Tells the others a state.
    pub fn tell(&self, state: NodeState) {
        self.words().state = state;
    }

    /// Returns the state to tell.
    pub fn told(&self) -> NodeState {
        self.words().state.clone()
    }

    /// Stores the newest plan for this launcher.
    pub fn hear(&self, launcher: usize, plan: Plan) {
        let mut words = self.words();
        (words.heard, words.at) = (Some((launcher, plan)), Instant::now());
    }

    /// Says that no plan will follow.
    pub fn break_off(&self, reason: String) {
        self.words().broken = Some(reason);
    }

    /// Returns the newest words of the coordinator.
    pub fn known(&self) -> Known {
        let words = self.words();
        let silence = words.at.elapsed();
        match (&words.broken, &words.heard) {
            // The plan says how the run ended; the store ends after it.
            (_, Some((own, plan))) if plan.end.is_some() => Known::Plan(*own, plan.clone()),
            (Some(reason), _) => Known::Broken(reason.clone()),
            (None, Some((own, plan))) if silence < self.silence => Known::Plan(*own, plan.clone()),
            (None, _) => Known::Silence(silence),
        }
    }

    /// Whether the processes of a round must end, since others have, or since this machine is cut off.
    pub fn is_over(&self, round: usize) -> bool {
        match self.known() {
            Known::Plan(_, plan) => plan.round > round || plan.end.is_some(),
            Known::Silence(_) | Known::Broken(_) => true,
        }
    }

    fn words(&self) -> MutexGuard<'_, Words> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
