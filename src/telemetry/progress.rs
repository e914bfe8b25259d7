//! The progress of the training: a live line on a terminal, plain lines elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::console;
use super::terminal::live;

/// The content of the progress line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Status {
    /// Updates made since step 0.
    pub step: u64,
    /// Mean loss per target token, or as the model reports it.
    pub loss: Option<f64>,
    /// Learning rate of the last update.
    pub learning_rate: Option<f64>,
    /// Tokens trained on per second.
    pub tokens_per_second: Option<f64>,
    /// Share of the time spent waiting for data, 0 to 1.
    pub data_wait: Option<f64>,
}

/// Shows the progress of one run. Dropping it leaves the last state on the screen.
pub struct Progress {
    total_steps: u64,
    status: Status,
    clock: Clock,
    /// `None` if standard error is not a terminal.
    bar: Option<ProgressBar>,
    /// Time of the last plain line.
    printed: Option<Instant>,
}

impl Progress {
    /// Creates the progress of a run from `first_step` to `total_steps`.
    pub fn new(first_step: u64, total_steps: u64) -> Self {
        let status = Status { step: first_step, ..Status::default() };
        let bar = live().then(|| bar(first_step, total_steps));
        console::attach(bar.clone());
        let clock = Clock::new(first_step, Instant::now());
        Self { total_steps, status, clock, bar, printed: None }
    }

    /// Notes that `step` updates are made. Cheap; call it after every one. `status` returns the
    /// status of steps that are not in the statistics yet.
    pub fn step(&mut self, step: u64, status: impl FnOnce() -> Status) {
        let now = Instant::now();
        self.status.step = step;
        self.clock.note(step, now);
        if self.bar.is_some() {
            self.draw();
        } else if self.was_silent(now) {
            self.status = status();
            self.print(now);
        }
    }

    /// Whether a plain line is due as a sign of life, after so long without statistics.
    fn was_silent(&self, now: Instant) -> bool {
        const SILENCE: Duration = Duration::from_secs(30);
        now - self.printed.unwrap_or(self.clock.start) >= SILENCE
    }

    /// Shows new statistics. Plain lines come at most every five seconds, except the first and the
    /// last.
    pub fn report(&mut self, status: Status) {
        const INTERVAL: Duration = Duration::from_secs(5);
        let now = Instant::now();
        self.clock.note(status.step, now);
        self.status = status;
        let due = self.printed.is_none_or(|printed| now - printed >= INTERVAL);
        if self.bar.is_some() {
            self.draw();
        } else if due || status.step >= self.total_steps {
            self.print(now);
        }
    }

    fn draw(&self) {
        let Some(bar) = &self.bar else { return };
        bar.set_message(details(&self.status, self.seconds_left(), TimeLeft::First));
        bar.set_position(self.status.step);
    }

    fn print(&mut self, now: Instant) {
        self.printed = Some(now);
        console::notice(&self.line());
    }

    fn line(&self) -> String {
        let details = details(&self.status, self.seconds_left(), TimeLeft::Last);
        format!("step {}/{}{details}", self.status.step, self.total_steps)
    }

    fn seconds_left(&self) -> Option<f64> {
        let steps_left = self.total_steps.saturating_sub(self.status.step);
        Some(self.clock.seconds_per_step()? * steps_left as f64)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        console::attach(None);
        if let Some(bar) = &self.bar {
            bar.abandon();
        }
    }
}

fn bar(first_step: u64, total_steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:20} step {pos}/{len}{wide_msg}")
        .expect("the template is well formed");
    let target = ProgressDrawTarget::stderr_with_hz(5);
    let bar = ProgressBar::with_draw_target(Some(total_steps), target).with_style(style);
    bar.with_position(first_step)
}

/// The place of the time that is left. A narrow terminal cuts the end of its line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TimeLeft {
    First,
    Last,
}

