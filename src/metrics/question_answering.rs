//! Exact match and token F1 of answers, best over the accepted ones.
//!
//! Source: the t5 library, `t5/evaluation/qa_utils.py`.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use gimlet_gin::Configurable;

use super::metric::{Metric, MetricError, Pairs, Values, named, one};
use super::python_text::{is_word, whole_number, words};

/// Exact match and F1 (`em`, `f1`, times 100) after SQuAD's normalization; targets are lists of answers.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.squad")]
pub struct Squad;

/// Exact match and F1 (`em`, `f1`, times 100) after TriviaQA's normalization; targets are lists of
/// answers.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.trivia_qa")]
pub struct TriviaQa;

/// The same as `squad`, for answers given by position: a prediction `start: 3 end: 6` means those
/// words of the target's `context`. Targets are dicts of `answers` and `context`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.span_squad")]
pub struct SpanSquad;

/// F1 of the words of conversational answers, times 100: `f1`; targets are lists of answers.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.coqa_f1")]
pub struct CoqaF1;

/// Percentage of questions whose prediction is exactly the answers of one annotator: `recall`, over
/// the `golden_answers` questions that enough annotators have answered. Targets are lists of groups
/// of answers, predictions of one group. Source: `t5_cbqa`'s `metrics.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5_cbqa.metrics.natural_questions")]
pub struct NaturalQuestions {
    /// Number of annotators that must have answered.
    #[gin(default = 2)]
    pub non_null_threshold: usize,
    /// Whether answers are normalized as in SQuAD.
    #[gin(default = true)]
    pub normalize_answers: bool,
}

impl Metric for NaturalQuestions {
    fn keys(&self) -> Vec<String> {
        named(&["recall", "golden_answers"])
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let (mut answered, mut right) = (0.0, 0.0);
        for (target, prediction) in pairs.iter() {
            let mut targets = self.groups(pairs, target)?;
            targets.retain(|group| !group.is_empty());
            let [predicted] = &self.groups(pairs, prediction)?[..] else {
                return Err(pairs.mismatch("a list of one group of answers", prediction));
            };
            if targets.len() >= self.non_null_threshold {
                answered += 1.0;
                right += f64::from(u8::from(targets.contains(predicted)));
            }
        }
        if answered == 0.0 {
            return Err(MetricError::NoExamples { metric: pairs.metric });
        }
        Ok(vec![
            ("recall".to_string(), right / answered * 100.0),
            ("golden_answers".to_string(), answered),
        ])
    }
}

impl NaturalQuestions {
    fn groups(
        &self,
        pairs: &Pairs<'_>,
        value: &Value,
    ) -> Result<Vec<BTreeSet<String>>, MetricError> {
        let lists = |value: &Value| value.as_array().cloned();
        let unfit = || pairs.mismatch("a list of groups of answers", value);
        let answer = |answer: &Value| {
            let text = pairs.text(answer)?;
            Ok(if self.normalize_answers { normalize_squad(text) } else { text.to_string() })
        };
        let group = |group: &Value| {
            lists(group).ok_or_else(unfit)?.iter().map(answer).collect::<Result<_, _>>()
        };
        lists(value).ok_or_else(unfit)?.iter().map(group).collect()
    }
}

impl Metric for Squad {
    fn keys(&self) -> Vec<String> {
        named(&["em", "f1"])
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        em_and_f1(pairs, normalize_squad)
    }
}

impl Metric for TriviaQa {
    fn keys(&self) -> Vec<String> {
        named(&["em", "f1"])
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        em_and_f1(pairs, |text| normalize(text, "‘’´`_", Some(' ')))
    }
}

impl Metric for SpanSquad {
    fn keys(&self) -> Vec<String> {
        named(&["em", "f1"])
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let (mut targets, mut predictions) = (Vec::new(), Vec::new());
        for (target, prediction) in pairs.iter() {
            let context = word_runs_only(pairs.text(pairs.field(target, "context")?)?);
            targets.push(pairs.field(target, "answers")?.clone());
            let places = word_runs_only(pairs.text(prediction)?);
            predictions.push(Value::String(words_at(&context, &places)));
        }
        let pairs = Pairs { metric: pairs.metric, targets: &targets, predictions: &predictions };
        em_and_f1(&pairs, normalize_squad)
    }
}

impl Metric for CoqaF1 {
    fn keys(&self) -> Vec<String> {
        named(&["f1"])
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let mean = best_over_answers(pairs, normalize_squad, |answer, prediction| {
            let both_empty = answer.is_empty() && prediction.is_empty();
            if both_empty { 1.0 } else { token_f1(answer, prediction) }
        })?;
        Ok(one("f1", mean))
    }
}

/// Returns the words from the second to the fourth of `places`; an empty text if those are no
/// numbers.
fn words_at(context: &[&str], places: &[&str]) -> String {
    let [_, start, _, end, ..] = places else { return String::new() };
    let (Some(start), Some(end)) = (whole_number(start), whole_number(end)) else {
        return String::new();
    };
    let end = end.saturating_add(1).min(context.len());
    context.get(start..end).unwrap_or_default().join(" ")
}

/// Returns the runs of letters, digits and underscores.
fn word_runs_only(text: &str) -> Vec<&str> {
    word_runs(text).filter(|run| run.starts_with(is_word)).collect()
}

/// Normalizes an answer as SQuAD does: lower case, without punctuation of ASCII, articles and superfluous white space.
pub fn normalize_squad(text: &str) -> String {
    normalize(text, "", None)
}

/// Exact match and F1, times 100.
pub(super) struct EmAndF1 {
    pub em: f64,
    pub f1: f64,
}

