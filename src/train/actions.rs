//! Actions after a phase: T5X's early stopping, and termination on values that are not finite.

use std::collections::BTreeMap;

use crate::session::held_out::MetricsByTask;
use crate::telemetry;

use super::measured::warn_unmeasured;
use super::record::Histories;
use super::spec::{Action, EarlyStopping, EarlyStoppingMode, TerminateOnNan};
use super::watched::watched;

/// The task name of the training metrics (T5X `train.py`).
const TRAIN: &str = "train";

/// The actions of a run with their histories.
#[derive(Debug, Default)]
pub struct Actions {
    by_mode: BTreeMap<String, Vec<Runner>>,
}

#[derive(Debug)]
struct Runner {
    action: Action,
    history: Vec<f64>,
}

impl Actions {
    /// Creates the actions that gin binds to `train.actions`.
    pub fn new(actions: Option<&BTreeMap<String, Vec<Action>>>) -> Self {
        let runner = |action: &Action| Runner { action: action.clone(), history: Vec::new() };
        let runners = |actions: &Vec<Action>| actions.iter().map(runner).collect();
        let by_mode = actions.into_iter().flatten();
        Self { by_mode: by_mode.map(|(mode, list)| (mode.clone(), runners(list))).collect() }
    }

    /// Returns the histories of the actions, for [`Actions::recall`].
    pub fn histories(&self) -> Histories {
        let known = |value: &f64| value.is_finite().then_some(*value);
        let history = |runner: &Runner| runner.history.iter().map(known).collect();
        let of = |runners: &Vec<Runner>| runners.iter().map(history).collect();
        self.by_mode.iter().map(|(mode, runners)| (mode.clone(), of(runners))).collect()
    }

    /// Continues from the histories of an earlier process's actions.
    pub fn recall(&mut self, histories: &Histories) {
        for (mode, runners) in &mut self.by_mode {
            for (runner, history) in
                runners.iter_mut().zip(histories.get(mode).into_iter().flatten())
            {
                runner.history = history.iter().map(|value| value.unwrap_or(f64::NAN)).collect();
            }
        }
    }

    /// Runs the TRAIN actions; returns `true` to stop.
    pub fn after_train(&mut self, metrics: &BTreeMap<String, f64>) -> bool {
        self.run("TRAIN", &BTreeMap::from([(TRAIN.to_string(), metrics.clone())]))
    }

    /// Runs the TRAIN_EVAL actions; returns `true` to stop.
    pub fn after_train_eval(&mut self, metrics: &MetricsByTask) -> bool {
        self.run("TRAIN_EVAL", metrics)
    }

    /// Runs the INFER_EVAL actions; returns `true` to stop.
    pub fn after_infer_eval(&mut self, metrics: &MetricsByTask) -> bool {
        self.run("INFER_EVAL", metrics)
    }

    fn run(&mut self, mode: &str, metrics: &MetricsByTask) -> bool {
        let runners = self.by_mode.get_mut(mode).into_iter().flatten();
        // Every action sees the metrics, even after one that asks to stop.
        runners.map(|runner| runner.run(metrics)).filter(|stop| *stop).count() > 0
    }
}

impl Runner {
    fn run(&mut self, metrics: &MetricsByTask) -> bool {
        match &self.action {
            Action::TerminateOnNan(nan) => {
                if tasks(nan, metrics).iter().all(|task| find(metrics, task, &nan.metric).is_none())
                {
                    warn(&self.action, metrics);
                }
                terminate_on_nan(nan, metrics)
            }
            Action::EarlyStopping(action) => {
                let (task, metric) = &action.metric;
                let Some(value) = find(metrics, task, metric) else {
                    warn(&self.action, metrics);
                    return false;
                };
                self.history.push(value);
                stops_early(action, &mut self.history)
            }
        }
    }
}

/// Returns the tasks whose metric is looked at.
fn tasks<'a>(action: &'a TerminateOnNan, metrics: &'a MetricsByTask) -> Vec<&'a str> {
    match &action.task {
        Some(task) => vec![task],
        None => metrics.keys().map(String::as_str).collect(),
    }
}

fn terminate_on_nan(action: &TerminateOnNan, metrics: &MetricsByTask) -> bool {
    let broken =
        |task: &&str| find(metrics, task, &action.metric).is_some_and(|value| !value.is_finite());
    let stop = tasks(action, metrics).iter().any(broken);
    if stop {
        telemetry::warn(&format!("{} is not finite: stopping", action.metric));
    }
    stop
}

/// Applies T5X's rule: stops if none of the last `patience` values improves on the one before it.
fn stops_early(action: &EarlyStopping, history: &mut Vec<f64>) -> bool {
    if history.len() < action.patience {
        return false;
    }
    let improves = |pair: &[f64]| {
        let delta = action.atol + action.rtol * pair[0].abs();
        match action.mode {
            EarlyStoppingMode::Min => pair[1] < pair[0] - delta,
            EarlyStoppingMode::Max => pair[1] > pair[0] + delta,
        }
    };
    let stalled = history.windows(2).all(|pair| !improves(pair));
    if stalled {
        let (task, metric) = &action.metric;
        telemetry::notice(&format!("{task}/{metric} no longer improves: stopping"));
    } else {
        history.remove(0);
    }
    stalled
}

/// Returns a metric of a task.
fn find(metrics: &MetricsByTask, task: &str, metric: &str) -> Option<f64> {
    metrics.get(task).and_then(|metrics| metrics.get(metric)).copied()
}

/// Warns of a metric that was not measured.
fn warn(action: &Action, metrics: &MetricsByTask) {
    let (watcher, wanted) = watched(action);
    let measured = metrics
        .iter()
        .flat_map(|(task, metrics)| metrics.keys().map(move |metric| format!("{task}/{metric}")));
    warn_unmeasured(watcher, &wanted, &measured.collect::<Vec<_>>());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mode: EarlyStoppingMode, values: &[f64], expected: bool) {
        let action = EarlyStopping {
            metric: ("t".to_string(), "m".to_string()),
            mode,
            patience: 3,
            atol: 0.0,
            rtol: 0.0,
        };
        let mut runner = Runner { action: Action::EarlyStopping(action), history: Vec::new() };
        let metrics = |value: f64| {
            BTreeMap::from([("t".to_string(), BTreeMap::from([("m".to_string(), value)]))])
        };
        let stopped = values.iter().any(|value| runner.run(&metrics(*value)));
        assert_eq!(stopped, expected, "{values:?}");
    }

    #[test]
    fn stops_after_patience_evaluations_without_improvement() {
        check(EarlyStoppingMode::Min, &[3.0, 2.0, 2.0, 2.5], true);
        check(EarlyStoppingMode::Min, &[3.0, 2.0, 2.5, 2.0], false);
        check(EarlyStoppingMode::Max, &[3.0, 2.0, 1.0], true);
        check(EarlyStoppingMode::Max, &[1.0, 2.0, 3.0, 4.0], false);
    }
}
