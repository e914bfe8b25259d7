//! Sends the numbers of a run to an MLflow server, over its REST interface.
//!
//! A thread sends what [`MlflowRun::log`] puts into a bounded buffer, so that a server that is slow or away never
//! holds up training; it tries again until the run ends. A run that continues in the same folder continues the
//! same run of MLflow.

mod api;
mod sender;
mod settings;
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gimlet_storage::Path;

pub use self::settings::{MlflowError, MlflowSettings};

use self::api::Number;
use self::sender::{Queue, Sender};

/// The times that a run gives its server.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// The pause after the first failure; each further one is twice as long.
    first_pause: Duration,
    /// The longest pause.
    longest_pause: Duration,
    /// The time that a run waits at its end for numbers that were not sent.
    last_wait: Duration,
}

impl Patience {
    const USUAL: Self = Self {
        first_pause: Duration::from_secs(1),
        longest_pause: Duration::from_secs(60),
        last_wait: Duration::from_secs(10),
    };
}

/// The way in which a run ended, in MLflow's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MlflowStatus {
    /// It did its work.
    #[default]
    Finished,
    /// It was asked to end.
    Killed,
    /// It failed.
    Failed,
}

impl MlflowStatus {
    fn name(self) -> &'static str {
        match self {
            MlflowStatus::Finished => "FINISHED",
            MlflowStatus::Killed => "KILLED",
            MlflowStatus::Failed => "FAILED",
        }
    }
}

/// A run of MLflow, for the process that writes into a folder. The last one of its owners to go waits for the
/// numbers that are left.
pub struct MlflowRun {
    queue: Arc<Queue>,
    sender: Option<JoinHandle<()>>,
    status: Mutex<MlflowStatus>,
    patience: Patience,
}

impl MlflowRun {
    /// Returns the run of the folder, which is shared by everything in this process that logs there.
    pub fn of(folder: &Path, settings: &MlflowSettings) -> Arc<Self> {
        static RUNS: Mutex<BTreeMap<Path, Weak<MlflowRun>>> = Mutex::new(BTreeMap::new());
        let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = runs.get(folder).and_then(Weak::upgrade) {
            return run;
        }
        let run = Arc::new(Self::start(folder, settings, Patience::USUAL));
        runs.insert(folder.clone(), Arc::downgrade(&run));
        run
    }

    fn start(folder: &Path, settings: &MlflowSettings, patience: Patience) -> Self {
        let queue = Arc::new(Queue::default());
        let sender = Sender::new(Arc::clone(&queue), folder, settings.clone(), patience);
        let thread = std::thread::Builder::new().name("mlflow".to_string());
        let sender = thread.spawn(move || sender.run()).expect("the system has threads to give");
        Self { queue, sender: Some(sender), status: Mutex::default(), patience }
    }

    /// Adds what describes the run, which is sent when MLflow's run is new: values that do not change.
    pub fn describe(&self, params: &BTreeMap<String, String>) {
        self.queue.describe(params);
    }

    /// Adds numbers of a step, and returns at once.
    pub fn log<T: Into<String>>(&self, step: i64, numbers: impl IntoIterator<Item = (T, f64)>) {
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = time.map_or(0, |time| time.as_millis() as u64);
        let number = |(key, value): (T, f64)| Number { key: key.into(), value, step, millis };
        self.queue.add(numbers.into_iter().map(number));
    }

    /// Sets the status with which MLflow's run ends.
    pub fn end_as(&self, status: MlflowStatus) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}

impl Drop for MlflowRun {
    fn drop(&mut self) {
        let status = *self.status.lock().unwrap_or_else(PoisonError::into_inner);
        self.queue.close(status, self.patience.last_wait);
        if let Some(sender) = self.sender.take() {
            // A panic of the thread was printed; the numbers that it had are lost.
            let _ = sender.join();
        }
    }
}
