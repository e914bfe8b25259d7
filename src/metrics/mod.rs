//! L1: metrics over predictions and targets, with the keys and scales of t5.evaluation.

mod spec;

pub use spec::{Accuracy, MetricFn, SequenceAccuracy};
