//! Progress in megabytes.

use std::time::{Duration, Instant};

use crate::telemetry::Count;

/// Work that takes at most this long shows no progress.
const QUIET: Duration = Duration::from_secs(2);

/// A line that shows how many megabytes of work are done, once the work takes longer than two
/// seconds.
pub(super) struct Meter {
    name: String,
    total: Option<u64>,
    done: u64,
    start: Instant,
    count: Option<Count>,
}

impl Meter {
    /// A line for work of that many bytes, if known.
    pub(super) fn new(name: &str, total: Option<u64>) -> Self {
        let name = format!("{name} (MB)");
        Self { name, total, done: 0, start: Instant::now(), count: None }
    }

    /// Adds bytes that are done.
    pub(super) fn add(&mut self, bytes: u64) {
        const MEGABYTE: u64 = 1_000_000;
        self.done = self.done.saturating_add(bytes);
        if self.start.elapsed() < QUIET {
            return;
        }
        let total = self.total.map(|total| total.div_ceil(MEGABYTE));
        let count = self.count.get_or_insert_with(|| Count::new(&self.name, total));
        count.set(self.done / MEGABYTE);
    }
}
