//! How far work on a stream of unknown length is: a count and its rate.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::console;
use super::progress::{duration, live, thousands};

/// A plain line comes after so long.
const INTERVAL: Duration = Duration::from_secs(10);

/// Shows how many of something are done, how many a second, and the time left where the total is
/// known. Dropping it leaves the last state on the screen.
pub struct Count {
    name: String,
    total: Option<u64>,
    start: Instant,
    /// The count when it started, which a resumed run did not do itself.
    first: Option<u64>,
    /// `None` where standard error is no terminal.
    bar: Option<ProgressBar>,
    printed: Instant,
}

impl Count {
    /// Of so many, where that is known; `name` begins the line.
    pub fn new(name: &str, total: Option<u64>) -> Self {
        let style = ProgressStyle::with_template("{spinner} {wide_msg}").expect("well formed");
        let target = || ProgressDrawTarget::stderr_with_hz(5);
        let bar = live().then(|| ProgressBar::with_draw_target(None, target()).with_style(style));
        console::attach(bar.clone());
        let now = Instant::now();
        Self { name: name.to_string(), total, start: now, first: None, bar, printed: now }
    }

    /// Shows that so many are done. The first call tells where this run began.
    pub fn set(&mut self, done: u64) {
        let first = *self.first.get_or_insert(done);
        let seconds = self.start.elapsed().as_secs_f64();
        let line = line(&self.name, done, done - first, seconds, self.total);
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

fn line(name: &str, done: u64, new: u64, seconds: f64, total: Option<u64>) -> String {
    let mut line = format!("{name}: {}", thousands(done as f64));
    if let Some(total) = total {
        line += &format!(" of {}", thousands(total as f64));
    }
    let rate = new as f64 / seconds;
    if new > 0 && rate.is_finite() {
        line += &format!(" · {}/s", thousands(rate));
        if let Some(total) = total {
            line += &format!(" · {} left", duration(total.saturating_sub(done) as f64 / rate));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_this_run() {
        assert_eq!(line("a", 5_000, 1_000, 2.0, None), "a: 5,000 · 500/s");
        assert_eq!(line("a", 500, 500, 2.0, Some(1_000)), "a: 500 of 1,000 · 250/s · 2s left");
        assert_eq!(line("a", 0, 0, 0.0, Some(9)), "a: 0 of 9");
    }
}