/// Formats the known parts: ` · loss 2.31 · ...`.
fn details(status: &Status, seconds_left: Option<f64>, place: TimeLeft) -> String {
    let left = seconds_left.map(|seconds| format!("{} left", duration(seconds)));
    let (first, last) = match place {
        TimeLeft::First => (left, None),
        TimeLeft::Last => (None, left),
    };
    let parts = [
        first,
        status.loss.map(|loss| format!("loss {loss:.4}")),
        status.learning_rate.map(|rate| format!("lr {rate:.3e}")),
        status.tokens_per_second.map(|tokens| format!("{} tokens/s", thousands(tokens))),
        status.data_wait.map(|share| format!("data wait {:.0}%", share * 100.0)),
        last,
    ];
    parts.into_iter().flatten().map(|part| format!(" · {part}")).collect()
}

/// Formats a number as `12,345`.
pub fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a duration in the two largest units: `3d 4h`, `12m 5s`, `9s`.
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {}m", minutes % 60),
        _ => format!("{days}d {}h", hours % 24),
    }
}

/// The recent duration of a step.
struct Clock {
    start: Instant,
    first_step: u64,
    /// The step and the time of the last note.
    last: (u64, Instant),
    /// Moving average.
    seconds_per_step: Option<f64>,
}

impl Clock {
    fn new(first_step: u64, start: Instant) -> Self {
        Self { start, first_step, last: (first_step, start), seconds_per_step: None }
    }

    fn note(&mut self, step: u64, now: Instant) {
        let (last_step, last_time) = self.last;
        if step <= last_step {
            return;
        }
        let steps = (step - last_step) as f64;
        let seconds = (now - last_time).as_secs_f64() / steps;
        // The first steps have full weight, later ones fade over about thirty.
        let weight = (steps / 30.0).max(1.0 / (step - self.first_step) as f64).min(1.0);
        let average = self.seconds_per_step.unwrap_or(seconds);
        self.seconds_per_step = Some(average + weight * (seconds - average));
        self.last = (step, now);
    }

    fn seconds_per_step(&self) -> Option<f64> {
        self.seconds_per_step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_known() {
        let status = Status {
            step: 100,
            loss: Some(2.31456),
            learning_rate: Some(0.01),
            tokens_per_second: Some(12_345.6),
            data_wait: Some(0.021),
        };
        let known = " · loss 2.3146 · lr 1.000e-2 · 12,346 tokens/s · data wait 2%";
        let said = |place| details(&status, Some(754.0), place);
        assert_eq!(said(TimeLeft::Last), format!("{known} · 12m 34s left"));
        // The end of a live line may be cut.
        assert_eq!(said(TimeLeft::First), format!(" · 12m 34s left{known}"));
        assert_eq!(details(&Status::default(), None, TimeLeft::First), "");
    }

    #[test]
    fn a_heartbeat_in_a_pipe_carries_step_loss_and_rate() {
        let start = Instant::now();
        let clock = Clock::new(0, start - Duration::from_secs(31));
        let status = Status::default();
        let mut progress = Progress { total_steps: 100, status, clock, bar: None, printed: None };
        assert!(!progress.was_silent(start - Duration::from_secs(2)));
        let known = Status {
            step: 3,
            loss: Some(2.5),
            tokens_per_second: Some(1200.0),
            ..Status::default()
        };
        progress.step(3, || known);
        assert!(progress.printed.is_some());
        let line = progress.line();
        assert!(line.starts_with("step 3/100 · loss 2.5000 · 1,200 tokens/s · "), "{line}");
        progress.step(4, || unreachable!("the next one is not due"));
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(thousands(999.0), "999");
        assert_eq!(thousands(1_234_567.0), "1,234,567");
        assert_eq!(duration(59.4), "59s");
        assert_eq!(duration(3_660.0), "1h 1m");
        assert_eq!(duration(90_000.0), "1d 1h");
    }

    #[test]
    fn the_time_of_a_step_follows_the_recent_ones() {
        let start = Instant::now();
        let mut clock = Clock::new(1000, start);
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        for step in 1..=200 {
            clock.note(1000 + step, at(step as f64));
        }
        assert!((clock.seconds_per_step().unwrap() - 1.0).abs() < 1e-6);
        for step in 1..=200 {
            clock.note(1200 + step, at(200.0 + 3.0 * step as f64));
        }
        assert!((clock.seconds_per_step().unwrap() - 3.0).abs() < 0.01);
    }
}
