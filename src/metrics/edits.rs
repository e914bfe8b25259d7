//! The number of words that must change. Source: t5 `evaluation/metrics.py`.

use std::sync::LazyLock;

use fancy_regex::Regex;

use gimlet_gin::Configurable;

use super::metric::{Metric, MetricError, Pairs, Values, named};

/// The separators of words: Python's `\W`.
static NO_WORD: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[^\p{L}\p{N}_]").expect("the pattern is well-formed"));

/// Words to insert, delete or replace: `min_edit`, `max_edit`, `mean_edit`, `median_edit`,
/// `sum_edit`. Words end at any character that is not a letter, digit or underscore.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.edit_distance")]
pub struct EditDistance {
    /// Ignore case.
    #[gin(default = true)]
    pub lower: bool,
}

impl Metric for EditDistance {
    fn keys(&self) -> Vec<String> {
        named(&["min_edit", "max_edit", "mean_edit", "median_edit", "sum_edit"])
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let read = |value| {
            let text = pairs.text(value)?;
            Ok(if self.lower { text.to_lowercase() } else { text.to_string() })
        };
        let mut edits = Vec::with_capacity(pairs.targets.len());
        for (target, prediction) in pairs.iter() {
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
        let values = [
            ("min_edit", edits[0] as f64),
            ("max_edit", edits[edits.len() - 1] as f64),
            ("mean_edit", sum as f64 / edits.len() as f64),
            ("median_edit", median),
            ("sum_edit", sum as f64),
        ];
        Ok(values.map(|(key, value)| (key.to_string(), value)).into())
    }
}

/// Cuts the text at every character that is not part of a word; two in a row leave an empty word.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = 0;
    // The pattern needs no backtracking, so that matching cannot fail.
    for found in NO_WORD.find_iter(text).flatten() {
        words.push(&text[start..found.start()]);
        start = found.end();
    }
    words.push(&text[start..]);
    words
}

/// Returns Levenshtein's distance.
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
