//! The metric that decides which checkpoints are kept, recorded for every saved step.

use std::collections::BTreeMap;

use crate::checkpoint::{Best, KeepBest};
use crate::session::held_out::MetricsByTask;

use super::last_evaluation::LastEvaluation;
use super::measured::warn_unmeasured;
use super::record::Monitored;

/// Records the metric. An evaluation follows the save of its step, so its result counts from the
/// next save on, as in T5X.
#[derive(Debug)]
pub struct Monitor {
    keep: Option<KeepBest>,
    metrics: Monitored,
    saved: Option<u64>,
}

impl Monitor {
    /// Creates a monitor that continues an earlier process's records; without a rule it records
    /// nothing.
    pub fn new(keep: Option<KeepBest>, metrics: Monitored, saved: Option<u64>) -> Self {
        Self { keep, metrics, saved }
    }

    /// Records the metrics of a window of training steps.
    pub fn see_train(&mut self, step: u64, metrics: &BTreeMap<String, f64>) {
        self.see(step, metrics.iter().map(|(name, value)| (format!("train/{name}"), *value)));
    }

    /// Records the results of an evaluation.
    pub fn see_evaluation(&mut self, evaluation: &LastEvaluation) {
        let tagged = |run: &'static str, by_task: &MetricsByTask, prefix: &'static str| {
            let of_task = |(task, metrics): (&String, &BTreeMap<String, f64>)| {
                let tag = |(name, value): (&String, &f64)| {
                    (format!("{run}/{task}/{prefix}{name}"), *value)
                };
                metrics.iter().map(tag).collect::<Vec<_>>()
            };
            by_task.iter().flat_map(of_task).collect::<Vec<_>>()
        };
        // Each evaluation may be without examples, which was said at the start.
        let training = tagged("training_eval", &evaluation.training, "");
        let inference = tagged("inference_eval", &evaluation.inference, "eval/");
        self.see(evaluation.step, training.into_iter().chain(inference));
    }

    /// Returns the metrics known at the save of a step, which must follow at once.
    pub fn at_save(&mut self, step: u64) -> Monitored {
        // Steps between the last save and this one were not saved.
        let saved = self.saved.replace(step);
        self.metrics.retain(|at, _| *at == step || saved.is_some_and(|saved| *at <= saved));
        self.metrics.clone()
    }

    /// Returns the rule and the metrics, for the removal of checkpoints.
    pub fn best(&self) -> Option<Best> {
        let number = |(step, value): (&u64, &Option<f64>)| (*step, value.unwrap_or(f64::NAN));
        let metrics = self.metrics.iter().map(number).collect();
        self.keep.clone().map(|keep| Best { keep, metrics })
    }

    /// Records the metric, if it is of the run of TensorBoard whose tags these are. If it is of that run and not among
    /// them, a warning is printed.
    fn see(&mut self, step: u64, metrics: impl Iterator<Item = (String, f64)>) {
        let Some(keep) = &self.keep else { return };
        let run = |tag: &str| tag.split('/').next() == Some("train");
        let metrics: Vec<(String, f64)> =
            metrics.filter(|(tag, _)| run(tag) == run(&keep.metric)).collect();
        if let Some((_, value)) = metrics.iter().find(|(tag, _)| *tag == keep.metric) {
            self.metrics.insert(step, value.is_finite().then_some(*value));
        } else if !metrics.is_empty() {
            let measured: Vec<String> = metrics.into_iter().map(|(tag, _)| tag).collect();
            warn_unmeasured("metric_name_to_monitor", &keep.metric, &measured);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::MetricMode;

    fn monitor(metric: &str) -> Monitor {
        let keep = KeepBest {
            metric: metric.to_string(),
            mode: MetricMode::Max,
            keep_without_metrics: true,
            force_keep_period: None,
        };
        Monitor::new(Some(keep), Monitored::new(), None)
    }

    fn metrics(name: &str, value: f64) -> BTreeMap<String, f64> {
        BTreeMap::from([(name.to_string(), value)])
    }

    #[test]
    fn metrics_are_named_as_tensorboard_shows_them() {
        let by_task = |name: &str| BTreeMap::from([("a/b".to_string(), metrics(name, 2.0))]);
        let evaluation =
            LastEvaluation { step: 5, training: by_task("loss"), inference: by_task("rouge/1") };
        for (metric, expected) in [
            ("train/accuracy", Some(1.0)),
            ("training_eval/a/b/loss", Some(2.0)),
            ("inference_eval/a/b/eval/rouge/1", Some(2.0)),
            ("inference_eval/a/b/rouge/1", None),
            ("training_eval/a/loss", None),
            ("accuracy", None),
        ] {
            let mut monitor = monitor(metric);
            monitor.see_train(5, &metrics("accuracy", 1.0));
            monitor.see_evaluation(&evaluation);
            assert_eq!(monitor.at_save(5).get(&5).copied().flatten(), expected, "{metric}");
        }
    }

    #[test]
    fn only_steps_that_were_saved_are_remembered() {
        let mut monitor = monitor("train/loss");
        for step in 1..=9 {
            monitor.see_train(step, &metrics("loss", step as f64));
            if step % 3 == 0 {
                monitor.at_save(step);
            }
        }
        monitor.see_train(10, &metrics("loss", f64::NAN));
        let known = monitor.at_save(10);
        assert_eq!(known, [(3, Some(3.0)), (6, Some(6.0)), (9, Some(9.0)), (10, None)].into());
    }
}
