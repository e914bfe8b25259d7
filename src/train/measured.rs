//! Metrics that a run is told to watch, and that an evaluation did not measure.

use crate::gin::nearest_first;
use crate::telemetry::{quoted_names, warn_once};

/// Names of a message.
const LISTED: usize = 8;

/// Warns of a metric that `watcher` asks for and that is not among those `measured`.
pub fn warn_unmeasured(watcher: &str, wanted: &str, measured: &[String]) {
    warn_once(&unmeasured(watcher, wanted, measured));
}

/// Describes a metric that `watcher` asks for and that is not among those `measured`.
pub fn unmeasured(watcher: &str, wanted: &str, measured: &[String]) -> String {
    let nearest = nearest_first(wanted, measured.iter().map(String::as_str));
    let names = match nearest.is_empty() {
        true => "nothing was".to_string(),
        false => format!("these were, the nearest first: {}", quoted_names(&nearest, LISTED)),
    };
    format!("{watcher} asks for `{wanted}`, which was not measured; {names}")
}
