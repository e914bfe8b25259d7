//! Chooses the best checkpoints by a metric. Source: `SaveBestCheckpointer` of T5X's
//! `checkpoints.py`.

use std::collections::BTreeMap;

use super::checkpointers::{KeepBest, MetricMode};

/// The rule that decides which checkpoints are kept: always the newest, and of the others those
/// with the best metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// The rule.
    pub keep: KeepBest,
    /// The metric by step, if known.
    pub metrics: BTreeMap<u64, f64>,
}

impl Best {
    /// Returns the steps of the ascending `steps` to remove, the worst first.
    pub fn excess(&self, steps: &[u64], keep: usize) -> Vec<u64> {
        let Some((newest, older)) = steps.split_last() else { return Vec::new() };
        debug_assert!(older.iter().all(|step| step < newest), "steps ascend");
        let period = self.keep.force_keep_period.unwrap_or(0);
        let is_forced = |step: u64| period > 0 && step.is_multiple_of(period);
        let waits = |step: u64| self.keep.keep_without_metrics && !self.metrics.contains_key(&step);
        let mut removable: Vec<u64> =
            older.iter().copied().filter(|step| !is_forced(*step) && !waits(*step)).collect();
        let num_removed = removable.len().saturating_sub(keep);
        // The sort is stable: of equal checkpoints the oldest goes first.
        removable.sort_by(|a, b| self.goodness(*a).total_cmp(&self.goodness(*b)));
        removable.truncate(num_removed);
        removable
    }

    /// Returns a value that is larger for better checkpoints; an unknown metric or NaN is the
    /// worst.
    fn goodness(&self, step: u64) -> f64 {
        let value = self.metrics.get(&step).copied().filter(|value| !value.is_nan());
        match self.keep.mode {
            MetricMode::Max => value.unwrap_or(f64::NEG_INFINITY),
            MetricMode::Min => value.map_or(f64::NEG_INFINITY, |value| -value),
        }
    }
}
