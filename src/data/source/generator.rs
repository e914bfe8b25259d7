//! Examples that are functions of their numbers.

use std::collections::BTreeMap;

use crate::example::Example;
use crate::random::{Draw, StageSeed};
use crate::value::{Key, Value};
use gimlet_gin::Configurable;

/// Syllables of which words are made.
const CONSONANTS: &[u8] = b"bdfgklmnprstvz";
const VOWELS: &[u8] = b"aeiou";
/// Number of words of which texts are made.
const NUM_WORDS: f64 = 50_000.0;

/// The kind of values of a generated feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum GeneratedKind {
    /// Text of made-up words; frequent words are short.
    Words,
    /// Token ids, uniform.
    Ids,
}

/// The distribution of lengths between the minimum and the maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum LengthDistribution {
    /// Every length is equally likely.
    Uniform,
    /// Every order of magnitude is equally likely: many short examples, few long ones.
    LogUniform,
}

/// Random examples, a function of seed, split and number alone: no file is read, and any position
/// is reached without delay. Gimlet's own.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.GeneratedDataSource")]
pub struct GeneratedDataSource {
    /// Split to its number of examples.
    pub num_examples: BTreeMap<String, u64>,
    /// The kind of values of the features: 'words' or 'ids'.
    #[gin(default = GeneratedKind::Words)]
    pub kind: GeneratedKind,
    /// Names of the features, each drawn independently.
    #[gin(default = vec!["text".to_string()])]
    pub features: Vec<String>,
    /// Minimum number of words or ids of a feature.
    #[gin(default = 1)]
    pub min_length: usize,
    /// Maximum number of words or ids of a feature.
    #[gin(default = 512)]
    pub max_length: usize,
    /// The distribution of lengths between them: 'uniform' or 'log_uniform'.
    #[gin(default = LengthDistribution::LogUniform)]
    pub length_distribution: LengthDistribution,
    /// Upper bound of the ids, which are below it and above 1; id 1 ends sequences.
    #[gin(default = 32000)]
    pub vocab_size: usize,
    /// Another seed gives other examples.
    #[gin(default = 0)]
    pub seed: u64,
}

/// Makes the examples of a split.
#[derive(Clone, PartialEq)]
pub(super) struct Generator {
    spec: GeneratedDataSource,
    features: Vec<Key>,
    seed: StageSeed,
}

impl Generator {
    pub(super) fn new(spec: GeneratedDataSource, split: &str) -> Self {
        let features = spec.features.iter().map(|name| Key::from(&name[..])).collect();
        let seed = StageSeed::new(spec.seed, &format!("generated/{split}"));
        Self { spec, features, seed }
    }

    /// The example of that number, from 0.
    pub(super) fn example(&self, number: u64) -> Example {
        let mut draw = self.seed.draw(number);
        let value = |key: &Key| (key.clone(), self.value(&mut draw));
        self.features.iter().map(value).collect()
    }

    fn value(&self, draw: &mut Draw) -> Value {
        let length = self.length(draw);
        match self.spec.kind {
            GeneratedKind::Ids => {
                let id = |_| 2 + draw.below(self.spec.vocab_size - 2) as i32;
                Value::Ints((0..length).map(id).collect())
            }
            GeneratedKind::Words => {
                let mut text = String::new();
                for i in 0..length {
                    if i > 0 {
                        text.push(' ');
                    }
                    push_word(draw, &mut text);
                }
                Value::Text(text)
            }
        }
    }

    fn length(&self, draw: &mut Draw) -> usize {
        let (least, most) = (self.spec.min_length, self.spec.max_length);
        match self.spec.length_distribution {
            LengthDistribution::Uniform => least + draw.below(most - least + 1),
            LengthDistribution::LogUniform => {
                let (low, high) = (((least + 1) as f64).ln(), ((most + 2) as f64).ln());
                let length = (low + draw.unit() * (high - low)).exp() as usize - 1;
                length.clamp(least, most)
            }
        }
    }
}

/// A word whose rank is distributed by Zipf's law.
fn push_word(draw: &mut Draw, text: &mut String) {
    let mut rank = NUM_WORDS.powf(draw.unit()) as usize;
    while rank > 0 {
        text.push(char::from(CONSONANTS[rank % CONSONANTS.len()]));
        rank /= CONSONANTS.len();
        text.push(char::from(VOWELS[rank % VOWELS.len()]));
        rank /= VOWELS.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_is_a_function_of_its_number() {
        let source = GeneratedDataSource {
            num_examples: BTreeMap::from([("train".to_string(), 10)]),
            kind: GeneratedKind::Ids,
            features: vec!["inputs".to_string(), "targets".to_string()],
            min_length: 3,
            max_length: 9,
            length_distribution: LengthDistribution::LogUniform,
            vocab_size: 100,
            seed: 1,
        };
        let generator =
            |seed| Generator::new(GeneratedDataSource { seed, ..source.clone() }, "train");
        let (one, other) = (generator(1), generator(2));
        for number in 0..200 {
            let example = one.example(number);
            assert_eq!(example, one.example(number));
            assert_ne!(example, other.example(number));
            let ids = example.ints("targets").unwrap();
            assert!((3..=9).contains(&ids.len()) && ids.iter().all(|id| (2..100).contains(id)));
        }
    }
}
