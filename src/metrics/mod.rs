//! What is measured: of a training window ([`TrainMetrics`]) and of a task's predictions
//! ([`MetricFn`]).
//!
//! Names and formulas are those of T5X and of the t5 library, so that curves of both can be laid
//! over each other. Nothing here knows tensors: the training loop hands in sums.

mod edits;
mod groups;
mod labels;
mod multilingual;
mod numbers;
mod python;
mod question_answering;
mod ranking;
mod summaries;
mod sums;
mod task;
mod train;
mod translation;
mod words;

pub use edits::EditDistance;
pub use groups::{DeduplicateMetric, MeanGroupMetric};
pub use labels::{
    Accuracy, AllMatch, F1ScoreWithInvalid, MeanMulticlassF1, MultircF1OverAllAnswers, Percentage,
    SequenceAccuracy, SklearnMetric, SklearnMetricsWrapper,
};
pub use multilingual::{Mlqa, MlqaLanguage, SpanF1};
pub use numbers::{PearsonCorrcoef, SpearmanCorrcoef};
pub use python::PythonMetric;
pub use question_answering::{CoqaF1, NaturalQuestions, SpanSquad, Squad, TriviaQa};
pub use ranking::{Auc, RankClassification, ScoreAuc};
pub use summaries::{Rouge, RougeKey, RougeMean};
pub use sums::{FeatureSums, LossSums};
pub use task::{MetricError, MetricFn, ModelOutput};
pub use train::{TrainMetrics, Window};
pub use translation::{Bleu, BleuTokenizer};
