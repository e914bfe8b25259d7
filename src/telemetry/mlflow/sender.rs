//! The thread that sends a run's numbers, and the buffer before it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gimlet_storage::{Path, Unanswered};
use serde_json::{Value, json};

use super::super::console::{notice, warn, warn_once};
use super::api::{Api, MOST_NUMBERS, Number};
use super::settings::MlflowSettings;
use super::{MlflowStatus, Patience};

/// The number of numbers that wait for the server; then the oldest are dropped. It is some days of training.
const MOST_WAITING: usize = 200_000;

/// The file in the run's folder with the identifier of MLflow's run.
const RUN_FILE: &str = "mlflow.json";

/// The buffer between a run and its sender.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    numbers: VecDeque<Number>,
    params: BTreeMap<String, String>,
    num_dropped: usize,
    closed: Option<Closed>,
}

#[derive(Clone, Copy)]
struct Closed {
    status: MlflowStatus,
    deadline: Instant,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn describe(&self, params: &BTreeMap<String, String>) {
        self.lock().params.extend(params.clone());
    }

    pub(super) fn add(&self, numbers: impl Iterator<Item = Number>) {
        let mut waiting = self.lock();
        waiting.numbers.extend(numbers);
        let excess = waiting.numbers.len().saturating_sub(MOST_WAITING);
        waiting.numbers.drain(..excess);
        waiting.num_dropped += excess;
        self.changed.notify_all();
    }

    /// Asks the sender to end, at the latest after `patience`.
    pub(super) fn close(&self, status: MlflowStatus, patience: Duration) {
        self.lock().closed = Some(Closed { status, deadline: Instant::now() + patience });
        self.changed.notify_all();
    }

    /// Waits for numbers, and takes those of one request; none once the queue is closed.
    fn take(&self) -> Vec<Number> {
        let is_idle =
            |waiting: &mut Waiting| waiting.numbers.is_empty() && waiting.closed.is_none();
        let waited = self.changed.wait_while(self.lock(), is_idle);
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner);
        let count = waiting.numbers.len().min(MOST_NUMBERS);
        waiting.numbers.drain(..count).collect()
    }

    /// Pauses before the next attempt; once the queue is closed, for a short time. Returns false if there is no time
    /// for another attempt.
    fn pause(&self, pause: Duration, short: Duration) -> bool {
        let is_open = |waiting: &mut Waiting| waiting.closed.is_none();
        let waited = self.changed.wait_timeout_while(self.lock(), pause, is_open);
        let (waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let Some(Closed { deadline, .. }) = waiting.closed else { return true };
        drop(waiting);
        let left = deadline.saturating_duration_since(Instant::now());
        std::thread::sleep(left.min(short));
        left > short
    }
}

/// The sender of a run.
pub(super) struct Sender {
    queue: Arc<Queue>,
    api: Api,
    folder: Path,
    tracking_uri: String,
    patience: Patience,
    /// The run of MLflow, once it is known.
    run_id: Option<String>,
}

impl Sender {
    pub(super) fn new(
        queue: Arc<Queue>,
        folder: &Path,
        settings: MlflowSettings,
        patience: Patience,
    ) -> Self {
        let tracking_uri = settings.tracking_uri.clone();
        let run_id = settings.run_id.clone().or_else(|| recorded(folder, &tracking_uri));
        let (api, folder) = (Api::new(settings), folder.clone());
        Self { queue, api, folder, tracking_uri, patience, run_id }
    }

    /// Sends until the queue is closed and empty, or there is no time left.
    pub(super) fn run(mut self) {
        let mut open = None;
        loop {
            let numbers = self.queue.take();
            if numbers.is_empty() {
                break;
            }
            if open.is_none() {
                open = self.patiently(Self::open);
            }
            let sent = open.clone().and_then(|run_id| {
                self.patiently(|sender| sender.api.log(&run_id, &numbers)).map(|()| numbers.len())
            });
            if sent.is_none() && self.queue.lock().closed.is_some() {
                return self.give_up(numbers.len());
            }
        }
        if let Some(run_id) = open {
            let status = self.queue.lock().closed.map_or("FINISHED", |closed| closed.status.name());
            self.patiently(|sender| sender.api.update_run(&run_id, status, Some(millis())));
        }
        let num_dropped = self.queue.lock().num_dropped;
        if num_dropped > 0 {
            warn(&format!(
                "{num_dropped} numbers for MLflow were dropped while its server was away"
            ));
        }
    }

    /// Repeats a request until it succeeds; `None` if the server refuses it, or the run ends before.
    fn patiently<T>(&mut self, request: impl Fn(&mut Self) -> Result<T, Unanswered>) -> Option<T> {
        let mut pause = self.patience.first_pause;
        loop {
            match request(self) {
                Ok(done) => return Some(done),
                Err(refused) if !refused.may_pass() => {
                    let uri = &self.tracking_uri;
                    warn_once(&format!(
                        "MLflow at {uri} refuses numbers, which are lost: {refused}"
                    ));
                    return None;
                }
                Err(silent) => {
                    let uri = &self.tracking_uri;
                    warn_once(&format!(
                        "MLflow at {uri} cannot be reached: {silent}; the run continues, and sends later"
                    ));
                }
            }
            if !self.queue.pause(pause, self.patience.first_pause) {
                return None;
            }
            pause = (pause * 2).min(self.patience.longest_pause);
        }
    }

    /// Continues the folder's run, or creates one with its parameters.
    fn open(&mut self) -> Result<String, Unanswered> {
        if let Some(run_id) = self.run_id.clone() {
            match self.api.update_run(&run_id, "RUNNING", None) {
                Ok(()) => return Ok(run_id),
                // It was deleted on the server.
                Err(missing) if missing.status == Some(404) => self.run_id = None,
                Err(error) => return Err(error),
            }
        }
        let run_id =
            self.api.create_run(self.folder.file_name(), self.folder.as_str(), millis())?;
        let record = json!({"tracking_uri": self.tracking_uri, "run_id": run_id}).to_string();
        if let Err(error) = self.folder.join(RUN_FILE).write_atomic(record.as_bytes()) {
            warn_once(&format!("a run that continues will be a new run of MLflow: {error}"));
        }
        self.run_id = Some(run_id.clone());
        let params = self.queue.lock().params.clone();
        if let Err(error) = self.api.set_params(&run_id, &params) {
            warn_once(&format!("MLflow does not have all parameters of the run: {error}"));
        }
        notice(&format!("MLflow's run at {} is {run_id}", self.tracking_uri));
        Ok(run_id)
    }

    fn give_up(&self, num_taken: usize) {
        let waiting = self.queue.lock();
        let lost = num_taken + waiting.numbers.len() + waiting.num_dropped;
        warn(&format!(
            "{lost} numbers were not sent to MLflow at {}; metrics.jsonl and event files have them",
            self.tracking_uri
        ));
    }
}

/// Returns the run of MLflow that the folder records for a server.
fn recorded(folder: &Path, tracking_uri: &str) -> Option<String> {
    let record: Value = serde_json::from_slice(&folder.join(RUN_FILE).read().ok()?).ok()?;
    let is_there = record["tracking_uri"].as_str() == Some(tracking_uri);
    is_there.then(|| record["run_id"].as_str().map(str::to_string))?
}

fn millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}
