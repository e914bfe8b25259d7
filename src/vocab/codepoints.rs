//! Unicode characters as ids: all of them, or a given set. Source: SeqIO `vocabularies.py`.

use std::collections::HashMap;

use super::bytes::NUM_SPECIAL;
use super::spec::{FullCodepointVocabulary, PartialCodepointVocabulary};
use super::{PieceText, Vocabulary};

const LARGEST: usize = 0x10ffff;
/// Characters of the private use area for EOS and unknown.
const EOS: u32 = 0xe005;
const UNKNOWN: u32 = 0xe004;

/// Returns the displayed character of an id, with a replacement for ids that are no character.
fn character(codepoint: u32) -> char {
    char::from_u32(codepoint).unwrap_or(char::REPLACEMENT_CHARACTER)
}

impl Vocabulary for FullCodepointVocabulary {
    fn name(&self) -> String {
        "FullCodepointVocabulary()".to_string()
    }

    fn vocab_size(&self) -> usize {
        LARGEST + self.extra_ids
    }

    fn base_vocab_size(&self) -> usize {
        LARGEST
    }

    fn bos_id(&self) -> Option<i32> {
        None
    }

    fn eos_id(&self) -> Option<i32> {
        Some(EOS as i32)
    }

    fn unk_id(&self) -> Option<i32> {
        None
    }

    fn encode_into(&self, text: &str, ids: &mut Vec<i32>) {
        ids.extend(text.chars().map(|c| c as i32));
    }

    /// Replaces ids that are no character by U+FFFD; SeqIO fails on them.
    fn decode_clean(&self, ids: &[i32]) -> String {
        let known = ids.iter().filter(|&&id| id != EOS as i32);
        known.map(|&id| character(u32::try_from(id).unwrap_or(u32::MAX))).collect()
    }

    fn piece(&self, id: i32) -> String {
        match id == EOS as i32 {
            true => "</s>".to_string(),
            false => self.decode_clean(&[id]),
        }
    }
}

/// A set of characters with ids from 3.
#[derive(Debug)]
pub(super) struct PartialCodepoints {
    ids: HashMap<u32, i32>,
    codepoints: Vec<u32>,
    extra_ids: usize,
}

impl PartialCodepoints {
    /// Numbers the characters, each at its first occurrence.
    pub(super) fn new(spec: &PartialCodepointVocabulary) -> Self {
        let mut out =
            Self { ids: HashMap::new(), codepoints: Vec::new(), extra_ids: spec.extra_ids };
        let given = spec.codepoints.iter().map(|&c| u32::try_from(c).unwrap_or(u32::MAX));
        for codepoint in [0, EOS, UNKNOWN].into_iter().chain(given) {
            let next = out.codepoints.len() as i32;
            if *out.ids.entry(codepoint).or_insert(next) == next {
                out.codepoints.push(codepoint);
            }
        }
        out
    }
}

impl Vocabulary for PartialCodepoints {
    fn name(&self) -> String {
        let given = self.codepoints.len() - 3;
        format!("PartialCodepointVocabulary({given} codepoints, extra_ids={})", self.extra_ids)
    }

    fn vocab_size(&self) -> usize {
        self.base_vocab_size() + self.extra_ids
    }

    fn base_vocab_size(&self) -> usize {
        self.codepoints.len()
    }

    fn bos_id(&self) -> Option<i32> {
        None
    }

    fn eos_id(&self) -> Option<i32> {
        Some(1)
    }

    fn unk_id(&self) -> Option<i32> {
        Some(2)
    }

    fn piece_texts(&self) -> Result<Vec<Option<PieceText>>, String> {
        let given = self.codepoints.iter().skip(NUM_SPECIAL);
        let text = |c: char| PieceText::everywhere(c.to_string().into_bytes());
        let given = given.map(|codepoint| char::from_u32(*codepoint).map(text));
        let none = |count| std::iter::repeat_n(None, count);
        Ok(none(NUM_SPECIAL).chain(given).chain(none(self.extra_ids)).collect())
    }

    fn encode_into(&self, text: &str, ids: &mut Vec<i32>) {
        ids.extend(text.chars().map(|c| self.ids.get(&(c as u32)).copied().unwrap_or(2)));
    }

    fn decode_clean(&self, ids: &[i32]) -> String {
        let codepoint = |&id: &i32| {
            let known = usize::try_from(id).ok().and_then(|id| self.codepoints.get(id));
            known.copied().unwrap_or(UNKNOWN)
        };
        ids.iter().map(codepoint).filter(|&c| c != EOS).map(character).collect()
    }

    fn piece(&self, id: i32) -> String {
        match id {
            0 => "<pad>".to_string(),
            1 => "</s>".to_string(),
            2 => "<unk>".to_string(),
            id => self.decode_clean(&[id]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The results of seqio 0.0.20 for the same calls.
    #[test]
    fn all_characters_are_ids() {
        let all = FullCodepointVocabulary { extra_ids: 0 };
        assert_eq!(all.encode("aé🤗"), [97, 233, 129303]);
        assert_eq!((all.vocab_size(), all.eos_id(), all.unk_id()), (1114111, Some(57349), None));
        assert_eq!(all.decode(&[97, 57349, 98]), "a");
        assert_eq!(all.decode(&[97, 0xd800, -1]), "a\u{fffd}\u{fffd}");
    }

    #[test]
    fn a_set_of_characters_counts_from_three() {
        let spec = PartialCodepointVocabulary { codepoints: vec![97, 98, 97, 0], extra_ids: 3 };
        let some = PartialCodepoints::new(&spec);
        assert_eq!(some.encode("abc\0"), [3, 4, 2, 0]);
        assert_eq!(some.vocab_size(), 8);
        assert_eq!(some.decode(&[3, 4, 1, 3]), "ab");
        assert_eq!(some.decode(&[3, 4, 2, 0, 9]), "ab\u{e004}\0\u{e004}");
    }
}
