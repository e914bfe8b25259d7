//! Metrics of class labels and of whole texts.
//!
//! Sources: t5 `evaluation/metrics.py`; scikit-learn's definitions, with 0 for what is divided by 0.

use crate::gin::{Configurable, Ref};

use super::task::{Metric, MetricError, Pairs, Values, one};

/// Share of predictions that equal their target, times 100: `accuracy`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.accuracy")]
pub struct Accuracy;

impl Metric for Accuracy {
    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        Ok(one("accuracy", pairs.share_equal()))
    }
}

/// Share of predicted texts that equal their target exactly, times 100: `sequence_accuracy`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.sequence_accuracy")]
pub struct SequenceAccuracy;

impl Metric for SequenceAccuracy {
    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        Ok(one("sequence_accuracy", pairs.share_equal()))
    }
}

/// 100 if all predictions equal their targets, else 0: `exact_match`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.all_match")]
pub struct AllMatch;

impl Metric for AllMatch {
    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let all = pairs.share_equal() == 100.0;
        Ok(one("exact_match", if all { 100.0 } else { 0.0 }))
    }
}

/// F1 of each class averaged without weights, times 100: `mean_3class_f1`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.mean_multiclass_f1")]
pub struct MeanMulticlassF1 {
    /// Labels are 0 to this, exclusive; other predictions are wrong.
    pub num_classes: usize,
}

impl Metric for MeanMulticlassF1 {
    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let labels = Labels::of(pairs)?;
        let sum: f64 = (0..self.num_classes as i64).map(|class| labels.counts(class).f1()).sum();
        let key = format!("mean_{}class_f1", self.num_classes);
        Ok(one(&key, 100.0 * sum / self.num_classes as f64))
    }
}

/// F1 of label 1, where a prediction that is neither 0 nor 1 is wrong, times 100: `f1`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.f1_score_with_invalid")]
pub struct F1ScoreWithInvalid;

impl Metric for F1ScoreWithInvalid {
    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        Ok(one("f1", 100.0 * Labels::of(pairs)?.with_invalid_flipped().counts(1).f1()))
    }
}

/// `f1_score_with_invalid` of the `value` of every answer, whatever its question: `f1`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.multirc_f1_over_all_answers")]
pub struct MultircF1OverAllAnswers;

impl Metric for MultircF1OverAllAnswers {
    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let value = |pairs: &Pairs<'_>, value: &_| pairs.label(pairs.field(value, "value")?);
        let labels = Labels {
            targets: pairs.read(pairs.targets, value)?,
            predictions: pairs.read(pairs.predictions, value)?,
        };
        Ok(one("f1", 100.0 * labels.with_invalid_flipped().counts(1).f1()))
    }
}

/// A metric of scikit-learn by its name.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.sklearn_metrics_wrapper")]
pub struct SklearnMetricsWrapper {
    /// The metric.
    pub metric_str: SklearnMetric,
    /// Its key; its name if not given.
    #[gin(default = None)]
    pub metric_dict_str: Option<String>,
    /// What is done to its value: `@gimlet.metrics.percentage`.
    #[gin(default = None)]
    pub metric_post_process_fn: Option<Ref<Percentage>>,
}

/// A hundred times the value: what the t5 library does to scores between 0 and 1. Gimlet's own.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "gimlet.metrics.percentage")]
pub struct Percentage;

/// Metrics of scikit-learn, of labels (1 is the positive one) or of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum SklearnMetric {
    /// Share of equal labels.
    AccuracyScore,
    /// F1 of label 1.
    F1Score,
    /// Correlation of labels, of any number of classes.
    MatthewsCorrcoef,
    /// Mean distance of numbers.
    MeanAbsoluteError,
    /// Mean squared distance of numbers.
    MeanSquaredError,
    /// Share of predicted 1s that are.
    PrecisionScore,
    /// Share of 1s that are predicted.
    RecallScore,
}

