//! Metrics of scikit-learn, by their names. Sources: t5 `evaluation/metrics.py`; scikit-learn
//! `metrics/_classification.py`, `metrics/_regression.py`.

use serde_json::Value;

use gimlet_gin::{
    Configurable, Evaluator, FromGin, Ref, Registry, Reported, Value as GinValue, ValueKind,
};

use super::labels::{Counts, Labels, ratio_or};
use super::metric::{Metric, MetricError, Pairs, Values, one};

/// A metric of scikit-learn by its name, with the arguments of that metric.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.sklearn_metrics_wrapper")]
pub struct SklearnMetricsWrapper {
    /// The metric.
    pub metric_str: SklearnMetric,
    /// Its key; its name if not given.
    #[gin(default = None)]
    pub metric_dict_str: Option<String>,
    /// Conversion of its value: `@gimlet.metrics.percentage`.
    #[gin(default = None)]
    pub metric_post_process_fn: Option<Ref<Percentage>>,
    /// Method that combines F scores, precision, recall and the Jaccard index of several labels.
    #[gin(default = Average::Binary)]
    pub average: Average,
    /// The labels to average over; None means all that occur.
    #[gin(default = None)]
    pub labels: Option<Vec<ClassLabel>>,
    /// The label that counts if `average` is 'binary'.
    #[gin(default = ClassLabel::Int(1))]
    pub pos_label: ClassLabel,
    /// Weight of recall in 'fbeta_score', which has no default there.
    #[gin(default = None)]
    pub beta: Option<f64>,
    /// The value of divisions by 0: 0, 1 or NaN.
    #[gin(default = 0.0)]
    pub zero_division: f64,
}

/// The value times 100, as the t5 library does for scores between 0 and 1. Gimlet's own.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "gimlet.metrics.percentage")]
pub struct Percentage;

/// Metrics of scikit-learn, of labels or of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum SklearnMetric {
    /// Share of equal labels.
    AccuracyScore,
    /// The harmonic mean of precision and recall.
    F1Score,
    /// The same, with `beta` times as much weight on recall.
    FbetaScore,
    /// Examples of a label in both lists among those in either.
    JaccardScore,
    /// Correlation of labels, of any number of classes.
    MatthewsCorrcoef,
    /// Mean distance of numbers.
    MeanAbsoluteError,
    /// Mean squared distance of numbers.
    MeanSquaredError,
    /// Share of predictions of a label that are right.
    PrecisionScore,
    /// Share of examples of a label that are predicted.
    RecallScore,
}

/// The combination of the values of several labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum Average {
    /// The value of `pos_label` alone, of two labels.
    Binary,
    /// Counts of all labels are added up first.
    Micro,
    /// The mean of the labels' values.
    Macro,
    /// The mean of the labels' values, weighted by the number of times that each is the target.
    Weighted,
}

/// A class by its number or name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClassLabel {
    /// A number.
    Int(i64),
    /// A name.
    Text(String),
}

impl FromGin for ClassLabel {
    fn expected() -> String {
        "an int or a str".to_string()
    }

    fn from_gin(value: &GinValue, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Str(name) => Ok(Self::Text(name.clone())),
            ValueKind::Int(_) => cx.read(value).map(Self::Int),
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }

    fn to_gin(&self) -> Option<ValueKind> {
        match self {
            Self::Int(number) => number.to_gin(),
            Self::Text(name) => name.to_gin(),
        }
    }

    fn register(_: &mut Registry) {}
}

impl ClassLabel {
    fn of(pairs: &Pairs<'_>, value: &Value) -> Result<Self, MetricError> {
        match value {
            Value::String(name) => Ok(Self::Text(name.clone())),
            _ => pairs.label(value).map(Self::Int),
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Int(number) => number.to_string(),
            Self::Text(name) => format!("'{name}'"),
        }
    }
}