/// Computes both after SQuAD's normalization.
pub(super) fn best_of_squad(pairs: &Pairs<'_>) -> Result<EmAndF1, MetricError> {
    scores(pairs, normalize_squad)
}

/// Exact match and F1 of tokens between spaces, after a normalization.
pub(super) fn em_and_f1(
    pairs: &Pairs<'_>,
    normalize: impl Fn(&str) -> String,
) -> Result<Values, MetricError> {
    let EmAndF1 { em, f1 } = scores(pairs, normalize)?;
    Ok(vec![("em".to_string(), em), ("f1".to_string(), f1)])
}

fn scores(pairs: &Pairs<'_>, normalize: impl Fn(&str) -> String) -> Result<EmAndF1, MetricError> {
    let is_equal = |answer: &str, prediction: &str| f64::from(u8::from(answer == prediction));
    Ok(EmAndF1 {
        em: best_over_answers(pairs, &normalize, is_equal)?,
        f1: best_over_answers(pairs, &normalize, token_f1)?,
    })
}

/// Returns the accepted answers of a target: a text, or a list of at least one.
pub(super) fn answers_of<'a>(
    pairs: &Pairs<'_>,
    target: &'a Value,
) -> Result<&'a [Value], MetricError> {
    match target {
        Value::Array(answers) if !answers.is_empty() => Ok(answers),
        Value::String(_) => Ok(std::slice::from_ref(target)),
        _ => Err(pairs.mismatch("a list of answers", target)),
    }
}

/// Returns the mean over examples of the best of the answers' scores, times 100.
fn best_over_answers(
    pairs: &Pairs<'_>,
    normalize: impl Fn(&str) -> String,
    score: impl Fn(&str, &str) -> f64,
) -> Result<f64, MetricError> {
    let mut sum = 0.0;
    for (target, prediction) in pairs.iter() {
        let prediction = normalize(pairs.text(prediction)?);
        let mut best = 0.0_f64;
        for answer in answers_of(pairs, target)? {
            best = best.max(score(&normalize(pairs.text(answer)?), &prediction));
        }
        sum += best;
    }
    Ok(100.0 * sum / pairs.len() as f64)
}

/// Converts to lower case, and removes articles, punctuation and superfluous space.
fn normalize(text: &str, more_punctuation: &str, replacement: Option<char>) -> String {
    let is_punctuation = |c: char| c.is_ascii_punctuation() || more_punctuation.contains(c);
    let lower = text.to_lowercase();
    let kept = lower.chars().filter_map(|c| if is_punctuation(c) { replacement } else { Some(c) });
    let kept: String = kept.collect();
    let mut without_articles = String::new();
    for run in word_runs(&kept) {
        without_articles.push_str(if matches!(run, "a" | "an" | "the") { " " } else { run });
    }
    words(&without_articles).collect::<Vec<_>>().join(" ")
}

/// Cuts the text into runs of word characters and runs of others.
pub(super) fn word_runs(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let word = is_word(rest.chars().next()?);
        let end = rest.find(|c| is_word(c) != word).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        rest = after;
        Some(run)
    })
}

/// Returns the harmonic mean of the shares of tokens that the texts have in common.
fn token_f1(target: &str, prediction: &str) -> f64 {
    let mut left: HashMap<&str, usize> = HashMap::new();
    for token in words(target) {
        *left.entry(token).or_default() += 1;
    }
    let mut common = 0.0;
    for token in words(prediction) {
        if let Some(count) = left.get_mut(token).filter(|count| **count > 0) {
            *count -= 1;
            common += 1.0;
        }
    }
    if common == 0.0 {
        return 0.0;
    }
    let precision = common / words(prediction).count() as f64;
    let recall = common / words(target).count() as f64;
    2.0 * precision * recall / (precision + recall)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::metric_fn::MetricFn;
    use super::*;

    /// Cases and values of t5's `metrics_test.py`.
    fn check(metric: MetricFn, targets: Value, predictions: Value, em: f64, f1: f64) {
        let (targets, predictions) = (targets.as_array().unwrap(), predictions.as_array().unwrap());
        let found = metric.compute(targets, predictions).unwrap();
        assert!((found["em"] - em).abs() < 1e-9, "em {}", found["em"]);
        assert!((found["f1"] - f1).abs() < 1e-9, "f1 {}", found["f1"]);
    }

    fn big() -> (Value, Value) {
        let targets =
            json!([["big moose", "hippo"], ["correct1"], ["correct2.1", "correct2.2"], ["a", "b"]]);
        (targets, json!(["‘a big  Moose!‘", "wrong", "correct2.2", "c"]))
    }

    #[test]
    fn squad_keeps_quotation_marks_that_are_not_ascii() {
        let (targets, predictions) = big();
        check(MetricFn::Squad(Squad), targets, predictions, 25.0, 35.0);
    }

    #[test]
    fn trivia_qa_drops_them() {
        let (targets, predictions) = big();
        check(MetricFn::TriviaQa(TriviaQa), targets, predictions, 50.0, 50.0);
    }

    #[test]
    fn squad_takes_the_best_answer() {
        let text = "this is a string";
        let squad = || MetricFn::Squad(Squad);
        check(squad(), json!([["", text], [text, text]]), json!([text, text]), 100.0, 100.0);
        check(squad(), json!([[text, text]]), json!([""]), 0.0, 0.0);
        check(squad(), json!([["abc abd", "$$$$"]]), json!(["abd"]), 0.0, 200.0 / 3.0);
    }

    #[test]
    fn a_target_without_answers_is_named() {
        let error = MetricFn::Squad(Squad).compute(&[json!(3)], &[json!("a")]).unwrap_err();
        assert!(error.to_string().contains("expected a list of answers, found 3"));
    }
}