impl Metric for SklearnMetricsWrapper {
    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let value = match self.metric_str {
            SklearnMetric::AccuracyScore => pairs.share_equal() / 100.0,
            SklearnMetric::F1Score => Labels::of(pairs)?.counts(1).f1(),
            SklearnMetric::MatthewsCorrcoef => Labels::of(pairs)?.matthews_corrcoef(),
            SklearnMetric::MeanAbsoluteError => mean_distance(pairs, f64::abs)?,
            SklearnMetric::MeanSquaredError => mean_distance(pairs, |d| d * d)?,
            SklearnMetric::PrecisionScore => Labels::of(pairs)?.counts(1).precision(),
            SklearnMetric::RecallScore => Labels::of(pairs)?.counts(1).recall(),
        };
        let factor = if self.metric_post_process_fn.is_some() { 100.0 } else { 1.0 };
        let key = self.metric_dict_str.as_deref().unwrap_or(self.metric_str.as_str());
        Ok(one(key, factor * value))
    }
}

fn mean_distance(pairs: &Pairs<'_>, of: impl Fn(f64) -> f64) -> Result<f64, MetricError> {
    let mut sum = 0.0;
    for (target, prediction) in pairs.iter() {
        sum += of(pairs.number(target)? - pairs.number(prediction)?);
    }
    Ok(sum / pairs.len() as f64)
}

/// Labels of targets and predictions.
struct Labels {
    targets: Vec<i64>,
    predictions: Vec<i64>,
}

impl Labels {
    fn of(pairs: &Pairs<'_>) -> Result<Self, MetricError> {
        Ok(Self {
            targets: pairs.read(pairs.targets, Pairs::label)?,
            predictions: pairs.read(pairs.predictions, Pairs::label)?,
        })
    }

    /// Predictions other than 0 and 1 become the label that the target is not.
    fn with_invalid_flipped(mut self) -> Self {
        for (prediction, target) in self.predictions.iter_mut().zip(&self.targets) {
            if !matches!(*prediction, 0 | 1) {
                *prediction = 1 - target;
            }
        }
        self
    }

    fn counts(&self, class: i64) -> Counts {
        let is_class = |label: &&i64| **label == class;
        let both = self.targets.iter().zip(&self.predictions);
        Counts {
            hits: both.filter(|(t, p)| **t == class && **p == class).count() as f64,
            targets: self.targets.iter().filter(is_class).count() as f64,
            predictions: self.predictions.iter().filter(is_class).count() as f64,
        }
    }

    /// The correlation of two labellings (Gorodkin 2004), 0 where one of them is constant.
    fn matthews_corrcoef(&self) -> f64 {
        let mut classes: Vec<i64> = self.targets.iter().chain(&self.predictions).copied().collect();
        classes.sort_unstable();
        classes.dedup();
        let total = self.targets.len() as f64;
        let (mut hits, mut products, mut targets, mut predictions) = (0.0, 0.0, 0.0, 0.0);
        for class in classes {
            let counts = self.counts(class);
            hits += counts.hits;
            products += counts.targets * counts.predictions;
            targets += counts.targets * counts.targets;
            predictions += counts.predictions * counts.predictions;
        }
        let spread = (total * total - predictions) * (total * total - targets);
        if spread == 0.0 { 0.0 } else { (hits * total - products) / spread.sqrt() }
    }
}

/// How often a class is the target, the prediction, and both.
pub(super) struct Counts {
    pub(super) hits: f64,
    pub(super) targets: f64,
    pub(super) predictions: f64,
}

impl Counts {
    pub(super) fn f1(&self) -> f64 {
        ratio(2.0 * self.hits, self.targets + self.predictions)
    }

    fn precision(&self) -> f64 {
        ratio(self.hits, self.predictions)
    }

    fn recall(&self) -> f64 {
        ratio(self.hits, self.targets)
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}
