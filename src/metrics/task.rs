//! Metrics of a task: from all its targets and predictions to named numbers.
//!
//! Targets and predictions come postprocessed, as JSON values: strings, class labels, lists of
//! answers. Source: the t5 library, `t5/evaluation/metrics.py`.

use std::collections::BTreeMap;

use serde_json::Value;

use gimlet_gin::{Configurable, Slot};

use super::edits::EditDistance;
use super::groups::{DeduplicateMetric, MeanGroupMetric};
use super::labels::{
    Accuracy, AllMatch, F1ScoreWithInvalid, MeanMulticlassF1, MultircF1OverAllAnswers,
    SequenceAccuracy,
};
use super::multilingual::{Mlqa, SpanF1};
use super::numbers::{PearsonCorrcoef, SpearmanCorrcoef};
use super::python::PythonMetric;
use super::question_answering::{CoqaF1, NaturalQuestions, SpanSquad, Squad, TriviaQa};
use super::ranking::{Auc, RankClassification, ScoreAuc};
use super::sklearn::SklearnMetricsWrapper;
use super::summaries::{Rouge, RougeMean};
use super::translation::Bleu;

gimlet_gin::slot! {
    /// Any metric that a task can name in `metric_fns`, as a bare reference:
    /// `@t5.evaluation.metrics.accuracy`.
    pub enum MetricFn: Metric {
        Accuracy,
        AllMatch,
        Auc,
        Bleu,
        CoqaF1,
        DeduplicateMetric,
        EditDistance,
        F1ScoreWithInvalid,
        MeanGroupMetric,
        MeanMulticlassF1,
        Mlqa,
        MultircF1OverAllAnswers,
        NaturalQuestions,
        PearsonCorrcoef,
        PythonMetric,
        RankClassification,
        Rouge,
        RougeMean,
        ScoreAuc,
        SequenceAccuracy,
        SklearnMetricsWrapper,
        SpanF1,
        SpanSquad,
        SpearmanCorrcoef,
        Squad,
        TriviaQa,
    }
}

/// The output of the model that a metric needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum ModelOutput {
    /// Decoded texts.
    Prediction,
    /// Log-likelihoods of the targets.
    Score,
}

/// A metric that cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetricError {
    /// There are no examples to average over.
    #[error("metric `{metric}` has no examples to be computed from")]
    NoExamples {
        /// The metric.
        metric: &'static str,
    },
    /// The lists do not match.
    #[error("metric `{metric}` has {targets} targets and {predictions} predictions")]
    Lengths {
        /// The metric.
        metric: &'static str,
        /// Number of targets.
        targets: usize,
        /// Number of predictions.
        predictions: usize,
    },
    /// A value of the wrong type from the task's postprocessing.
    #[error(
        "metric `{metric}` expected {expected}, found {found}; does the task's postprocess_fn fit it?"
    )]
    Type {
        /// The metric.
        metric: &'static str,
        /// The expected type.
        expected: &'static str,
        /// The value.
        found: String,
    },
    /// Values that do not fit each other.
    #[error("metric `{metric}`: {reason}")]
    Unfit {
        /// The metric.
        metric: &'static str,
        /// The found and expected values.
        reason: String,
    },
}

/// A metric's values by key.
pub(super) type Values = Vec<(String, f64)>;

/// A metric that gin can name.
pub(super) trait Metric {
    /// Returns the keys that it has for any examples.
    fn keys(&self) -> Vec<String>;

    /// Computes its values by key, for at least one example.
    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError>;

    /// Returns the output that the model must supply.
    fn model_output(&self) -> ModelOutput {
        ModelOutput::Prediction
    }
}

impl MetricFn {
    /// Returns the keys that the metric has for any examples.
    pub fn keys(&self) -> Vec<String> {
        self.spec().keys()
    }

    /// Returns the output that the model must supply.
    pub fn model_output(&self) -> ModelOutput {
        self.spec().model_output()
    }

