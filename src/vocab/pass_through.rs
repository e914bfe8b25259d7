//! Ids that are in the data already.

use super::Vocabulary;
use super::spec::PassThroughVocabulary;

impl Vocabulary for PassThroughVocabulary {
    fn name(&self) -> String {
        let eos = self.eos_id.map_or("None".to_string(), |id| id.to_string());
        format!("PassThroughVocabulary(size={}, eos_id={eos})", self.size)
    }

    fn vocab_size(&self) -> usize {
        self.size
    }

    fn base_vocab_size(&self) -> usize {
        self.size
    }

    fn bos_id(&self) -> Option<i32> {
        None
    }

    fn eos_id(&self) -> Option<i32> {
        self.eos_id.and_then(|id| i32::try_from(id).ok())
    }

    fn unk_id(&self) -> Option<i32> {
        None
    }

    fn takes_ids(&self) -> bool {
        true
    }

    /// Inverts decoding: decimal ids between spaces; other words have no id.
    fn encode_into(&self, text: &str, ids: &mut Vec<i32>) {
        ids.extend(text.split_whitespace().filter_map(|word| word.parse::<i32>().ok()));
    }

    /// The ids in decimal, between spaces.
    fn decode_clean(&self, ids: &[i32]) -> String {
        let words: Vec<String> = ids.iter().map(i32::to_string).collect();
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_pass_through_up_to_eos() {
        let vocabulary = PassThroughVocabulary { size: 10, eos_id: Some(1) };
        assert_eq!(vocabulary.decode(&[7, 12, 1, 5]), "7 12 1");
        assert_eq!(vocabulary.encode("7 12 1"), [7, 12, 1]);
    }
}
