//! The texts that wait for the model, and the choice of those that share a batch.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use crate::interactive::{Answer, Asked, Decoding, Piece};
use crate::session::forward::TokenScores;

use super::refusal::Refusal;

/// The work on a text; equal ones may share a batch.
// Most requests decode.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// To decode answers.
    Generate(Decoding),
    /// To score its targets.
    Score,
    /// To score each token of its targets, and so many of the most probable ones in its place.
    ScoreTokens(usize),
    /// To find the likeliest pieces for its masks, so many for each.
    Fill(usize),
}

/// News about a text, for the client that asked.
#[derive(Debug)]
pub enum News {
    /// A token of an answer that grows.
    Token(i32),
    /// The answers, the best first.
    Answers(Vec<Answer>),
    /// The score.
    Score(f64),
    /// The scores of each token of the targets.
    TokenScores(Vec<TokenScores>),
    /// The pieces for each mask, the likeliest first.
    Masks(Vec<Vec<Piece>>),
    /// libtorch failed.
    Failed(String),
}

/// A text that waits. Its client has gone if nobody receives the news.
#[derive(Debug)]
pub struct Job {
    /// The text as ids.
    pub asked: Asked,
    /// The work.
    pub work: Work,
    /// Whether the answer is wanted as it grows.
    pub streams: bool,
    /// Receives the news.
    pub news: UnboundedSender<News>,
    /// The time at which it came.
    pub arrived: Instant,
}

impl Job {
    /// Whether it may share a batch with another one. A text with a seed is decoded by itself, so that its samples do
    /// not depend on others.
    fn may_join(&self, other: &Self) -> bool {
        let has_seed = matches!(&self.work, Work::Generate(decoding) if decoding.seed.is_some());
        !has_seed && self.work == other.work
    }
}

/// Texts in the order in which they came.
#[derive(Debug)]
pub struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    capacity: usize,
}

#[derive(Debug)]
struct Waiting {
    jobs: VecDeque<Job>,
    is_open: bool,
}

impl Queue {
    /// An empty queue of that capacity.
    pub fn new(capacity: usize) -> Self {
        let waiting = Waiting { jobs: VecDeque::new(), is_open: true };
        Self { waiting: Mutex::new(waiting), changed: Condvar::new(), capacity }
    }

    /// The number of texts that may wait.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Adds the texts of a request, all or none.
    ///
    /// # Errors
    /// There is no room for all of them, or the server is ending.
    pub fn push(&self, jobs: Vec<Job>) -> Result<(), Refusal> {
        let mut waiting = self.lock();
        if !waiting.is_open {
            return Err(Refusal::Ending);
        }
        if waiting.jobs.len() + jobs.len() > self.capacity {
            // Those of clients that have gone need no room.
            waiting.jobs.retain(|job| !job.news.is_closed());
        }
        if waiting.jobs.len() + jobs.len() > self.capacity {
            return Err(Refusal::Busy);
        }
        waiting.jobs.extend(jobs);
        self.changed.notify_all();
        Ok(())
    }

    /// Refuses new texts. Those that wait are still answered.
    pub fn close(&self) {
        self.lock().is_open = false;
        self.changed.notify_all();
    }

    /// Number of texts that wait.
    pub fn len(&self) -> usize {
        self.lock().jobs.len()
    }

    /// Waits for texts, and takes those of the next batch: the oldest, and those of equal work that are closest to its
    /// length. It is complete with `rows` texts, or when the oldest has waited for `max_wait`. Returns `None` once the
    /// queue is closed and empty.
    pub fn next(&self, rows: usize, max_wait: Duration) -> Option<Vec<Job>> {
        let mut waiting = self.lock();
        loop {
            waiting.jobs.retain(|job| !job.news.is_closed());
            let Some(oldest) = waiting.jobs.front() else {
                if !waiting.is_open {
                    return None;
                }
                waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let joined = waiting.jobs.iter().filter(|job| job.may_join(oldest)).count();
            let left = max_wait.saturating_sub(oldest.arrived.elapsed());
            if joined >= rows || left.is_zero() || !waiting.is_open {
                return Some(take(&mut waiting.jobs, rows));
            }
            let changed = self.changed.wait_timeout(waiting, left);
            waiting = changed.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the oldest job and those that fit it best.
fn take(jobs: &mut VecDeque<Job>, rows: usize) -> Vec<Job> {
    let oldest = jobs.pop_front().expect("the caller has seen it");
    let length = oldest.asked.inputs.len();
    let mut others: Vec<usize> = (0..jobs.len()).filter(|at| jobs[*at].may_join(&oldest)).collect();
    others.sort_by_key(|at| jobs[*at].asked.inputs.len().abs_diff(length));
    others.truncate(rows - 1);
    others.sort_unstable();
    let mut taken: Vec<Job> =
        others.into_iter().rev().map(|at| jobs.remove(at).expect("the place exists")).collect();
    taken.push(oldest);
    taken.reverse();
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    fn job(length: usize, work: Work) -> (Job, UnboundedReceiver<News>) {
        let (news, received) = unbounded_channel();
        let asked = Asked { inputs: vec![5; length], targets: None, is_cut: false };
        (Job { asked, work, streams: false, news, arrived: Instant::now() }, received)
    }

    fn lengths(jobs: &[Job]) -> Vec<usize> {
        jobs.iter().map(|job| job.asked.inputs.len()).collect()
    }

    #[test]
    fn the_oldest_is_joined_by_those_of_similar_length() {
        let queue = Queue::new(10);
        let (jobs, _clients): (Vec<_>, Vec<_>) =
            [4, 90, 5, 50, 3].map(|length| job(length, Work::Score)).into_iter().unzip();
        queue.push(jobs).expect("there is room");
        let batch = queue.next(3, Duration::ZERO).expect("it is open");
        assert_eq!(lengths(&batch), [4, 5, 3]);
        queue.close();
        assert_eq!(lengths(&queue.next(3, Duration::MAX).expect("two wait")), [90, 50]);
        assert!(queue.next(3, Duration::MAX).is_none());
    }

    #[test]
    fn a_full_queue_refuses_all_texts_of_a_request_and_forgets_clients_that_have_gone() {
        let queue = Queue::new(2);
        let (one, client) = job(1, Work::Score);
        queue.push(vec![one]).expect("there is room");
        let (jobs, _clients): (Vec<_>, Vec<_>) =
            [2, 3].map(|length| job(length, Work::Score)).into_iter().unzip();
        assert_eq!(queue.push(jobs), Err(Refusal::Busy));
        assert_eq!(queue.len(), 1);
        drop(client);
        let (jobs, _clients): (Vec<_>, Vec<_>) =
            [2, 3].map(|length| job(length, Work::Score)).into_iter().unzip();
        queue.push(jobs).expect("the other has gone");
        assert_eq!(lengths(&queue.next(9, Duration::ZERO).expect("it is open")), [2, 3]);
        queue.close();
        let (late, _client) = job(1, Work::Score);
        assert_eq!(queue.push(vec![late]), Err(Refusal::Ending));
    }
}