    /// The name without its module.
    pub fn name(&self) -> &'static str {
        self.schema_of().short_name()
    }

    /// Computes the metric's values by key. Percentages are times 100, as in t5.
    ///
    /// # Errors
    /// No examples, lists of different lengths, or values of the wrong type.
    pub fn compute(
        &self,
        targets: &[Value],
        predictions: &[Value],
    ) -> Result<BTreeMap<String, f64>, MetricError> {
        let metric = self.name();
        if targets.len() != predictions.len() {
            let (targets, predictions) = (targets.len(), predictions.len());
            return Err(MetricError::Lengths { metric, targets, predictions });
        }
        if targets.is_empty() {
            return Err(MetricError::NoExamples { metric });
        }
        let pairs = Pairs { metric, targets, predictions };
        Ok(self.spec().compute(&pairs)?.into_iter().collect())
    }
}

/// Targets and predictions of a metric; never empty, of one length.
pub(super) struct Pairs<'a> {
    pub(super) metric: &'static str,
    pub(super) targets: &'a [Value],
    pub(super) predictions: &'a [Value],
}

impl Pairs<'_> {
    /// Number of examples.
    pub(super) fn len(&self) -> usize {
        self.targets.len()
    }

    /// Targets with their predictions.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Value, &Value)> {
        self.targets.iter().zip(self.predictions)
    }

    /// Percentage of predictions that equal their target.
    pub(super) fn share_equal(&self) -> f64 {
        let equal = self.iter().filter(|(target, prediction)| equal(target, prediction)).count();
        100.0 * equal as f64 / self.len() as f64
    }

    pub(super) fn text<'v>(&self, value: &'v Value) -> Result<&'v str, MetricError> {
        value.as_str().ok_or_else(|| self.mismatch("a text", value))
    }

    /// Reads a whole number; truth values count as 0 and 1.
    pub(super) fn label(&self, value: &Value) -> Result<i64, MetricError> {
        let whole = |number: f64| (number.fract() == 0.0).then_some(number as i64);
        match value {
            Value::Bool(truth) => Ok(i64::from(*truth)),
            _ => value
                .as_i64()
                .or_else(|| value.as_f64().and_then(whole))
                .ok_or_else(|| self.mismatch("a class label", value)),
        }
    }

    /// Reads a number; JSON has `null` for NaN, and Gimlet writes infinities as texts.
    pub(super) fn number(&self, value: &Value) -> Result<f64, MetricError> {
        match value {
            Value::Null => Ok(f64::NAN),
            Value::Bool(truth) => Ok(f64::from(u8::from(*truth))),
            Value::String(text) if text == INFINITY => Ok(f64::INFINITY),
            Value::String(text) if text == MINUS_INFINITY => Ok(f64::NEG_INFINITY),
            _ => value.as_f64().ok_or_else(|| self.mismatch("a number", value)),
        }
    }

    /// The value of a key.
    pub(super) fn field<'v>(&self, value: &'v Value, key: &str) -> Result<&'v Value, MetricError> {
        match value.get(key) {
            Some(found) => Ok(found),
            None => Err(self.unfit(format!("expected a dict with '{key}', found {value}"))),
        }
    }

    /// The values of one side.
    pub(super) fn read<T>(
        &self,
        values: &[Value],
        read: impl Fn(&Self, &Value) -> Result<T, MetricError>,
    ) -> Result<Vec<T>, MetricError> {
        values.iter().map(|value| read(self, value)).collect()
    }

    pub(super) fn mismatch(&self, expected: &'static str, value: &Value) -> MetricError {
        MetricError::Type { metric: self.metric, expected, found: value.to_string() }
    }

    pub(super) fn unfit(&self, reason: String) -> MetricError {
        MetricError::Unfit { metric: self.metric, reason }
    }
}

const INFINITY: &str = "Infinity";
const MINUS_INFINITY: &str = "-Infinity";

