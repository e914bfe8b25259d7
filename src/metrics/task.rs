//! Metrics of a task: from all its targets and predictions to named numbers.
//!
//! Targets and predictions come postprocessed, as JSON values: strings, class labels, lists of
//! answers. Source: the t5 library, `t5/evaluation/metrics.py`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::gin::Configurable;

use super::question_answering::{Squad, TriviaQa};

/// Any metric that a task can name in `metric_fns`.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum MetricFn {
    /// Share of equal labels or texts.
    Accuracy(Accuracy),
    /// Share of equal sequences.
    SequenceAccuracy(SequenceAccuracy),
    /// Word edits between target and prediction.
    EditDistance(EditDistance),
    /// Exact match and F1 of answers as SQuAD counts them.
    Squad(Squad),
    /// Exact match and F1 of answers as TriviaQA counts them.
    TriviaQa(TriviaQa),
    /// Whether everything is right.
    AllMatch(AllMatch),
    /// F1 averaged over classes.
    MeanMulticlassF1(MeanMulticlassF1),
}

/// What a metric needs from the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelOutput {
    /// Decoded texts.
    Prediction,
    /// Log-likelihoods of the targets.
    Score,
}

/// A metric that cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetricError {
    /// Nothing to average over.
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
    /// A value that the task's postprocessing should not have made.
    #[error(
        "metric `{metric}` expected {expected}, found {found}; does the task's postprocess_fn fit it?"
    )]
    Type {
        /// The metric.
        metric: &'static str,
        /// What it takes.
        expected: &'static str,
        /// The value.
        found: String,
    },
}

impl MetricFn {
    /// What the model must supply.
    pub fn model_output(&self) -> ModelOutput {
        ModelOutput::Prediction
    }

    /// The name without its module.
    pub fn name(&self) -> &'static str {
        let schema = match self {
            MetricFn::Accuracy(_) => Accuracy::schema(),
            MetricFn::SequenceAccuracy(_) => SequenceAccuracy::schema(),
            MetricFn::EditDistance(_) => EditDistance::schema(),
            MetricFn::Squad(_) => Squad::schema(),
            MetricFn::TriviaQa(_) => TriviaQa::schema(),
            MetricFn::AllMatch(_) => AllMatch::schema(),
            MetricFn::MeanMulticlassF1(_) => MeanMulticlassF1::schema(),
        };
        schema.short_name()
    }

    /// The metric's values by key. Percentages are times 100, as in t5.
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
        let values = match self {
            MetricFn::Accuracy(_) => vec![("accuracy", pairs.share_equal())],
            MetricFn::SequenceAccuracy(_) => vec![("sequence_accuracy", pairs.share_equal())],
            MetricFn::EditDistance(spec) => spec.compute(&pairs)?,
            MetricFn::Squad(spec) => spec.compute(&pairs)?,
            MetricFn::TriviaQa(spec) => spec.compute(&pairs)?,
            MetricFn::AllMatch(_) => {
                let all = pairs.share_equal() == 100.0;
                vec![("exact_match", if all { 100.0 } else { 0.0 })]
            }
            MetricFn::MeanMulticlassF1(spec) => {
                let key = format!("mean_{}class_f1", spec.num_classes);
                return Ok(BTreeMap::from([(key, spec.compute(&pairs)?)]));
            }
        };
        Ok(values.into_iter().map(|(key, value)| (key.to_string(), value)).collect())
    }
}

/// Targets and predictions of a metric; never empty, of one length.
pub(super) struct Pairs<'a> {
    pub(super) metric: &'static str,
    pub(super) targets: &'a [Value],
    pub(super) predictions: &'a [Value],
}

