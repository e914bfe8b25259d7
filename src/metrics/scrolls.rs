//! The scores of SCROLLS (Shaham et al. 2022, arXiv:2201.03533), of which each is the best over an example's references.
//!
//! Source: tau-nlp/scrolls, its metric on the hub. Values are rounded to four digits, as there. That metric finds the sentences
//! for `rougeLsum` by NLTK's model of English; here they end with white space after a full stop, a question or an exclamation
//! mark.

use rougers::{RougeScorer, RougeType, Scores, Tokenizer};
use serde_json::Value;

use gimlet_gin::Configurable;

use super::metric::{Metric, MetricError, Pairs, Values, named, one};
use super::python_text::is_space;
use super::question_answering::{answers_of, best_of_squad};

/// A score of SCROLLS, times 100; targets are texts or lists of references, of which the best counts.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.metrics.scrolls")]
pub struct Scrolls {
    /// The score.
    pub score: ScrollsScore,
}

/// The scores of SCROLLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum ScrollsScore {
    /// Means of ROUGE's F-measures, `rouge/rouge1`, `rouge/rouge2`, `rouge/rougeL` and `rouge/rougeLsum`, and
    /// `rouge/geometric_mean` of the first three.
    Rouge,
    /// `f1` of the tokens of answers after SQuAD's normalization.
    F1,
    /// `exact_match` of answers after SQuAD's normalization.
    ExactMatch,
}

const ROUGES: [(&str, RougeType); 4] = [
    ("rouge/rouge1", RougeType::N(1)),
    ("rouge/rouge2", RougeType::N(2)),
    ("rouge/rougeL", RougeType::L),
    ("rouge/rougeLsum", RougeType::LSum),
];

const GEOMETRIC_MEAN: &str = "rouge/geometric_mean";

impl Metric for Scrolls {
    fn keys(&self) -> Vec<String> {
        match self.score {
            ScrollsScore::Rouge => {
                named(&[&ROUGES.map(|(name, _)| name)[..], &[GEOMETRIC_MEAN]].concat())
            }
            ScrollsScore::F1 | ScrollsScore::ExactMatch => named(&[self.score.as_str()]),
        }
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let squad = || best_of_squad(pairs);
        let mut values = match self.score {
            ScrollsScore::Rouge => rouge(pairs)?,
            ScrollsScore::F1 => one("f1", squad()?.f1),
            ScrollsScore::ExactMatch => one("exact_match", squad()?.em),
        };
        values.iter_mut().for_each(|(_, value)| *value = (*value * 1e4).round_ties_even() / 1e4);
        Ok(values)
    }
}

/// Computes the means over examples of the best scores, each kind of ROUGE for itself.
fn rouge(pairs: &Pairs<'_>) -> Result<Values, MetricError> {
    let kinds = ROUGES.map(|(_, kind)| kind);
    let scorer = RougeScorer::with_tokenizer(kinds.to_vec(), Tokenizer::new(false))
        .expect("runs have one or two words");
    let mut sums = [0.0; ROUGES.len()];
    for (target, prediction) in pairs.iter() {
        let prediction = in_sentences(pairs.text(prediction)?);
        let score = |reference: &Value| {
            Ok(scorer.score(&in_sentences(pairs.text(reference)?), &prediction))
        };
        let scores: Vec<Scores> =
            answers_of(pairs, target)?.iter().map(score).collect::<Result<_, MetricError>>()?;
        for (sum, kind) in sums.iter_mut().zip(kinds) {
            let found = scores.iter().filter_map(|scores| scores.get(kind));
            *sum += found.map(|score| score.fmeasure).fold(0.0, f64::max);
        }
    }
    let means = sums.map(|sum| 100.0 * sum / pairs.len() as f64);
    let [rouge1, rouge2, rouge_l, _] = means;
    let names = ROUGES.map(|(name, _)| name.to_string());
    let mut values: Values = names.into_iter().zip(means).collect();
    values.extend(one(GEOMETRIC_MEAN, (rouge1 * rouge2 * rouge_l).cbrt()));
    Ok(values)
}

/// Puts each sentence of a text on a line of its own.
fn in_sentences(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut ends = false;
    for letter in text.chars() {
        let breaks = ends && is_space(letter);
        out.push(if breaks { '\n' } else { letter });
        ends = matches!(letter, '.' | '?' | '!') || ends && matches!(letter, '"' | '\'' | ')');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_become_lines() {
        let check = |text, expected| assert_eq!(in_sentences(text), expected);
        check("One. Two? \"Three!\" Four", "One.\nTwo?\n\"Three!\"\nFour");
        check("Version 1.5 is out", "Version 1.5 is out");
    }
}
