//! The share of examples that are cut to the model's lengths, counted at the beginning of a training.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::example::Example;
use gimlet_telemetry::notice;

/// Number of examples of a task that are counted.
const COUNTED: u64 = 500;

/// Number of tasks of a mixture whose shares are printed.
const REPORTED: usize = 8;

/// The counts of all tasks of a data set, shared by its streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cuts(Arc<Mutex<HashMap<String, Arc<TaskCuts>>>>);

impl Cuts {
    /// Returns the counts of a task with these lengths.
    pub(crate) fn of_task(&self, task: &str, lengths: &BTreeMap<String, usize>) -> Arc<TaskCuts> {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_reported = tasks.len() < REPORTED;
        let new = || {
            let cut =
                lengths.iter().map(|(name, length)| (name.clone(), *length, AtomicU64::new(0)));
            let cut = cut.collect();
            Arc::new(TaskCuts { task: task.to_string(), is_reported, seen: AtomicU64::new(0), cut })
        };
        tasks.entry(task.to_string()).or_insert_with(new).clone()
    }
}

/// The counts of one task.
#[derive(Debug)]
pub(crate) struct TaskCuts {
    task: String,
    is_reported: bool,
    seen: AtomicU64,
    /// Features with their lengths and numbers of cut examples.
    cut: Vec<(String, usize, AtomicU64)>,
}

impl TaskCuts {
    /// Counts one of the first examples, and prints the shares with the last of them.
    pub(crate) fn count(&self, example: &Example) {
        if !self.is_reported || self.seen.load(Ordering::Relaxed) >= COUNTED {
            return;
        }
        for (name, _, cut) in &self.cut {
            cut.fetch_add(u64::from(example.was_cut(name)), Ordering::Relaxed);
        }
        if self.seen.fetch_add(1, Ordering::Relaxed) + 1 == COUNTED
            && let Some(report) = self.report()
        {
            notice(&report);
        }
    }

    /// Describes the shares; `None` if nothing was cut.
    fn report(&self) -> Option<String> {
        let share = |(name, length, cut): &(String, usize, AtomicU64)| {
            let cut = cut.load(Ordering::Relaxed);
            let percent = 100.0 * cut as f64 / COUNTED as f64;
            (cut > 0).then(|| format!("'{name}' of {percent:.1}% to {length} tokens"))
        };
        let shares: Vec<String> = self.cut.iter().filter_map(share).collect();
        (!shares.is_empty()).then(|| {
            format!(
                "`{}`: of the first {COUNTED} examples TASK_FEATURE_LENGTHS cuts {}; `gimlet task stats` shows the \
                 lengths",
                self.task,
                shares.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Key, Value};

    #[test]
    fn the_share_of_cut_examples_is_told_by_feature() {
        let lengths =
            [("inputs", 4), ("targets", 2)].map(|(name, length)| (name.to_string(), length));
        let cuts = Cuts::default();
        let task = cuts.of_task("greetings", &lengths.into());
        for at in 0..2 * COUNTED {
            let mut example = Example::of(Key::from("inputs"), Value::Ints(vec![1]));
            if at % 4 == 0 {
                example.mark_cut("inputs");
            }
            task.count(&example);
        }
        let report = cuts.of_task("greetings", &BTreeMap::new()).report().expect("some are cut");
        let expected = "`greetings`: of the first 500 examples TASK_FEATURE_LENGTHS cuts 'inputs' of 25.0% to 4 tokens;";
        assert!(report.starts_with(expected), "{report}");
    }
}
