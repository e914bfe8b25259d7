//! The metrics that a run is told to watch.

use crate::telemetry::warn_once;

use super::spec::{Action, Train};

/// Warns of metrics of evaluations that the run does not make.
pub fn warn_without_evaluation(spec: &Train) {
    let evaluates =
        spec.eval_period.is_some_and(|period| period > 0) || spec.run_eval_before_training;
    let missing = |mode: &str| match mode {
        "TRAIN_EVAL" => !evaluates || spec.train_eval_dataset_cfg.is_none(),
        "INFER_EVAL" => !evaluates || spec.infer_eval_dataset_cfg.is_none(),
        _ => false,
    };
    let keep_best = spec.checkpoint_cfg.save.as_ref().and_then(|save| save.keep_best());
    let kept = keep_best.map(|keep| {
        let mode = match keep.metric.split('/').next() {
            Some("training_eval") => "TRAIN_EVAL",
            Some("inference_eval") => "INFER_EVAL",
            _ => "TRAIN",
        };
        (mode, "metric_name_to_monitor", keep.metric)
    });
    let actions = spec.actions.iter().flatten();
    let watched = actions.flat_map(|(mode, actions)| {
        actions.iter().map(move |action| {
            let (name, metric) = watched(action);
            (mode.as_str(), name, metric)
        })
    });
    for (_, watcher, wanted) in watched.chain(kept).filter(|(mode, ..)| missing(mode)) {
        warn_once(&format!(
            "{watcher} asks for `{wanted}`, which is not measured: the run makes no such evaluation \
             (train.eval_period, train_eval_dataset_cfg and infer_eval_dataset_cfg)"
        ));
    }
}

/// Returns the name of an action, and its metric as `task/metric`.
pub fn watched(action: &Action) -> (&'static str, String) {
    match action {
        Action::TerminateOnNan(action) => {
            let task = action.task.as_deref().unwrap_or("train");
            ("trainer.TerminateOnNanAction", format!("{task}/{}", action.metric))
        }
        Action::EarlyStopping(action) => {
            let (task, metric) = &action.metric;
            ("trainer.EarlyStoppingAction", format!("{task}/{metric}"))
        }
    }
}
