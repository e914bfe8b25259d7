//! ROUGE (Lin 2004) as `rouge-score` counts it.
//!
//! Sources: t5 `evaluation/metrics.py`; rouge-score `rouge_scorer.py`, `tokenize.py`, `scoring.py`. Words
//! are runs of ASCII letters and digits, not stemmed.

use std::collections::{BTreeSet, HashMap};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::Value;

use gimlet_gin::{Configurable, Evaluator, FromGin, Reported, ValueKind};

use super::metric::{Metric, MetricError, Pairs, Values};

/// Number of samples of the bootstrap.
const NUM_SAMPLES: usize = 1000;

/// F-measures times 100, each the median of the means of 1000 samples of the examples, as t5 reports them:
/// `rouge1`, `rouge2`, `rougeLsum`. The samples are the same in every run.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.rouge")]
pub struct Rouge {
    /// The scores to compute: `rouge1` to `rouge9`, `rougeL`, `rougeLsum`.
    #[gin(default = default_keys())]
    pub score_keys: Vec<RougeKey>,
}

/// F-measures times 100, the means over the examples: `rouge1`, `rouge2`, `rougeLsum`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.rouge_mean")]
pub struct RougeMean {
    /// The scores to compute: `rouge1` to `rouge9`, `rougeL`, `rougeLsum`.
    #[gin(default = default_keys())]
    pub score_keys: Vec<RougeKey>,
}

/// A kind of ROUGE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RougeKey {
    /// Common runs of so many words.
    Ngrams(usize),
    /// The longest common subsequence.
    L,
    /// The union of the longest common subsequences of sentences, which are lines.
    Lsum,
}

fn default_keys() -> Vec<RougeKey> {
    vec![RougeKey::Ngrams(1), RougeKey::Ngrams(2), RougeKey::Lsum]
}

impl RougeKey {
    fn name(self) -> String {
        match self {
            Self::Ngrams(words) => format!("rouge{words}"),
            Self::L => "rougeL".to_string(),
            Self::Lsum => "rougeLsum".to_string(),
        }
    }

    fn score(self, target: &str, prediction: &str) -> f64 {
        let (target_words, predicted_words) = (tokens(target), tokens(prediction));
        match self {
            Self::Ngrams(words) => {
                ngram_score(target_words.windows(words), predicted_words.windows(words))
            }
            Self::L => {
                let common = common_subsequence(&target_words, &predicted_words).len();
                f_measure(common, target_words.len(), predicted_words.len())
            }
            Self::Lsum => summary_score(&sentences(target), &sentences(prediction)),
        }
    }
}

impl FromGin for RougeKey {
    fn expected() -> String {
        "'rouge1' to 'rouge9', 'rougeL' or 'rougeLsum'".to_string()
    }

    fn from_gin(value: &gimlet_gin::Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        let ValueKind::Str(name) = &value.kind else {
            return Err(cx.mismatch(value, &Self::expected()));
        };
        let known = (1..=9).map(Self::Ngrams).chain([Self::L, Self::Lsum]);
        let found = known.into_iter().find(|key| key.name() == *name);
        found.ok_or_else(|| cx.unfit(value, &Self::expected(), &format!("'{name}'")))
    }

    fn to_gin(&self) -> Option<ValueKind> {
        Some(ValueKind::Str(self.name()))
    }
}

impl Metric for Rouge {
    fn keys(&self) -> Vec<String> {
        self.score_keys.iter().map(|key| key.name()).collect()
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        values(&self.score_keys, pairs, bootstrap)
    }
}

impl Metric for RougeMean {
    fn keys(&self) -> Vec<String> {
        self.score_keys.iter().map(|key| key.name()).collect()
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        values(&self.score_keys, pairs, mean)
    }
}

fn values(
    keys: &[RougeKey],
    pairs: &Pairs<'_>,
    aggregate: fn(&[f64]) -> f64,
) -> Result<Values, MetricError> {
    let prepared = |pairs: &Pairs<'_>, value: &Value| {
        // Sentences end in spaced full stops, and those of `rougeLsum` in line breaks.
        Ok(pairs.text(value)?.replace(" . ", " .\n"))
    };
    let targets = pairs.read(pairs.targets, prepared)?;
    let predictions = pairs.read(pairs.predictions, prepared)?;
    let value = |key: &RougeKey| {
        let both = targets.iter().zip(&predictions);
        let scores: Vec<f64> = both.map(|(t, p)| key.score(t, p)).collect();
        (key.name(), 100.0 * aggregate(&scores))
    };
    Ok(keys.iter().map(value).collect())
}