impl Metric for SklearnMetricsWrapper {
    fn keys(&self) -> Vec<String> {
        vec![self.metric_dict_str.as_deref().unwrap_or(self.metric_str.as_str()).to_string()]
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let value = match self.metric_str {
            SklearnMetric::AccuracyScore => pairs.share_equal() / 100.0,
            SklearnMetric::MatthewsCorrcoef => {
                Labels::read(pairs, ClassLabel::of)?.matthews_corrcoef()
            }
            SklearnMetric::MeanAbsoluteError => mean_distance(pairs, f64::abs)?,
            SklearnMetric::MeanSquaredError => mean_distance(pairs, |d| d * d)?,
            SklearnMetric::F1Score => self.averaged(pairs, |counts, or| counts.fbeta(1.0, or))?,
            SklearnMetric::FbetaScore => {
                let missing = || pairs.unfit("'fbeta_score' needs `beta`: bind it".to_string());
                let beta = self.beta.ok_or_else(missing)?;
                self.averaged(pairs, |counts, or| counts.fbeta(beta, or))?
            }
            SklearnMetric::JaccardScore => self.averaged(pairs, |counts, or| {
                ratio_or(counts.hits, counts.targets + counts.predictions - counts.hits, or)
            })?,
            SklearnMetric::PrecisionScore => {
                self.averaged(pairs, |counts, or| ratio_or(counts.hits, counts.predictions, or))?
            }
            SklearnMetric::RecallScore => {
                self.averaged(pairs, |counts, or| ratio_or(counts.hits, counts.targets, or))?
            }
        };
        let factor = if self.metric_post_process_fn.is_some() { 100.0 } else { 1.0 };
        Ok(one(&self.keys()[0], factor * value))
    }
}

impl SklearnMetricsWrapper {
    /// Returns the average of a value of each label's counts.
    fn averaged(
        &self,
        pairs: &Pairs<'_>,
        of: impl Fn(&Counts, f64) -> f64,
    ) -> Result<f64, MetricError> {
        let labels = Labels::read(pairs, ClassLabel::of)?;
        let classes = match (&self.labels, self.average) {
            (_, Average::Binary) => vec![self.positive(pairs, &labels.classes())?],
            (Some(classes), _) => classes.clone(),
            (None, _) => labels.classes(),
        };
        let counts: Vec<Counts> = classes.iter().map(|class| labels.counts(class)).collect();
        let of = |counts: &Counts| of(counts, self.zero_division);
        Ok(match self.average {
            Average::Binary => of(&counts[0]),
            Average::Micro => of(&counts.iter().sum()),
            Average::Macro => mean(counts.iter().map(|counts| (of(counts), 1.0))),
            Average::Weighted => match counts.iter().all(|counts| counts.targets == 0.0) {
                true => mean(counts.iter().map(|counts| (of(counts), 1.0))),
                false => mean(counts.iter().map(|counts| (of(counts), counts.targets))),
            },
        })
    }

    /// Returns the positive label of two.
    fn positive(
        &self,
        pairs: &Pairs<'_>,
        present: &[ClassLabel],
    ) -> Result<ClassLabel, MetricError> {
        if present.len() > 2 {
            let found = present.len();
            return Err(pairs.unfit(format!(
                "average = 'binary' takes two labels, found {found}; bind \
                 sklearn_metrics_wrapper.average to 'micro', 'macro' or 'weighted'"
            )));
        }
        if present.len() == 2 && !present.contains(&self.pos_label) {
            let [first, second] = [0, 1].map(|index| present[index].shown());
            let found = self.pos_label.shown();
            return Err(pairs.unfit(format!(
                "`pos_label` is {found}, expected one of the labels {first} and {second}"
            )));
        }
        Ok(self.pos_label.clone())
    }
}

/// Returns the weighted mean of the values that are not NaN.
fn mean(values: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (sum, weights) = values
        .filter(|(value, _)| !value.is_nan())
        .fold((0.0, 0.0), |(sum, weights), (value, weight)| {
            (sum + value * weight, weights + weight)
        });
    sum / weights
}

fn mean_distance(pairs: &Pairs<'_>, of: impl Fn(f64) -> f64) -> Result<f64, MetricError> {
    let finite = |value| match pairs.number(value)? {
        number if number.is_finite() => Ok(number),
        number => Err(pairs.unfit(format!("found {number}, expected finite numbers"))),
    };
    let mut sum = 0.0;
    for (target, prediction) in pairs.iter() {
        sum += of(finite(target)? - finite(prediction)?);
    }
    Ok(sum / pairs.len() as f64)
}
