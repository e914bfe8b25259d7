//! Metrics of scores: areas under curves, and classification by the likeliest of several targets.
//!
//! Sources: t5 `evaluation/metrics.py`; scikit-learn's definitions of the curves.

use serde_json::Value;

use gimlet_gin::Configurable;

use super::labels::Counts;
use super::metric::{Metric, MetricError, ModelOutput, Pairs, Values, named, one};

/// Areas under the ROC and the precision-recall curve of predicted numbers: `auc-roc`, `auc-pr`, between
/// 0 and 1. Targets are 0 or 1.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.auc")]
pub struct Auc {
    /// Targets below it count as 0, the others as 1.
    #[gin(default = None)]
    pub targets_threshold: Option<f64>,
}

impl Metric for Auc {
    fn keys(&self) -> Vec<String> {
        named(&["auc-roc", "auc-pr"])
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        areas(pairs, self.targets_threshold)
    }
}

/// The same as `auc`, for the model's scores.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.score_auc")]
pub struct ScoreAuc {
    /// Targets below it count as 0, the others as 1.
    #[gin(default = None)]
    pub targets_threshold: Option<f64>,
}

impl Metric for ScoreAuc {
    fn keys(&self) -> Vec<String> {
        named(&["auc-roc", "auc-pr"])
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        areas(pairs, self.targets_threshold)
    }

    fn model_output(&self) -> ModelOutput {
        ModelOutput::Score
    }
}

fn areas(pairs: &Pairs<'_>, threshold: Option<f64>) -> Result<Values, MetricError> {
    // The same rule as in scikit-learn's `check_array`.
    let scores = pairs.read(pairs.predictions, |pairs, value| match pairs.number(value)? {
        score if score.is_finite() => Ok(score),
        score => Err(pairs.unfit(format!("a prediction is {score}, expected a finite number"))),
    })?;
    let targets = pairs.read(pairs.targets, |pairs, value| match threshold {
        // NaN is not below the threshold.
        Some(threshold) => pairs.number(value).map(|number| number.is_nan() || number >= threshold),
        None => match pairs.label(value)? {
            label @ (0 | 1) => Ok(label == 1),
            _ => Err(pairs.mismatch("a target of 0 or 1", value)),
        },
    })?;
    let scored = scores.into_iter().zip(targets);
    let points =
        scored.map(|(score, is_positive)| Point { score, is_positive, weight: 1.0 }).collect();
    let (roc, pr) = areas_under_curves(points);
    Ok(vec![("auc-roc".to_string(), roc), ("auc-pr".to_string(), pr)])
}

/// A scored example.
struct Point {
    score: f64,
    is_positive: bool,
    weight: f64,
}

/// Returns the areas under the ROC and the precision-recall curve; the first is NaN if all targets
/// are the same, the second 0 if none is positive.
fn areas_under_curves(mut points: Vec<Point>) -> (f64, f64) {
    points.sort_by(|a, b| b.score.total_cmp(&a.score));
    let weight = |points: &[Point], positive: bool| -> f64 {
        let of_class = points.iter().filter(|point| point.is_positive == positive);
        of_class.map(|point| point.weight).sum()
    };
    let (positives, negatives) = (weight(&points, true), weight(&points, false));
    let (mut hits, mut false_alarms, mut roc, mut pr) = (0.0, 0.0, 0.0, 0.0);
    // Examples of the same score are one step of the curve.
    for tied in points.chunk_by(|a, b| a.score == b.score) {
        let (more_hits, more_false_alarms) = (weight(tied, true), weight(tied, false));
        roc += more_false_alarms * (hits + more_hits / 2.0);
        hits += more_hits;
        false_alarms += more_false_alarms;
        if hits > 0.0 {
            pr += more_hits * hits / (hits + false_alarms);
        }
    }
    (roc / (positives * negatives), if positives == 0.0 { 0.0 } else { pr / positives })
}

/// The most probable of each example's targets against its correct one, times 100: `accuracy`; with
/// two classes also `f1`, `auc-roc` and `auc-pr` of class 1, with more `mean_{n}class_f1`.
///
/// Targets come from the postprocessor `rank_classification`: `(idx, is_correct, weight, length)`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.rank_classification")]
pub struct RankClassification {
    /// Number of targets of every example; None if it varies.
    #[gin(default = None)]
    pub num_classes: Option<usize>,
    /// Divides scores by the number of target tokens.
    #[gin(default = false)]
    pub normalize_by_target_length: bool,
    /// Numbers in `idx`: of the example, of the target.
    #[gin(default = 2)]
    pub idx_len: usize,
}

/// One of the targets of an example.
struct Choice {
    idx: Vec<i64>,
    is_correct: bool,
    weight: f64,
    score: f64,
}

impl Metric for RankClassification {
    fn keys(&self) -> Vec<String> {
        named(&["accuracy"])
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let mut choices = Vec::with_capacity(pairs.len());
        for (target, score) in pairs.iter() {
            choices.push(self.choice(pairs, target, pairs.number(score)?)?);
        }
        choices.sort_by(|a, b| a.idx.cmp(&b.idx));
        match self.num_classes {
            None | Some(0) => Ok(one("accuracy", accuracy_of_groups(&choices))),
            Some(classes) if choices.len() % classes == 0 => Ok(of_classes(&choices, classes)),
            Some(classes) => {
                let found = choices.len();
                let reason = format!("expected {classes} targets of every example, found {found}");
                Err(pairs.unfit(format!("{reason} in all")))
            }
        }
    }

