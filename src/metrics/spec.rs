//! The metric functions that a task can name.

use crate::gin::Configurable;

/// Any metric function of a task, given as a bare reference: `metric_fns = [@metrics.accuracy]`.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum MetricFn {
    /// Share of predictions equal to their target.
    Accuracy(Accuracy),
    /// Share of sequences predicted exactly.
    SequenceAccuracy(SequenceAccuracy),
}

/// Accuracy in percent over predictions. Source: t5 `evaluation/metrics.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.accuracy")]
pub struct Accuracy {}

/// Share in percent of predictions equal to their target. Source: t5 `evaluation/metrics.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.sequence_accuracy")]
pub struct SequenceAccuracy {}