fn mean(scores: &[f64]) -> f64 {
    scores.iter().sum::<f64>() / scores.len() as f64
}

/// Returns the median of the means of samples.
fn bootstrap(scores: &[f64]) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(0);
    let count = scores.len() as u64;
    let mut sample = || {
        let drawn = (0..count).map(|_| {
            let index = (u64::from(random.next_u32()) * count) >> 32;
            scores[index as usize]
        });
        drawn.sum::<f64>() / scores.len() as f64
    };
    let mut means: Vec<f64> = (0..NUM_SAMPLES).map(|_| sample()).collect();
    means.sort_by(f64::total_cmp);
    (means[NUM_SAMPLES / 2 - 1] + means[NUM_SAMPLES / 2]) / 2.0
}

fn tokens(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let runs = lower.split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit()));
    runs.filter(|run| !run.is_empty()).map(str::to_string).collect()
}

/// Returns the words of each line.
fn sentences(text: &str) -> Vec<Vec<String>> {
    text.split('\n').filter(|line| !line.is_empty()).map(tokens).collect()
}

fn f_measure(common: usize, num_target: usize, num_predicted: usize) -> f64 {
    let share = |of: usize| if of == 0 { 0.0 } else { common as f64 / of as f64 };
    let (precision, recall) = (share(num_predicted), share(num_target));
    let sum = precision + recall;
    if sum > 0.0 { 2.0 * precision * recall / sum } else { 0.0 }
}

fn ngram_score<'a>(
    targets: impl ExactSizeIterator<Item = &'a [String]>,
    predictions: impl ExactSizeIterator<Item = &'a [String]>,
) -> f64 {
    let (num_targets, num_predictions) = (targets.len(), predictions.len());
    let mut left: HashMap<&[String], usize> = HashMap::new();
    targets.for_each(|ngram| *left.entry(ngram).or_default() += 1);
    let mut common = 0;
    for ngram in predictions {
        if let Some(count) = left.get_mut(ngram).filter(|count| **count > 0) {
            *count -= 1;
            common += 1;
        }
    }
    f_measure(common, num_targets, num_predictions)
}

/// Returns the indices of `target` in one of the longest subsequences that it shares with `other`.
fn common_subsequence(target: &[String], other: &[String]) -> Vec<usize> {
    let columns = other.len() + 1;
    let mut table = vec![0_usize; (target.len() + 1) * columns];
    let at = |row: usize, column: usize| row * columns + column;
    for (i, word) in target.iter().enumerate() {
        for (j, candidate) in other.iter().enumerate() {
            table[at(i + 1, j + 1)] = match word == candidate {
                true => table[at(i, j)] + 1,
                false => table[at(i, j + 1)].max(table[at(i + 1, j)]),
            };
        }
    }
    let (mut i, mut j) = (target.len(), other.len());
    let mut indices = Vec::new();
    while i > 0 && j > 0 {
        if target[i - 1] == other[j - 1] {
            indices.push(i - 1);
            (i, j) = (i - 1, j - 1);
        } else if table[at(i, j - 1)] > table[at(i - 1, j)] {
            j -= 1;
        } else {
            i -= 1;
        }
    }
    indices
}

/// Computes ROUGE-Lsum: each word counts as often as it occurs in both summaries.
fn summary_score(target: &[Vec<String>], prediction: &[Vec<String>]) -> f64 {
    let count = |sentences: &[Vec<String>]| {
        let mut counts: HashMap<String, usize> = HashMap::new();
        sentences.iter().flatten().for_each(|word| *counts.entry(word.clone()).or_default() += 1);
        counts
    };
    let (mut of_target, mut of_prediction) = (count(target), count(prediction));
    let mut hits = 0;
    for sentence in target {
        let union: BTreeSet<usize> =
            prediction.iter().flat_map(|other| common_subsequence(sentence, other)).collect();
        for index in union {
            let word = &sentence[index];
            let left = (of_target.get_mut(word), of_prediction.get_mut(word));
            if let (Some(in_target @ 1..), Some(in_prediction @ 1..)) = left {
                (*in_target, *in_prediction) = (*in_target - 1, *in_prediction - 1);
                hits += 1;
            }
        }
    }
    let num_words = |sentences: &[Vec<String>]| sentences.iter().map(Vec::len).sum();
    f_measure(hits, num_words(target), num_words(prediction))
}
