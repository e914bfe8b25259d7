//! BERT's WordPiece as Megatron-LM and Hugging Face's transformers cut text. TensorFlow Text's, which `seqio.BertWordPieceVocabulary` has, differs:
//! it replaces control characters by spaces, folds case further and counts the bytes of long words. Source: Megatron-LM
//! `bert_tokenization.py`.

use std::collections::HashMap;

use super::basic::is_ideograph;
use super::transformers::{is_tokenizer, pieces};
use super::unicode::{Form, is_control, is_nonspacing_mark, is_punctuation, normalize};
use crate::VocabError;
use gimlet_storage::Path;

/// Tokens that transformers find in texts as they stand.
pub(super) const SPECIAL_TOKENS: [&str; 5] = ["[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"];
pub(super) const UNKNOWN: &str = "[UNK]";
pub(super) const CONTINUES: &str = "##";
/// Words with more characters are unknown to transformers.
pub(super) const LONGEST_WORD: usize = 100;

/// A list of pieces, and the rules by which text is cut into them.
#[derive(Debug)]
pub struct BertTokenizer {
    pieces: Vec<String>,
    ids: HashMap<String, i32>, // of equal pieces the last one's
    unknown: i32,
    lower_case: bool,
    /// Words with more characters are unknown.
    longest_word: usize,
    /// Upper limit of the bytes of a piece.
    longest_piece: usize,
    /// Special tokens with their ids, where they are found in texts.
    special: Vec<(&'static str, i32)>,
}

impl BertTokenizer {
    /// The tokenizer `BertWordPieceLowerCase`, or with `lower_case` false `BertWordPieceCase`, of Megatron-LM, which cuts special tokens in texts
    /// like other words.
    ///
    /// # Errors
    /// The list of pieces, one a line or a `tokenizer.json`, cannot be read, or lacks `[UNK]`.
    pub fn of_megatron(vocab: &Path, lower_case: bool) -> Result<Self, VocabError> {
        Self::new(vocab, lower_case, 200)
    }

    /// The tokenizer `BertTokenizerFast` of transformers.
    ///
    /// # Errors
    /// Those of [`BertTokenizer::of_megatron`].
    pub fn of_transformers(vocab: &Path, lower_case: bool) -> Result<Self, VocabError> {
        let mut made = Self::new(vocab, lower_case, LONGEST_WORD)?;
        let id = |token: &'static str| Some((token, *made.ids.get(token)?));
        made.special = SPECIAL_TOKENS.into_iter().filter_map(id).collect();
        Ok(made)
    }

    fn new(vocab: &Path, lower_case: bool, longest_word: usize) -> Result<Self, VocabError> {
        let pieces = read_pieces(vocab)?;
        let ids: HashMap<String, i32> = pieces.iter().cloned().zip(0..).collect();
        let Some(&unknown) = ids.get(UNKNOWN) else {
            return Err(VocabError::WordPiece {
                path: vocab.to_string(),
                reason: format!("it has no piece `{UNKNOWN}`"),
            });
        };
        let longest_piece = pieces.iter().map(String::len).max().unwrap_or(0);
        let special = Vec::new();
        Ok(Self { pieces, ids, unknown, lower_case, longest_word, longest_piece, special })
    }

    /// Number of pieces.
    pub fn num_pieces(&self) -> usize {
        self.ids.len()
    }

    /// The id of a piece, if it is in the list.
    pub fn id(&self, piece: &str) -> Option<i32> {
        self.ids.get(piece).copied()
    }

    /// The pieces in the order of their ids.
    pub(super) fn pieces(&self) -> &[String] {
        &self.pieces
    }

    /// The ids of a text.
    pub fn encode(&self, text: &str) -> Vec<i32> {
        let mut ids = Vec::new();
        let mut rest = text;
        while let Some((at, token, id)) = self.first_special(rest) {
            self.encode_plain(&rest[..at], &mut ids);
            ids.push(id);
            rest = &rest[at + token.len()..];
        }
        self.encode_plain(rest, &mut ids);
        ids
    }

    fn first_special(&self, text: &str) -> Option<(usize, &'static str, i32)> {
        let found =
            self.special.iter().filter_map(|(token, id)| Some((text.find(token)?, *token, *id)));
        found.min_by_key(|(at, ..)| *at)
    }

    fn encode_plain(&self, text: &str, ids: &mut Vec<i32>) {
        for word in clean(text).split_whitespace() {
            let word = if self.lower_case { lower(word) } else { word.to_string() };
            let mut rest = &word[..];
            while let Some(first) = rest.chars().next() {
                let end = match is_punctuation(first) {
                    true => first.len_utf8(),
                    false => rest.find(is_punctuation).unwrap_or(rest.len()),
                };
                let (part, behind) = rest.split_at(end);
                part.split_whitespace().for_each(|part| self.cut(part, ids));
                rest = behind;
            }
        }
    }

