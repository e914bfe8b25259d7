//! What is measured: of a training window ([`TrainMetrics`]) and of a task's predictions
//! ([`MetricFn`]).
//!
//! Names and formulas are those of T5X and of the t5 library, so that curves of both can be laid
//! over each other. Nothing here knows tensors: the training loop hands in sums.

mod question_answering;
mod sums;
mod task;
mod train;

pub use question_answering::{Squad, TriviaQa};
pub use sums::{FeatureSums, LossSums};
pub use task::{
    Accuracy, AllMatch, EditDistance, MeanMulticlassF1, MetricError, MetricFn, ModelOutput,
    SequenceAccuracy,
};
pub use train::{TrainMetrics, Window};
