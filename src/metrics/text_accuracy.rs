//! Accuracy of restored texts, position by position.

use gimlet_gin::Configurable;

use super::metric::{Metric, MetricError, Pairs, Values, named};

/// Shares of words and of characters that equal those of the target at the same position, times 100: `word_accuracy` and
/// `char_accuracy`. Words end at white space; missing and surplus ones count as wrong. It suits texts of which letters
/// are restored, such as diacritics. Gimlet's own.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "gimlet.metrics.text_accuracy")]
pub struct TextAccuracy;

impl Metric for TextAccuracy {
    fn keys(&self) -> Vec<String> {
        named(&["word_accuracy", "char_accuracy"])
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let (mut words, mut chars) = (Hits::default(), Hits::default());
        for (target, prediction) in pairs.iter() {
            let (target, prediction) = (pairs.text(target)?, pairs.text(prediction)?);
            words.add(target.split_whitespace(), prediction.split_whitespace());
            chars.add(target.chars(), prediction.chars());
        }
        let values = [("word_accuracy", words.share()), ("char_accuracy", chars.share())];
        Ok(values.map(|(key, value)| (key.to_string(), value)).into())
    }
}

/// Positions of all texts, and those where target and prediction agree.
#[derive(Default)]
struct Hits {
    equal: usize,
    all: usize,
}

impl Hits {
    fn add<T: PartialEq>(
        &mut self,
        mut target: impl Iterator<Item = T>,
        mut prediction: impl Iterator<Item = T>,
    ) {
        loop {
            match (target.next(), prediction.next()) {
                (None, None) => return,
                (target, prediction) => {
                    self.all += 1;
                    self.equal += usize::from(target == prediction);
                }
            }
        }
    }

    /// Returns the percentage of equal positions; texts that are all empty agree.
    fn share(&self) -> f64 {
        if self.all == 0 { 100.0 } else { 100.0 * self.equal as f64 / self.all as f64 }
    }
}
