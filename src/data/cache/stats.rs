//! `stats.{split}.json`: numbers of examples, tokens and characters. Source: SeqIO `beam_utils.py`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::DataError;
use crate::example::Example;
use crate::task::Task;
use crate::value::Value;
use gimlet_vocab::{PAD_ID, Vocabulary, VocabularySpec};

/// Counts by their names in the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Stats(BTreeMap<String, u64>);

impl Stats {
    pub(super) fn examples(&self) -> u64 {
        self.0.get("examples").copied().unwrap_or(0)
    }

    pub(super) fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// Adds the counts of other examples.
    pub(super) fn join(&mut self, other: &Self) {
        for (name, count) in &other.0 {
            match name.ends_with("_max_tokens") {
                true => self.raise(name.clone(), *count),
                false => self.add(name.clone(), *count),
            }
        }
    }

    fn add(&mut self, name: String, count: u64) {
        *self.0.entry(name).or_insert(0) += count;
    }

    fn raise(&mut self, name: String, count: u64) {
        let known = self.0.entry(name).or_insert(0);
        *known = count.max(*known);
    }
}

/// Counts examples, their tokens and characters.
pub(super) struct Counter {
    features: Vec<Counted>,
    /// Whether characters are counted too; ids are then decoded.
    counts_chars: bool,
}

struct Counted {
    name: String,
    vocabulary: Arc<dyn Vocabulary>,
    is_sentencepiece: bool,
}

impl Counter {
    pub(super) fn new(task: &Task, counts_chars: bool) -> Result<Self, DataError> {
        let counted = task.output_features.iter().map(|(name, feature)| {
            let is_sentencepiece = matches!(feature.vocabulary, VocabularySpec::SentencePiece(_));
            let vocabulary = feature.vocabulary.build()?;
            Ok(Counted { name: name.clone(), vocabulary, is_sentencepiece })
        });
        Ok(Self { features: counted.collect::<Result<_, DataError>>()?, counts_chars })
    }

    pub(super) fn count(&self, example: &Example, stats: &mut Stats) {
        stats.add("examples".to_string(), 1);
        for Counted { name, vocabulary, is_sentencepiece } in &self.features {
            let value = example.get(name);
            if let Some(Value::Ints(ids)) = value {
                let counts = |id: &&i32| **id != PAD_ID && Some(**id) != vocabulary.eos_id();
                let tokens = ids.iter().filter(counts).count() as u64;
                stats.add(format!("{name}_tokens"), tokens);
                stats.raise(format!("{name}_max_tokens"), tokens);
            }
            let chars = match value {
                Some(Value::Text(text)) if self.counts_chars => text.chars().count(),
                Some(Value::Ints(ids)) if self.counts_chars && *is_sentencepiece => {
                    vocabulary.decode(ids).chars().count()
                }
                _ => continue,
            };
            stats.add(format!("{name}_chars"), chars as u64);
        }
    }
}
