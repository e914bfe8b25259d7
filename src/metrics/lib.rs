//! The metrics: of a training window ([`TrainMetrics`]) and of a task's predictions
//! ([`MetricFn`]).
//!
//! Names and formulas are those of T5X and of the t5 library, so that curves of both can be
//! compared directly. Nothing here knows tensors: the training loop passes sums.

mod edits;
mod groups;
mod labels;
mod metric;
mod metric_fn;
mod multilingual;
mod numbers;
mod python;
mod python_text;
mod question_answering;
mod ranking;
mod scrolls;
mod sklearn;
mod summaries;
mod sums;
mod text_accuracy;
mod train;
mod translation;

pub use edits::EditDistance;
pub use groups::{DeduplicateMetric, MeanGroupMetric};
pub use labels::{
    Accuracy, AllMatch, F1ScoreWithInvalid, MeanMulticlassF1, MultircF1OverAllAnswers,
    SequenceAccuracy,
};
pub use metric::{MetricError, ModelOutput, number_value};
pub use metric_fn::MetricFn;
pub use multilingual::{Mlqa, MlqaLanguage, SpanF1};
pub use numbers::{PearsonCorrcoef, SpearmanCorrcoef};
pub use python::PythonMetric;
pub use python_text::{is_space, with_ascii_digits, without_underscores};
pub use question_answering::{
    CoqaF1, NaturalQuestions, SpanSquad, Squad, TriviaQa, normalize_squad,
};
pub use ranking::{Auc, RankClassification, ScoreAuc};
pub use scrolls::{Scrolls, ScrollsScore};
pub use sklearn::{Average, ClassLabel, Percentage, SklearnMetric, SklearnMetricsWrapper};
pub use summaries::{Rouge, RougeKey, RougeMean};
pub use sums::{FeatureSums, LossSums, sum};
pub use text_accuracy::TextAccuracy;
pub use train::{TrainMetrics, Window};
pub use translation::{Bleu, BleuTokenizer};
