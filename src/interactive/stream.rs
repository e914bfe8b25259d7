//! Text that grows by tokens: only what later tokens cannot change is shown.

use crate::vocab::Vocabulary;

/// The character that stands for bytes that are no text yet.
const INCOMPLETE: char = '\u{fffd}';

/// The text of tokens that come one after another.
#[derive(Debug, Default)]
pub struct TextStream {
    ids: Vec<i32>,
    shown: String,
}

impl TextStream {
    /// A stream of the text that tokens add to the one of those before them.
    pub fn after(ids: &[i32], vocabulary: &dyn Vocabulary) -> Self {
        let text = vocabulary.decode(ids);
        Self { ids: ids.to_vec(), shown: text.trim_end_matches(INCOMPLETE).to_string() }
    }

    /// Adds a token, and returns the text that it completes, which may be nothing: pieces decode together, because a
    /// piece says whether a space precedes it, and a character may be spread over several bytes.
    pub fn push(&mut self, id: i32, vocabulary: &dyn Vocabulary) -> String {
        self.ids.push(id);
        let text = vocabulary.decode(&self.ids);
        let text = text.trim_end_matches(INCOMPLETE);
        // The last word may still move to the one before it.
        let is_open = vocabulary.cleans_up();
        let end = text.rfind(' ').filter(|_| is_open).unwrap_or(text.len());
        self.show(&text[..end])
    }

    /// Returns the rest of the whole text, bytes that are no text included.
    pub fn finish(&mut self, whole: &str) -> String {
        self.show(whole)
    }

    fn show(&mut self, text: &str) -> String {
        let Some(more) = text.strip_prefix(&self.shown) else { return String::new() };
        let more = more.to_string();
        self.shown.push_str(&more);
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocab::{ByteVocabulary, SentencePieceVocabulary, VocabularySpec};

    fn check(vocabulary: &VocabularySpec, text: &str, expected: &[&str]) {
        let vocabulary = vocabulary.build().expect("the vocabulary is there");
        let mut stream = TextStream::default();
        let ids = vocabulary.encode(text);
        let shown: Vec<String> = ids.iter().map(|id| stream.push(*id, &*vocabulary)).collect();
        assert_eq!(shown, expected);
        assert_eq!(stream.finish(&vocabulary.decode(&ids)), "");
    }

    #[test]
    fn a_character_is_shown_when_its_last_byte_has_come() {
        let bytes = VocabularySpec::Byte(ByteVocabulary::of(0));
        check(&bytes, "a€b", &["a", "", "", "€", "b"]);
    }

    #[test]
    fn pieces_are_joined_with_their_spaces() {
        let model = concat!(env!("CARGO_MANIFEST_DIR"), "/runs/quickstart/data/botchan.model");
        let vocabulary = VocabularySpec::SentencePiece(SentencePieceVocabulary {
            sentencepiece_model_file: model.to_string(),
            extra_ids: 0,
            reverse_extra_ids: true,
            normalizer_spec_overrides: None,
        });
        let built = vocabulary.build().expect("the vocabulary is there");
        let mut stream = TextStream::default();
        let ids = built.encode("I have been at the school");
        let shown: Vec<String> = ids.iter().map(|id| stream.push(*id, &*built)).collect();
        assert_eq!(shown.concat(), "I have been at the school");
        assert!(shown.iter().filter(|text| text.starts_with(' ')).count() >= 5, "{shown:?}");
    }

    #[test]
    fn bytes_that_never_become_text_come_at_the_end() {
        let vocabulary = VocabularySpec::Byte(ByteVocabulary::of(0));
        let vocabulary = vocabulary.build().expect("it needs no file");
        let mut stream = TextStream::default();
        let ids = [vocabulary.encode("a"), vec![0xe2 + 3]].concat();
        let shown: Vec<String> = ids.iter().map(|id| stream.push(*id, &*vocabulary)).collect();
        assert_eq!(shown, ["a", ""]);
        assert_eq!(stream.finish(&vocabulary.decode(&ids)), vocabulary.decode(&ids)[1..]);
    }
}
