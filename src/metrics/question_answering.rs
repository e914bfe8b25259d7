//! Exact match and token F1 of answers, best over the accepted ones.
//!
//! Source: the t5 library, `t5/evaluation/qa_utils.py`.

use std::collections::HashMap;

use serde_json::Value;

use crate::gin::Configurable;

use super::task::{MetricError, Pairs};

/// Exact match and F1 (`em`, `f1`, times 100) after SQuAD's normalization; targets are lists of answers.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.squad")]
pub struct Squad;

/// Exact match and F1 (`em`, `f1`, times 100) after TriviaQA's normalization; targets are lists of
/// answers.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.trivia_qa")]
pub struct TriviaQa;

impl Squad {
    pub(super) fn compute(
        &self,
        pairs: &Pairs<'_>,
    ) -> Result<Vec<(&'static str, f64)>, MetricError> {
        best_over_answers(pairs, |text| normalize(text, "", None))
    }
}

impl TriviaQa {
    pub(super) fn compute(
        &self,
        pairs: &Pairs<'_>,
    ) -> Result<Vec<(&'static str, f64)>, MetricError> {
        best_over_answers(pairs, |text| normalize(text, "‘’´`_", Some(' ')))
    }
}

fn best_over_answers(
    pairs: &Pairs<'_>,
    normalize: impl Fn(&str) -> String,
) -> Result<Vec<(&'static str, f64)>, MetricError> {
    let (mut exact, mut f1) = (0.0, 0.0);
    for (target, prediction) in pairs.targets.iter().zip(pairs.predictions) {
        let prediction = normalize(pairs.text(prediction)?);
        let answers = match target {
            Value::Array(answers) if !answers.is_empty() => answers.as_slice(),
            Value::String(_) => std::slice::from_ref(target),
            _ => return Err(pairs.mismatch("a list of answers", target)),
        };
        let (mut matched, mut best) = (false, 0.0_f64);
        for answer in answers {
            let answer = normalize(pairs.text(answer)?);
            matched |= answer == prediction;
            best = best.max(token_f1(&answer, &prediction));
        }
        exact += f64::from(u8::from(matched));
        f1 += best;
    }
    let count = pairs.targets.len() as f64;
    Ok(vec![("em", 100.0 * exact / count), ("f1", 100.0 * f1 / count)])
}

/// Lower case, without articles, punctuation and superfluous space.
fn normalize(text: &str, more_punctuation: &str, replacement: Option<char>) -> String {
    let is_punctuation = |c: char| c.is_ascii_punctuation() || more_punctuation.contains(c);
    let lower = text.to_lowercase();
    let kept = lower.chars().filter_map(|c| if is_punctuation(c) { replacement } else { Some(c) });
    let kept: String = kept.collect();
    let mut without_articles = String::new();
    for run in word_runs(&kept) {
        without_articles.push_str(if matches!(run, "a" | "an" | "the") { " " } else { run });
    }
    tokens(&without_articles).collect::<Vec<_>>().join(" ")
}

/// The text cut into runs of word characters and runs of others.
fn word_runs(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = text;
    std::iter::from_fn(move || {
        let word = is_word(rest.chars().next()?);
        let end = rest.find(|c| is_word(c) != word).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        rest = after;
        Some(run)
    })
}

/// The harmonic mean of the shares of tokens that the texts have in common.
fn token_f1(target: &str, prediction: &str) -> f64 {
    let mut left: HashMap<&str, usize> = HashMap::new();
    for token in tokens(target) {
        *left.entry(token).or_default() += 1;
    }
    let mut common = 0.0;
    for token in tokens(prediction) {
        if let Some(count) = left.get_mut(token).filter(|count| **count > 0) {
            *count -= 1;
            common += 1.0;
        }
    }
    if common == 0.0 {
        return 0.0;
    }
    let precision = common / tokens(prediction).count() as f64;
    let recall = common / tokens(target).count() as f64;
    2.0 * precision * recall / (precision + recall)
}

/// Python's `str.split()`, for which the ASCII separators are space too.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let is_space = |c: char| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c);
    text.split(is_space).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::task::MetricFn;
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