    /// Cuts a word into the longest pieces from left to right; it is unknown as a whole if that fails.
    fn cut(&self, word: &str, ids: &mut Vec<i32>) {
        let first = ids.len();
        let mut rest = word;
        let mut is_known = word.chars().count() <= self.longest_word;
        while is_known && !rest.is_empty() {
            let indicator = if rest.len() == word.len() { "" } else { CONTINUES };
            match self.longest_piece(indicator, rest) {
                Some((id, length)) => {
                    ids.push(id);
                    rest = &rest[length..];
                }
                None => is_known = false,
            }
        }
        if !is_known {
            ids.truncate(first);
            ids.push(self.unknown);
        }
    }

    /// The id of the longest piece at the beginning of a text, and its length in the text in bytes.
    fn longest_piece(&self, indicator: &str, text: &str) -> Option<(i32, usize)> {
        let most = text.floor_char_boundary(self.longest_piece.min(text.len()));
        let mut piece = format!("{indicator}{}", &text[..most]);
        while piece.len() > indicator.len() {
            if let Some(id) = self.ids.get(&piece) {
                return Some((*id, piece.len() - indicator.len()));
            }
            piece.pop();
        }
        None
    }
}

fn read_pieces(path: &Path) -> Result<Vec<String>, VocabError> {
    match is_tokenizer(path) {
        true => pieces(path),
        false => {
            let text = String::from_utf8(path.read()?).map_err(|_| VocabError::WordPiece {
                path: path.to_string(),
                reason: "it is not text in UTF-8".to_string(),
            })?;
            Ok(text.lines().map(|line| line.trim().to_string()).collect())
        }
    }
}

/// Drops control characters, puts spaces around ideographs and in place of other spaces.
fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' | '\n' | '\r' => out.push(' '),
            '\0' | '\u{fffd}' => {}
            c if is_control(c) => {}
            c if is_ideograph(c) => out.extend([' ', c, ' ']),
            c => out.push(c),
        }
    }
    out
}

/// The word in small letters, without accents.
fn lower(word: &str) -> String {
    if word.is_ascii() {
        return word.to_ascii_lowercase();
    }
    let lower = word.to_lowercase();
    normalize(&lower, Form::Nfd).chars().filter(|&c| !is_nonspacing_mark(c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECES: &str =
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\nab\n##é\n.\n中\ncafe\nCafé\n[\n]\nmask\n";

    fn tokenizers() -> (tempfile::TempDir, [BertTokenizer; 3]) {
        let folder = tempfile::tempdir().unwrap();
        let path = Path::try_from(folder.path()).unwrap().join("vocab.txt");
        path.write_atomic(PIECES.as_bytes()).unwrap();
        let made = [
            BertTokenizer::of_megatron(&path, true).unwrap(),
            BertTokenizer::of_megatron(&path, false).unwrap(),
            BertTokenizer::of_transformers(&path, true).unwrap(),
        ];
        (folder, made)
    }

    /// Ids worked out from the rules of the source.
    #[test]
    fn words_are_cut_into_the_longest_pieces() {
        let (_folder, [lower, cased, hugging_face]) = tokenizers();
        assert_eq!(lower.encode(" abb a.b\tx \u{ad}a\u{ad}b"), [7, 6, 5, 9, 1, 1, 7]);
        assert_eq!(lower.encode("Café 中a"), [11, 10, 5]);
        assert_eq!(cased.encode("Café CAFE"), [12, 1]);
        assert_eq!(lower.encode("[MASK]"), [13, 15, 14]);
        assert_eq!(hugging_face.encode("a[MASK]a"), [5, 4, 5]);
        let long = format!("a{}", "b".repeat(100));
        assert_eq!(hugging_face.encode(&long), [1]);
        assert_eq!(lower.encode(&long).len(), 100);
        assert_eq!(lower.encode(&format!("a{}", "b".repeat(200))), [1]);
        assert!(lower.encode("  ").is_empty());
    }

    #[test]
    fn lists_without_unknown_pieces_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = Path::try_from(folder.path()).unwrap().join("vocab.txt");
        path.write_atomic(b"a\n").unwrap();
        let error = BertTokenizer::of_megatron(&path, true).unwrap_err().to_string();
        assert!(error.contains("it has no piece `[UNK]`"), "{error}");
    }
}
