//! Metrics of class labels and of whole texts.
//!
//! Sources: t5 `evaluation/metrics.py`; scikit-learn's definitions, with 0 for divisions by 0.

use serde_json::Value;

use gimlet_gin::Configurable;

use super::metric::{Metric, MetricError, Pairs, Values, named, one};

/// Share of predictions that equal their target, times 100: `accuracy`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.accuracy")]
pub struct Accuracy;

impl Metric for Accuracy {
    fn keys(&self) -> Vec<String> {
        named(&["accuracy"])
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        Ok(one("accuracy", pairs.share_equal()))
    }
}

/// Share of predicted texts that equal their target exactly, times 100: `sequence_accuracy`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.sequence_accuracy")]
pub struct SequenceAccuracy;

impl Metric for SequenceAccuracy {
    fn keys(&self) -> Vec<String> {
        named(&["sequence_accuracy"])
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        Ok(one("sequence_accuracy", pairs.share_equal()))
    }
}

/// 100 if all predictions equal their targets, else 0: `exact_match`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.all_match")]
pub struct AllMatch;

impl Metric for AllMatch {
    fn keys(&self) -> Vec<String> {
        named(&["exact_match"])
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let all = pairs.share_equal() == 100.0;
        Ok(one("exact_match", if all { 100.0 } else { 0.0 }))
    }
}

/// F1 of each class averaged without weights, times 100: `mean_3class_f1`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.mean_multiclass_f1")]
pub struct MeanMulticlassF1 {
    /// Labels range from 0 to this, exclusive; other predictions are wrong.
    pub num_classes: usize,
}

impl Metric for MeanMulticlassF1 {
    fn keys(&self) -> Vec<String> {
        vec![format!("mean_{}class_f1", self.num_classes)]
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let labels = Labels::of(pairs)?;
        let sum: f64 = (0..self.num_classes as i64).map(|class| labels.counts(&class).f1()).sum();
        let key = format!("mean_{}class_f1", self.num_classes);
        Ok(one(&key, 100.0 * sum / self.num_classes as f64))
    }
}

/// F1 of label 1, where a prediction that is neither 0 nor 1 is wrong, times 100: `f1`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.f1_score_with_invalid")]
pub struct F1ScoreWithInvalid;

impl Metric for F1ScoreWithInvalid {
    fn keys(&self) -> Vec<String> {
        named(&["f1"])
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        Ok(one("f1", 100.0 * Labels::of(pairs)?.with_invalid_flipped().counts(&1).f1()))
    }
}

/// `f1_score_with_invalid` of the `value` of every answer, over all questions: `f1`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.multirc_f1_over_all_answers")]
pub struct MultircF1OverAllAnswers;

impl Metric for MultircF1OverAllAnswers {
    fn keys(&self) -> Vec<String> {
        named(&["f1"])
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let value = |pairs: &Pairs<'_>, value: &_| pairs.label(pairs.field(value, "value")?);
        let labels = Labels {
            targets: pairs.read(pairs.targets, value)?,
            predictions: pairs.read(pairs.predictions, value)?,
        };
        Ok(one("f1", 100.0 * labels.with_invalid_flipped().counts(&1).f1()))
    }
}

/// Labels of targets and predictions.
pub(super) struct Labels<T = i64> {
    targets: Vec<T>,
    predictions: Vec<T>,
}

impl Labels {
    fn of(pairs: &Pairs<'_>) -> Result<Self, MetricError> {
        Self::read(pairs, |pairs, value| pairs.label(value))
    }

    /// Replaces predictions other than 0 and 1 by the label that differs from the target.
    fn with_invalid_flipped(mut self) -> Self {
        for (prediction, target) in self.predictions.iter_mut().zip(&self.targets) {
            if !matches!(*prediction, 0 | 1) {
                *prediction = 1 - target;
            }
        }
        self
    }
}

impl<T: Ord + Clone> Labels<T> {
    pub(super) fn read(
        pairs: &Pairs<'_>,
        read: impl Fn(&Pairs<'_>, &Value) -> Result<T, MetricError>,
    ) -> Result<Self, MetricError> {
        let targets = pairs.read(pairs.targets, &read)?;
        Ok(Self { targets, predictions: pairs.read(pairs.predictions, &read)? })
    }

    /// Returns all labels that occur, in their order.
    pub(super) fn classes(&self) -> Vec<T> {
        let mut classes: Vec<T> = self.targets.iter().chain(&self.predictions).cloned().collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    pub(super) fn counts(&self, class: &T) -> Counts {
        let is_class = |label: &&T| *label == class;
        let both = self.targets.iter().zip(&self.predictions);
        Counts {
            hits: both.filter(|(t, p)| *t == class && *p == class).count() as f64,
            targets: self.targets.iter().filter(is_class).count() as f64,
            predictions: self.predictions.iter().filter(is_class).count() as f64,
        }
    }

    /// Returns the correlation of two labellings (Gorodkin 2004); 0 if one of them is constant.
    pub(super) fn matthews_corrcoef(&self) -> f64 {
        let total = self.targets.len() as f64;
        let (mut hits, mut products, mut targets, mut predictions) = (0.0, 0.0, 0.0, 0.0);
        for class in self.classes() {
            let counts = self.counts(&class);
            hits += counts.hits;
            products += counts.targets * counts.predictions;
            targets += counts.targets * counts.targets;
            predictions += counts.predictions * counts.predictions;
        }
        let spread = (total * total - predictions) * (total * total - targets);
        if spread == 0.0 { 0.0 } else { (hits * total - products) / spread.sqrt() }
    }
}

/// The numbers of times that a class is the target, the prediction, and both.
pub(super) struct Counts {
    pub(super) hits: f64,
    pub(super) targets: f64,
    pub(super) predictions: f64,
}

impl<'a> std::iter::Sum<&'a Counts> for Counts {
    fn sum<I: Iterator<Item = &'a Self>>(counts: I) -> Self {
        let none = Self { hits: 0.0, targets: 0.0, predictions: 0.0 };
        counts.fold(none, |sum, counts| Self {
            hits: sum.hits + counts.hits,
            targets: sum.targets + counts.targets,
            predictions: sum.predictions + counts.predictions,
        })
    }
}

impl Counts {
    pub(super) fn f1(&self) -> f64 {
        self.fbeta(1.0, 0.0)
    }

    /// Returns the F score with `beta` times as much weight on recall (van Rijsbergen 1979).
    pub(super) fn fbeta(&self, beta: f64, or: f64) -> f64 {
        let square = beta * beta;
        ratio_or((1.0 + square) * self.hits, square * self.targets + self.predictions, or)
    }
}

/// Returns a ratio, or `or` if its denominator is 0.
pub(super) fn ratio_or(part: f64, whole: f64, or: f64) -> f64 {
    if whole == 0.0 { or } else { part / whole }
}
