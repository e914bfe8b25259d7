//! The progress of work on a stream of unknown length: a count and its rate.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::console;
use super::progress::{duration, thousands};
use super::terminal::live;

/// The time between plain lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// Shows a count, its rate per second, and the time left if the completed share is known. Dropping
/// it leaves the last state on the screen.
pub struct Count {
    name: String,
    total: Option<u64>,
    start: Instant,
    /// The state at the start, which a resumed run did not reach itself.
    first: Option<Done>,
    /// `None` if standard error is not a terminal.
    bar: Option<ProgressBar>,
    printed: Instant,
}

/// The state of the work.
#[derive(Clone, Copy)]
struct Done {
    count: u64,
    share: Option<f64>,
}

impl Count {
    /// Creates a count up to `total`, if that is known; `name` begins the line.
    pub fn new(name: &str, total: Option<u64>) -> Self {
        let style = ProgressStyle::with_template("{spinner} {wide_msg}").expect("well formed");
        let target = || ProgressDrawTarget::stderr_with_hz(5);
        let bar = live().then(|| ProgressBar::with_draw_target(None, target()).with_style(style));
        console::attach(bar.clone());
        let now = Instant::now();
        Self { name: name.to_string(), total, start: now, first: None, bar, printed: now }
    }

    /// Shows a new count. The first call sets the state at which this run began.
    pub fn set(&mut self, count: u64) {
        let share = self.total.map(|total| count as f64 / total.max(1) as f64);
        self.set_share(count, share);
    }

    /// Does the same with the completed share, from 0 to 1, if only the share of the whole is
    /// known.
    pub fn set_share(&mut self, count: u64, share: Option<f64>) {
        let done = Done { count, share };
        let first = *self.first.get_or_insert(done);
        let line = line(&self.name, done, first, self.start.elapsed().as_secs_f64(), self.total);
        if let Some(bar) = &self.bar {
            bar.set_message(line);
            bar.tick();
        } else if self.printed.elapsed() >= INTERVAL {
            self.printed = Instant::now();
            console::notice(&line);
        }
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        console::attach(None);
        if let Some(bar) = &self.bar {
            bar.abandon();
        }
    }
}

fn line(name: &str, done: Done, first: Done, seconds: f64, total: Option<u64>) -> String {
    let mut line = format!("{name}: {}", thousands(done.count as f64));
    if let Some(total) = total {
        line += &format!(" of {}", thousands(total as f64));
    }
    let rate = (done.count - first.count) as f64 / seconds;
    if rate > 0.0 && rate.is_finite() {
        line += &format!(" · {}/s", thousands(rate));
    }
    let Some(share) = done.share else { return line };
    if total.is_none() {
        line += &format!(" · {:.0}%", 100.0 * share);
    }
    // Without a share at first, the beginning is assumed.
    let new = share - first.share.unwrap_or(0.0);
    if new > 0.0 {
        line += &format!(" · {} left", duration((1.0 - share).max(0.0) * seconds / new));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_this_run() {
        let done = |count, share| Done { count, share };
        let check = |at, first, seconds, expected| {
            assert_eq!(line("a", at, first, seconds, None), expected);
        };
        check(done(5_000, None), done(4_000, None), 2.0, "a: 5,000 · 500/s");
        // Half was done before this run, so a quarter took two seconds.
        let (at, first) = (done(500, Some(0.75)), done(100, Some(0.5)));
        check(at, first, 2.0, "a: 500 · 200/s · 75% · 2s left");
        check(done(0, Some(0.0)), done(0, Some(0.0)), 0.0, "a: 0 · 0%");
        let (at, first) = (done(500, Some(0.5)), done(0, Some(0.0)));
        assert_eq!(line("a", at, first, 2.0, Some(1_000)), "a: 500 of 1,000 · 250/s · 2s left");
    }
}