impl Pairs<'_> {
    fn share_equal(&self) -> f64 {
        let equal = self.targets.iter().zip(self.predictions).filter(|(t, p)| equal(t, p)).count();
        100.0 * equal as f64 / self.targets.len() as f64
    }

    pub(super) fn text<'v>(&self, value: &'v Value) -> Result<&'v str, MetricError> {
        value.as_str().ok_or_else(|| self.mismatch("a text", value))
    }

    pub(super) fn mismatch(&self, expected: &'static str, value: &Value) -> MetricError {
        MetricError::Type { metric: self.metric, expected, found: value.to_string() }
    }
}

/// Python's equality: 1 and 1.0 are the same.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        _ => a == b,
    }
}

/// Share of predictions that equal their target, times 100: `accuracy`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.accuracy")]
pub struct Accuracy;

/// Share of predicted texts that equal their target exactly, times 100: `sequence_accuracy`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.sequence_accuracy")]
pub struct SequenceAccuracy;

/// 100 if all predictions equal their targets, else 0: `exact_match`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.all_match")]
pub struct AllMatch;

/// F1 of each class averaged without weights, times 100: `mean_3class_f1`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.mean_multiclass_f1")]
pub struct MeanMulticlassF1 {
    /// Labels are 0 to this, exclusive; other predictions are wrong.
    pub num_classes: usize,
}

impl MeanMulticlassF1 {
    fn compute(&self, pairs: &Pairs<'_>) -> Result<f64, MetricError> {
        let label =
            |value: &Value| value.as_i64().ok_or_else(|| pairs.mismatch("a class label", value));
        let targets = pairs.targets.iter().map(label).collect::<Result<Vec<_>, _>>()?;
        let predictions = pairs.predictions.iter().map(label).collect::<Result<Vec<_>, _>>()?;
        let count = |labels: &[i64], class| labels.iter().filter(|l| **l == class).count();
        let f1 = |class: i64| {
            let both = targets.iter().zip(&predictions);
            let hits = both.filter(|(t, p)| **t == class && **p == class).count() as f64;
            let all = (count(&targets, class) + count(&predictions, class)) as f64;
            // A class that is neither target nor prediction scores 0, as in scikit-learn.
            if all == 0.0 { 0.0 } else { 2.0 * hits / all }
        };
        let sum: f64 = (0..self.num_classes as i64).map(f1).sum();
        Ok(100.0 * sum / self.num_classes as f64)
    }
}

/// Words to insert, delete or replace: `min_edit`, `max_edit`, `mean_edit`, `median_edit`, `sum_edit`.
/// Words end at whatever is not a letter, digit or underscore; t5 also ends them at combining marks.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.edit_distance")]
pub struct EditDistance {
    /// Ignore case.
    #[gin(default = true)]
    pub lower: bool,
}

impl EditDistance {
    fn compute(&self, pairs: &Pairs<'_>) -> Result<Vec<(&'static str, f64)>, MetricError> {
        let read = |value| {
            let text = pairs.text(value)?;
            Ok(if self.lower { text.to_lowercase() } else { text.to_string() })
        };
        let mut edits = Vec::with_capacity(pairs.targets.len());
        for (target, prediction) in pairs.targets.iter().zip(pairs.predictions) {
            let (target, prediction): (String, String) = (read(target)?, read(prediction)?);
            edits.push(distance(&words(&target), &words(&prediction)));
        }
        edits.sort_unstable();
        let sum: usize = edits.iter().sum();
        let middle = edits.len() / 2;
        let median = match edits.len() % 2 {
            1 => edits[middle] as f64,
            _ => (edits[middle - 1] + edits[middle]) as f64 / 2.0,
        };
        Ok(vec![
            ("min_edit", edits[0] as f64),
            ("max_edit", edits[edits.len() - 1] as f64),
            ("mean_edit", sum as f64 / edits.len() as f64),
            ("median_edit", median),
            ("sum_edit", sum as f64),
        ])
    }
}

/// The text cut at every character that is no part of a word; two in a row leave an empty word.
fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').collect()
}

/// Levenshtein's distance.
fn distance(a: &[&str], b: &[&str]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, word) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(word != other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
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