/// Converts a number to a target or prediction, even if JSON cannot express it.
pub fn number_value(number: f64) -> Value {
    match number {
        f64::INFINITY => Value::from(INFINITY),
        f64::NEG_INFINITY => Value::from(MINUS_INFINITY),
        number => Value::from(number),
    }
}

/// Names as keys.
pub(super) fn named(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// A single value of a metric.
pub(super) fn one(key: &str, value: f64) -> Values {
    vec![(key.to_string(), value)]
}

/// Compares as Python does: 1 and 1.0 are equal, and NaN, for which JSON has `null`, equals
/// nothing.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Bool(a), Value::Number(b)) | (Value::Number(b), Value::Bool(a)) => {
            b.as_f64() == Some(f64::from(u8::from(*a)))
        }
        (Value::Null, Value::Null) => false,
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(metric: MetricFn, targets: Value, predictions: Value, expected: &[(&str, f64)]) {
        let list = |value: &Value| value.as_array().unwrap().clone();
        let found = metric.compute(&list(&targets), &list(&predictions)).unwrap();
        let keys: Vec<&str> = found.keys().map(String::as_str).collect();
        let expected: BTreeMap<&str, f64> = expected.iter().copied().collect();
        assert_eq!(keys, expected.keys().copied().collect::<Vec<_>>());
        for (key, value) in expected {
            assert!((found[key] - value).abs() < 1e-9, "{key}: {} is not {value}", found[key]);
        }
    }

    #[test]
    fn accuracy_is_a_percentage() {
        let metric = MetricFn::Accuracy(Accuracy);
        check(metric, json!([0, 1, "a", 2.0]), json!([0, 2, "a", 2]), &[("accuracy", 75.0)]);
    }

    #[test]
    fn sequence_accuracy_is_a_percentage() {
        let (s1, s2) = ("this is a string.", "this is a completely different string.");
        let metric = MetricFn::SequenceAccuracy(SequenceAccuracy);
        check(metric, json!([s1, s2]), json!([s1, s1]), &[("sequence_accuracy", 50.0)]);
    }

    #[test]
    fn all_match_is_all_or_nothing() {
        let metric = MetricFn::AllMatch(AllMatch);
        check(metric.clone(), json!([0, 1]), json!([0, 1]), &[("exact_match", 100.0)]);
        check(metric, json!([0, 1]), json!([0, 2]), &[("exact_match", 0.0)]);
    }

    #[test]
    fn multiclass_f1_is_the_mean_over_classes() {
        let metric = MetricFn::MeanMulticlassF1(MeanMulticlassF1 { num_classes: 3 });
        let expected = [("mean_3class_f1", 44.44444444444444)];
        check(metric, json!([0, 1, 1, 2]), json!([0, 0, 2, 2]), &expected);
    }

    /// `t5.evaluation.metrics.edit_distance` of t5 0.9.4 on the same lists.
    #[test]
    fn edit_distance_counts_words() {
        let metric = MetricFn::EditDistance(EditDistance { lower: true });
        let targets = json!(["This is a string.", "a b c", "one, two", "same"]);
        let predictions = json!(["this is string", "c b a", "one two", "SAME"]);
        let expected = [
            ("min_edit", 0.0),
            ("max_edit", 2.0),
            ("mean_edit", 1.25),
            ("median_edit", 1.5),
            ("sum_edit", 5.0),
        ];
        check(metric, targets, predictions, &expected);
    }

    #[test]
    fn what_cannot_be_computed_is_said() {
        let metric = MetricFn::EditDistance(EditDistance { lower: true });
        let error = metric.compute(&[json!(1)], &[json!("a")]).unwrap_err().to_string();
        assert!(error.starts_with("metric `edit_distance` expected a text, found 1"), "{error}");
        let error = metric.compute(&[], &[]).unwrap_err().to_string();
        assert_eq!(error, "metric `edit_distance` has no examples to be computed from");
        assert!(metric.compute(&[json!("a")], &[]).is_err());
    }
}
