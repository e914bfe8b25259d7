//! BERT's WordPiece, as SeqIO uses TensorFlow Text's. Sources: SeqIO `vocabularies.py`, TensorFlow Text
//! `bert_tokenizer.py` and `wordpiece_tokenizer.py`.
//!
//! SeqIO's `encode` pads each word to as many pieces as the longest has, in a table; here the
//! pieces follow each other, as a sequence needs them. SeqIO's `decode` does not remove `##`, and
//! neither does this one.

mod basic;
mod bert;
mod more;
mod transformers;
mod unicode;
mod vocabulary;

use std::collections::HashMap;

use self::basic::BasicTokenizer;
pub use self::bert::BertTokenizer;
pub(super) use self::more::with_pieces;
pub use self::transformers::{BertFolder, bert_folds_case};
pub(super) use self::vocabulary::BertPieces;
use super::spec::BertWordPieceVocabulary;
use super::{VocabError, Vocabulary};
use gimlet_storage::Path;

/// A list of pieces, and one more id for unknown ones.
#[derive(Debug)]
pub(super) struct WordPiece {
    spec: BertWordPieceVocabulary,
    basic: BasicTokenizer,
    pieces: Vec<String>,
    ids: HashMap<String, i32>,
    /// Upper limit of the bytes of a piece, without its indicator.
    longest: usize,
    unknown: i32,
    /// The id of unknown characters that continue a word.
    unknown_suffix: i32,
}

impl WordPiece {
    /// Reads the list, one piece a line.
    pub(super) fn load(spec: &BertWordPieceVocabulary) -> Result<Self, VocabError> {
        let path = Path::parse(&spec.vocab_lookup_table)?;
        let unfit = |reason| VocabError::WordPiece { path: path.to_string(), reason };
        if spec.pad_id != 0 {
            return Err(unfit(format!("`pad_id` is {}, and rows are padded with 0", spec.pad_id)));
        }
        let text = String::from_utf8(path.read()?)
            .map_err(|_| unfit("it is not text in UTF-8".to_string()))?;
        let pieces: Vec<String> = text.lines().map(|line| line.replace('\r', "")).collect();
        let mut ids = HashMap::new();
        for (piece, id) in pieces.iter().zip(0..) {
            if let Some(first) = ids.insert(piece.clone(), id) {
                let (first, line) = (first + 1, id + 1);
                return Err(unfit(format!(
                    "lines {first} and {line} are the same piece `{piece}`"
                )));
            }
        }
        let outside = pieces.len() as i32;
        let indicator = &spec.suffix_indicator;
        let id = |piece: Option<String>| piece.and_then(|piece| ids.get(&piece).copied());
        let unknown = id(spec.unknown_token.clone()).unwrap_or(outside);
        let suffix = spec.unknown_token.as_ref().map(|token| format!("{indicator}{token}"));
        let unknown_suffix = id(suffix).unwrap_or(outside);
        Ok(Self {
            basic: BasicTokenizer::new(spec),
            spec: spec.clone(),
            longest: pieces.iter().map(String::len).max().unwrap_or(0),
            unknown,
            unknown_suffix,
            pieces,
            ids,
        })
    }

    /// Returns the id of a word that has no pieces, or is too long.
    fn unknown_word(&self, word: &str) -> i32 {
        match self.spec.unknown_token {
            Some(_) => self.unknown,
            None => self.ids.get(word).copied().unwrap_or(self.unknown),
        }
    }

    /// Cuts a word into the longest pieces from left to right.
    fn cut(&self, word: &str, ids: &mut Vec<i32>) {
        if word.len() > self.spec.max_bytes_per_word {
            ids.push(self.unknown_word(word));
            return;
        }
        let first = ids.len();
        let mut key = String::new();
        let mut start = 0;
        while start < word.len() {
            let indicator = if start == 0 { "" } else { &self.spec.suffix_indicator };
            match self.longest_piece(&word[start..], indicator, &mut key) {
                Some((id, length)) => {
                    ids.push(id);
                    start += length;
                }
                None if self.spec.split_unknown_characters => {
                    ids.push(if start == 0 { self.unknown } else { self.unknown_suffix });
                    start += word[start..].chars().next().map_or(1, char::len_utf8);
                }
                None => {
                    ids.truncate(first);
                    ids.push(self.unknown_word(word));
                    return;
                }
            }
        }
    }

    /// Returns the id and the length, without indicator, of the longest piece at the beginning of a
    /// text.
    fn longest_piece(&self, text: &str, indicator: &str, key: &mut String) -> Option<(i32, usize)> {
        let limit = match self.spec.max_chars_per_token {
            Some(limit) => text.char_indices().nth(limit).map_or(text.len(), |(at, _)| at),
            None => text.len(),
        };
        key.clear();
        key.push_str(indicator);
        key.push_str(&text[..text.floor_char_boundary(limit.min(self.longest))]);
        while key.len() > indicator.len() {
            if let Some(&id) = self.ids.get(key) {
                return Some((id, key.len() - indicator.len()));
            }
            key.pop();
        }
        None
    }
}

impl Vocabulary for WordPiece {
    fn name(&self) -> String {
        format!("BertWordPieceVocabulary(file={})", self.spec.vocab_lookup_table)
    }

    fn vocab_size(&self) -> usize {
        self.base_vocab_size()
    }

    /// Returns the number of pieces, and one more id for unknown ones.
    fn base_vocab_size(&self) -> usize {
        self.pieces.len() + 1
    }

    fn bos_id(&self) -> Option<i32> {
        None
    }

    fn eos_id(&self) -> Option<i32> {
        i32::try_from(self.spec.end_of_sequence_id).ok()
    }

    fn unk_id(&self) -> Option<i32> {
        Some(self.unknown)
    }

    fn content(&self) -> Option<Vec<u8>> {
        Some(self.pieces.join("\n").into_bytes())
    }

    fn encode_into(&self, text: &str, ids: &mut Vec<i32>) {
        self.basic.words(text, |word| self.cut(word, ids));
    }

    fn decode_clean(&self, ids: &[i32]) -> String {
        let pieces: Vec<String> = ids.iter().map(|&id| self.piece(id)).collect();
        let words = pieces.iter().map(|piece| piece.trim_matches(' '));
        words.filter(|piece| !piece.is_empty()).collect::<Vec<_>>().join(" ")
    }

    fn piece(&self, id: i32) -> String {
        let known = usize::try_from(id).ok().and_then(|id| self.pieces.get(id));
        let unknown = self.spec.unknown_token.as_deref().unwrap_or("[UNK]");
        known.map_or(unknown, String::as_str).to_string()
    }
}
