//! Threads that the stages of a data set share.

use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

type Job = Box<dyn FnOnce() + Send>;

/// Threads that run jobs in the order given.
struct Pool {
    /// `None` once the pool is being dropped, which ends the threads.
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

/// A stage's access to the threads.
#[derive(Clone)]
pub(crate) struct Workers {
    pool: Arc<Pool>,
    /// Maximum number of pending chunks of one stage.
    pub max_pending: usize,
}

/// Pending chunks for each thread, over all stages if there are few stages.
const CHUNKS_PER_THREAD: usize = 2;

impl Workers {
    /// Starts threads for this number of stages.
    pub(crate) fn start(num_threads: NonZeroUsize, num_stages: usize) -> Self {
        let (jobs, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let thread = |_| {
            let queue = queue.clone();
            std::thread::spawn(move || work(&queue))
        };
        let threads = (0..num_threads.get()).map(thread).collect();
        let max_pending = (num_threads.get() * CHUNKS_PER_THREAD).div_ceil(num_stages.max(1));
        Self { pool: Arc::new(Pool { jobs: Some(jobs), threads }), max_pending }
    }

    /// Runs the job on a thread.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        let jobs = self.pool.jobs.as_ref().expect("the queue is open until drop");
        jobs.send(Box::new(job)).expect("the threads wait until drop");
    }
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} threads", self.pool.threads.len())
    }
}

fn work(queue: &Mutex<Receiver<Job>>) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        job();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}
