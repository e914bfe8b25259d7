//! The measurements between two writes of statistics.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::metrics::TrainMetrics;
use crate::telemetry::Status;

use super::step::StepReport;

/// The tag of the bytes that a process sends to others in a step.
const SENT: &str = "bytes_sent_per_step";

/// The tag of the scale of the loss in the last step.
const LOSS_SCALE: &str = "loss_scale";

/// The tag of the part of the time in which the steps waited for their batches.
const DATA_WAIT: &str = "timing/data_wait_fraction";

/// A window of training steps.
#[derive(Debug)]
pub struct Window {
    /// The start of the clock; `None` while it is stopped.
    started: Option<Instant>,
    /// The time on the clock before that.
    duration: Duration,
    waited: Duration,
    /// Seconds for which this process waited for others.
    pub waited_for_others: f64,
    metrics: TrainMetrics,
    last_learning_rate: Option<f32>,
    /// Sums over updates of the measures of gradients and weights.
    weights: BTreeMap<String, f64>,
    num_updates: u64,
    loss_scale: Option<f64>,
    uptime: Option<f64>,
    num_devices: usize,
    /// The tag of the loss in the progress line.
    told: &'static str,
    /// Bytes sent to other processes.
    sent: u64,
}

impl Window {
    /// Starts the clock of so many devices; `told` is the tag of the loss in the progress line.
    pub fn start(num_devices: usize, told: &'static str) -> Self {
        Self {
            num_devices,
            told,
            sent: 0,
            started: Some(Instant::now()),
            duration: Duration::ZERO,
            waited: Duration::ZERO,
            waited_for_others: 0.0,
            metrics: TrainMetrics::default(),
            last_learning_rate: None,
            weights: BTreeMap::new(),
            num_updates: 0,
            loss_scale: None,
            uptime: None,
        }
    }

    /// Counts a training step; `waited` is the time it waited for its batch.
    pub fn add(&mut self, report: &StepReport, waited: Duration) {
        self.metrics.add_step(&report.sums, Some(report.learning_rate));
        self.last_learning_rate = Some(report.learning_rate);
        self.waited += waited;
        self.sent += report.sent;
        self.loss_scale = report.loss_scale;
        self.num_updates += u64::from(report.is_updated);
        for (tag, value) in &report.weights {
            *self.weights.entry(tag.clone()).or_default() += value;
        }
    }

    /// Stops the clock. `uptime` is the time since the trainer was made, if it is reported.
    pub fn finish(&mut self, uptime: Option<Duration>) {
        self.duration += self.started.take().map_or(Duration::ZERO, |started| started.elapsed());
        self.uptime = uptime.map(|uptime| uptime.as_secs_f64());
    }

    /// Starts the clock again, after work that does not count.
    pub fn go_on(&mut self) {
        self.started = Some(Instant::now());
    }

    /// Returns the number of counted steps.
    pub fn steps(&self) -> u64 {
        self.metrics.num_steps()
    }

    /// Returns every metric by T5X's tag.
    pub fn scalars(&self) -> BTreeMap<String, f64> {
        let seconds = self.seconds();
        let Self { num_devices, uptime, .. } = *self;
        let window = crate::metrics::Window { seconds, num_devices, uptime };
        let steps = self.steps() as f64;
        let updates = self.num_updates as f64;
        let weights = self.weights.iter().map(|(tag, sum)| (tag.clone(), sum / updates));
        let loss_scale = self.loss_scale.map(|scale| (LOSS_SCALE.to_string(), scale));
        let waited = (DATA_WAIT.to_string(), self.waited.as_secs_f64() / seconds);
        let sent = (num_devices > 1).then(|| (SENT.to_string(), self.sent as f64 / steps));
        self.metrics
            .summary(&window)
            .into_iter()
            .chain(weights)
            .chain([waited])
            .chain(sent)
            .chain(loss_scale)
            .collect()
    }

    /// Returns the seconds on the clock, running or stopped.
    pub fn seconds(&self) -> f64 {
        let running = self.started.map_or(Duration::ZERO, |started| started.elapsed());
        (self.duration + running).as_secs_f64()
    }

    /// Returns the progress line's status at `step`.
    pub fn status(&self, step: u64) -> Status {
        let seconds = self.seconds();
        let scalars = self.scalars();
        Status {
            step,
            loss: scalars.get(self.told).copied(),
            learning_rate: self.last_learning_rate.map(f64::from),
            tokens_per_second: Some(self.metrics.num_positions() as f64 / seconds),
            data_wait: Some(self.waited.as_secs_f64() / seconds),
        }
    }
}
