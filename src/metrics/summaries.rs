//! ROUGE (Lin 2004) as `rouge-score` counts it.
//!
//! Source: t5 `evaluation/metrics.py`. Words are runs of ASCII letters and digits, not stemmed.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rougers::{RougeScorer, RougeType, Scores, Tokenizer};
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
    Ngrams(u8),
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

    fn variant(self) -> RougeType {
        match self {
            Self::Ngrams(words) => RougeType::N(words),
            Self::L => RougeType::L,
            Self::Lsum => RougeType::LSum,
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
    let variants = keys.iter().map(|key| key.variant()).collect();
    let scorer = RougeScorer::with_tokenizer(variants, Tokenizer::new(false))
        .expect("keys have 1 to 9 words");
    let both = targets.iter().zip(&predictions);
    let scores: Vec<Scores> = both.map(|(t, p)| scorer.score(t, p)).collect();
    let value = |key: &RougeKey| {
        let found = scores.iter().filter_map(|scores| scores.get(key.variant()));
        let found: Vec<f64> = found.map(|score| score.fmeasure).collect();
        (key.name(), 100.0 * aggregate(&found))
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
