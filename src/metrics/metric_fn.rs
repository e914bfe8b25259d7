//! Metrics of a task by name: from all its targets and predictions to named numbers.

use std::collections::BTreeMap;

use serde_json::Value;

use gimlet_gin::Slot;

use super::edits::EditDistance;
use super::groups::{DeduplicateMetric, MeanGroupMetric};
use super::labels::{
    Accuracy, AllMatch, F1ScoreWithInvalid, MeanMulticlassF1, MultircF1OverAllAnswers,
    SequenceAccuracy,
};
use super::metric::{Metric, MetricError, ModelOutput, Pairs};
use super::multilingual::{Mlqa, SpanF1};
use super::numbers::{PearsonCorrcoef, SpearmanCorrcoef};
use super::python::PythonMetric;
use super::question_answering::{CoqaF1, NaturalQuestions, SpanSquad, Squad, TriviaQa};
use super::ranking::{Auc, RankClassification, ScoreAuc};
use super::scrolls::Scrolls;
use super::sklearn::SklearnMetricsWrapper;
use super::summaries::{Rouge, RougeMean};
use super::text_accuracy::TextAccuracy;
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
        Scrolls,
        SequenceAccuracy,
        SklearnMetricsWrapper,
        SpanF1,
        SpanSquad,
        SpearmanCorrcoef,
        Squad,
        TextAccuracy,
        TriviaQa,
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
    fn text_accuracy_compares_positions() {
        let targets = json!(["știe că", "a b", ""]);
        let predictions = json!(["știe ca", "a", ""]);
        let expected = [("word_accuracy", 50.0), ("char_accuracy", 70.0)];
        check(MetricFn::TextAccuracy(TextAccuracy), targets, predictions, &expected);
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
