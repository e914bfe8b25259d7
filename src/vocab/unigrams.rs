//! Whole texts, or words between spaces, as ids of a given list. Source: SeqIO `vocabularies.py`.

use std::collections::HashMap;

use super::Vocabulary;
use super::spec::UnigramVocabulary;

/// A list of tokens, with padding before it and unknown after it.
#[derive(Debug)]
pub(super) struct Unigrams {
    tokens: Vec<String>,
    ids: HashMap<String, i32>,
    split_on_space: bool,
}

impl Unigrams {
    /// Numbers the tokens.
    pub(super) fn new(spec: &UnigramVocabulary) -> Self {
        let given = spec.unigrams.iter().map(String::as_str);
        let tokens = std::iter::once("PAD").chain(given).chain(["UNK"]);
        let tokens: Vec<String> = tokens.map(str::to_string).collect();
        let ids = tokens.iter().cloned().zip(0..).collect();
        Self { tokens, ids, split_on_space: spec.split_on_space }
    }

    fn unknown(&self) -> i32 {
        self.tokens.len() as i32 - 1
    }

    fn id(&self, token: &str) -> i32 {
        self.ids.get(token).copied().unwrap_or(self.unknown())
    }
}

impl Vocabulary for Unigrams {
    fn name(&self) -> String {
        format!("UnigramVocabulary({} unigrams)", self.tokens.len() - 2)
    }

    fn vocab_size(&self) -> usize {
        self.tokens.len()
    }

    fn base_vocab_size(&self) -> usize {
        self.tokens.len()
    }

    fn bos_id(&self) -> Option<i32> {
        None
    }

    fn eos_id(&self) -> Option<i32> {
        None
    }

    fn unk_id(&self) -> Option<i32> {
        Some(self.unknown())
    }

    fn encode_into(&self, text: &str, ids: &mut Vec<i32>) {
        match self.split_on_space {
            true => ids.extend(text.split(' ').map(|token| self.id(token))),
            false => ids.push(self.id(text)),
        }
    }

    /// Returns the tokens with spaces between them, independently of the way of encoding.
    fn decode_clean(&self, ids: &[i32]) -> String {
        let token = |&id: &i32| {
            let known = usize::try_from(id).ok().and_then(|id| self.tokens.get(id));
            known.map_or("UNK", String::as_str)
        };
        ids.iter().map(token).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unigrams(split_on_space: bool) -> Unigrams {
        let unigrams = ["the", "a b", "big"].map(str::to_string).to_vec();
        Unigrams::new(&UnigramVocabulary { unigrams, split_on_space })
    }

    // The results of seqio 0.0.20 for the same calls.
    #[test]
    fn a_text_is_one_token_unless_it_is_split() {
        assert_eq!(unigrams(false).encode("the"), [1]);
        assert_eq!(unigrams(false).encode("a b"), [2]);
        assert_eq!(unigrams(false).encode("the big"), [4]);
        assert_eq!(unigrams(true).encode("the big  cat"), [1, 3, 4, 4]);
    }

    #[test]
    fn ids_become_words() {
        assert_eq!(unigrams(false).decode(&[1, 3, 0, 4, 9]), "the big PAD UNK UNK");
        assert_eq!((unigrams(false).vocab_size(), unigrams(false).unk_id()), (5, Some(4)));
    }
}
