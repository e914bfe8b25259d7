//! Actions after a phase: T5X's early stopping, and termination on values that are not finite.

use std::collections::BTreeMap;

use crate::session::held_out::MetricsByTask;
use crate::telemetry;

use super::spec::{Action, EarlyStopping, EarlyStoppingMode, TerminateOnNan};

/// By phase, the values that each action has looked at; `None` for NaN and infinite values, which
/// JSON cannot express.
pub type Histories = BTreeMap<String, Vec<Vec<Option<f64>>>>;

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
            Action::TerminateOnNan(action) => terminate_on_nan(action, metrics),
            Action::EarlyStopping(action) => {
                let (task, metric) = &action.metric;
                let Some(value) = find(metrics, task, metric) else { return false };
                self.history.push(value);
                stops_early(action, &mut self.history)
            }
        }
    }
}

fn terminate_on_nan(action: &TerminateOnNan, metrics: &MetricsByTask) -> bool {
    let tasks: Vec<&str> = match &action.task {
        Some(task) => vec![task],
        None => metrics.keys().map(String::as_str).collect(),
    };
    let broken =
        |task: &&str| find(metrics, task, &action.metric).is_some_and(|value| !value.is_finite());
    let stop = tasks.iter().any(broken);
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

fn find(metrics: &MetricsByTask, task: &str, metric: &str) -> Option<f64> {
    let found = metrics.get(task).and_then(|metrics| metrics.get(metric)).copied();
    if found.is_none() {
        telemetry::warn_once(&format!(
            "an action asks for {task}/{metric}, which was not measured"
        ));
    }
    found
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
