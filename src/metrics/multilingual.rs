//! Metrics of mT5's fine-tuning tasks. Source: mT5 `evaluation/metrics.py`.

use std::sync::LazyLock;

use fancy_regex::Regex;

use gimlet_gin::Configurable;

use super::metric::{Metric, MetricError, Pairs, Values, named, one};
use super::python_text::words;
use super::question_answering::{em_and_f1, word_runs};

/// Exact match and F1 (`em`, `f1`, times 100) of answers in one of MLQA's languages, after its
/// normalization; targets are lists of answers.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "multilingual_t5.evaluation.metrics.mlqa")]
pub struct Mlqa {
    /// The language.
    pub lang: MlqaLanguage,
}

/// MLQA's languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum MlqaLanguage {
    /// Arabic.
    Ar,
    /// German.
    De,
    /// English.
    En,
    /// Spanish.
    Es,
    /// Hindi.
    Hi,
    /// Vietnamese.
    Vi,
    /// Chinese.
    Zh,
}

impl Metric for Mlqa {
    fn keys(&self) -> Vec<String> {
        named(&["em", "f1"])
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        em_and_f1(pairs, |text| normalize(text, self.lang))
    }
}

/// Converts to lower case, and removes punctuation, articles and superfluous space.
fn normalize(text: &str, language: MlqaLanguage) -> String {
    static PUNCTUATION: LazyLock<Regex> = LazyLock::new(|| {
        // Among ASCII characters, symbols such as `$` count as punctuation.
        Regex::new(r"[\p{P}$+<=>^`|~]").expect("the pattern is well-formed")
    });
    let lower = text.to_lowercase();
    let text = without_articles(&PUNCTUATION.replace_all(&lower, ""), language);
    match language {
        MlqaLanguage::Zh => chinese_words(&text),
        _ => words(&text).collect::<Vec<_>>().join(" "),
    }
}

fn without_articles(text: &str, language: MlqaLanguage) -> String {
    let articles: &[&str] = match language {
        MlqaLanguage::En => &["a", "an", "the"],
        MlqaLanguage::Es => &["un", "una", "unos", "unas", "el", "la", "los", "las"],
        MlqaLanguage::Vi => &["của", "là", "cái", "chiếc", "những"],
        MlqaLanguage::De => &[
            "ein", "eine", "einen", "einem", "eines", "einer", "der", "die", "das", "den", "dem",
            "des",
        ],
        // The letters of the article, anywhere in the text.
        MlqaLanguage::Ar => return text.replace("ال", " "),
        MlqaLanguage::Hi | MlqaLanguage::Zh => return text.to_string(),
    };
    let run = |run| if articles.contains(&run) { " " } else { run };
    word_runs(text).map(run).collect()
}

/// Separates Chinese characters, each of which is a word.
fn chinese_words(text: &str) -> String {
    let mut spaced = String::with_capacity(2 * text.len());
    for c in text.chars() {
        match c {
            '\u{4e00}'..='\u{9fa5}' => spaced.extend([' ', c, ' ']),
            _ => spaced.push(c),
        }
    }
    words(&spaced).collect::<Vec<_>>().join(" ")
}

/// F1 of named entities: `span_f1`, not times 100. Texts are entities `PER: rick`, separated by
/// ` $$ `.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "multilingual_t5.evaluation.metrics.span_f1")]
pub struct SpanF1;

impl Metric for SpanF1 {
    fn keys(&self) -> Vec<String> {
        named(&["span_f1"])
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let (mut right, mut wrong, mut missed) = (0.0, 0.0, 0.0);
        for (target, prediction) in pairs.iter() {
            let mut gold = spans(pairs.text(target)?);
            for span in spans(pairs.text(prediction)?) {
                match gold.iter().position(|known| *known == span) {
                    Some(index) => {
                        gold.remove(index);
                        right += 1.0;
                    }
                    None => wrong += 1.0,
                }
            }
            missed += gold.len() as f64;
        }
        // As in the original, which avoids a division by 0 in this way.
        const TINY: f64 = 1e-13;
        let precision = right / (right + wrong + TINY);
        let recall = right / (right + missed + TINY);
        Ok(one("span_f1", 2.0 * (precision * recall / (precision + recall + TINY))))
    }
}

/// Returns tags with their entities; omits texts that are no such pair.
fn spans(text: &str) -> Vec<(&str, &str)> {
    let pairs = text.split(" $$ ").filter_map(|span| span.split_once(':'));
    let pairs = pairs.filter(|(_, entity)| !entity.contains(':'));
    pairs.map(|(tag, entity)| (tag.trim(), entity.trim())).collect()
}