    fn model_output(&self) -> ModelOutput {
        ModelOutput::Score
    }
}

impl RankClassification {
    fn choice(&self, pairs: &Pairs<'_>, target: &Value, score: f64) -> Result<Choice, MetricError> {
        let parts = target.as_array().map(Vec::as_slice).unwrap_or_default();
        let [idx, is_correct, weight, length] = parts else {
            let found = parts.len();
            let reason = format!("`targets` should contain 4 elements but has {found}: {target}");
            return Err(pairs.unfit(reason));
        };
        let numbers = idx.as_array().map(Vec::as_slice).unwrap_or_default();
        if numbers.len() != self.idx_len {
            let reason = format!(
                "the first element of `targets` ('idx') should be {}-dimensional, found {idx}",
                self.idx_len
            );
            return Err(pairs.unfit(reason));
        }
        let length = if self.normalize_by_target_length { pairs.number(length)? } else { 1.0 };
        Ok(Choice {
            idx: pairs.read(numbers, Pairs::label)?,
            is_correct: pairs.label(is_correct)? != 0,
            weight: pairs.number(weight)?,
            score: score / length,
        })
    }
}

/// Returns the index of the first of the highest scores.
fn best<T: PartialOrd>(scores: impl Iterator<Item = T>) -> usize {
    let mut best: Option<(usize, T)> = None;
    for (index, score) in scores.enumerate() {
        if best.as_ref().is_none_or(|(_, highest)| score > *highest) {
            best = Some((index, score));
        }
    }
    best.map_or(0, |(index, _)| index)
}

/// Computes the accuracy; an example has the choices with the same first number of `idx`.
fn accuracy_of_groups(choices: &[Choice]) -> f64 {
    let (mut correct, mut total) = (0.0, 0.0);
    for group in choices.chunk_by(|a, b| a.idx.first() == b.idx.first()) {
        let chosen = &group[best(group.iter().map(|choice| choice.score))];
        correct += if chosen.is_correct { chosen.weight } else { 0.0 };
        total += chosen.weight;
    }
    100.0 * correct / total
}

/// An example with all of its choices, in the order of the classes.
struct Classified<'a> {
    choices: &'a [Choice],
    chosen: usize,
}

impl Classified<'_> {
    fn weight(&self) -> f64 {
        self.choices[0].weight
    }

    fn is_chosen_correct(&self) -> bool {
        self.choices[self.chosen].is_correct
    }

    /// Returns the share of a class in the likelihoods of all, in 32 bits as t5 computes it.
    fn probability(&self, class: usize) -> f64 {
        let scores = self.choices.iter().map(|choice| choice.score as f32);
        let highest = scores.clone().fold(f32::NEG_INFINITY, f32::max);
        let likelihoods: Vec<f32> = scores.map(|score| (score - highest).exp()).collect();
        f64::from(likelihoods[class] / likelihoods.iter().sum::<f32>())
    }
}

fn of_classes(choices: &[Choice], num_classes: usize) -> Values {
    let examples: Vec<Classified<'_>> = choices
        .chunks(num_classes)
        .map(|choices| {
            let chosen = best(choices.iter().map(|choice| choice.score as f32));
            Classified { choices, chosen }
        })
        .collect();
    let total: f64 = examples.iter().map(Classified::weight).sum();
    let share = |is_right: &dyn Fn(&Classified<'_>) -> bool| {
        let right = examples.iter().filter(|example| is_right(example));
        100.0 * right.map(Classified::weight).sum::<f64>() / total
    };
    let num_correct = |example: &Classified<'_>| {
        example.choices.iter().filter(|choice| choice.is_correct).count()
    };
    if examples.iter().any(|example| num_correct(example) > 1) {
        return one("accuracy", share(&|example| example.is_chosen_correct()));
    }
    let is_right =
        |example: &Classified<'_>| num_correct(example) == 1 && example.is_chosen_correct();
    let mut values = one("accuracy", share(&is_right));
    if num_classes > 2 {
        let classes = 0..num_classes;
        let sum: f64 = classes.map(|class| f1_of_class(&examples, class)).sum();
        values.push((format!("mean_{num_classes}class_f1"), 100.0 * sum / num_classes as f64));
    } else {
        values.extend(of_two_classes(&examples));
    }
    values
}

/// Returns F1 of a class, with weighted examples.
fn f1_of_class(examples: &[Classified<'_>], class: usize) -> f64 {
    let weigh = |is_counted: &dyn Fn(&Classified<'_>) -> bool| -> f64 {
        examples.iter().filter(|example| is_counted(example)).map(Classified::weight).sum()
    };
    let counts = Counts {
        hits: weigh(&|e| e.choices[class].is_correct && e.chosen == class),
        targets: weigh(&|e| e.choices[class].is_correct),
        predictions: weigh(&|e| e.chosen == class),
    };
    counts.f1()
}

/// Returns metrics of class 1. An example without a correct choice counts as class 0.
fn of_two_classes(examples: &[Classified<'_>]) -> Values {
    let is_positive =
        |example: &Classified<'_>| example.choices.get(1).is_some_and(|c| c.is_correct);
    let points = examples.iter().map(|example| Point {
        score: example.probability(example.choices.len() - 1),
        is_positive: is_positive(example),
        weight: example.weight(),
    });
    let (roc, pr) = areas_under_curves(points.collect());
    let f1 = f1_of_class(examples, examples[0].choices.len() - 1);
    [("f1", f1), ("auc-roc", roc), ("auc-pr", pr)]
        .map(|(key, value)| (key.to_string(), 100.0 * value))
        .into()
}
