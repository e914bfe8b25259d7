//! A BERT's tokenizer of transformers as a vocabulary.

use super::bert::BertTokenizer;
use crate::spec::BertVocabulary;
use crate::{VocabError, Vocabulary, no_piece};
use gimlet_storage::Path;

/// The tokens of a list, cut as transformers cut them, with those that begin and end a row.
#[derive(Debug)]
pub(in super::super) struct BertPieces {
    spec: BertVocabulary,
    tokenizer: BertTokenizer,
    begin: i32,
    end: i32,
    unknown: i32,
}

impl BertPieces {
    /// Reads the list.
    pub(in super::super) fn load(spec: &BertVocabulary) -> Result<Self, VocabError> {
        let path = Path::parse(&spec.vocab_file)?;
        let tokenizer = BertTokenizer::of_transformers(&path, spec.lower_case)?;
        let id = |piece: &str| {
            let reason = format!("it has no piece `{piece}`");
            tokenizer.id(piece).ok_or(VocabError::WordPiece { path: path.to_string(), reason })
        };
        let (begin, end, unknown) = (id("[CLS]")?, id("[SEP]")?, id("[UNK]")?);
        Ok(Self { spec: spec.clone(), tokenizer, begin, end, unknown })
    }
}

impl Vocabulary for BertPieces {
    fn name(&self) -> String {
        format!("BertVocabulary(file={})", self.spec.vocab_file)
    }

    fn vocab_size(&self) -> usize {
        self.tokenizer.pieces().len()
    }

    fn base_vocab_size(&self) -> usize {
        self.tokenizer.pieces().len()
    }

    fn bos_id(&self) -> Option<i32> {
        Some(self.begin)
    }

    fn eos_id(&self) -> Option<i32> {
        Some(self.end)
    }

    fn unk_id(&self) -> Option<i32> {
        Some(self.unknown)
    }

    fn content(&self) -> Option<Vec<u8>> {
        Some(self.tokenizer.pieces().join("\n").into_bytes())
    }

    fn encode_into(&self, text: &str, ids: &mut Vec<i32>) {
        ids.extend(self.tokenizer.encode(text));
    }

    /// The pieces with spaces between words.
    fn decode_clean(&self, ids: &[i32]) -> String {
        let pieces: Vec<String> = ids.iter().map(|&id| self.piece(id)).collect();
        pieces.join(" ").replace(" ##", "")
    }

    fn piece(&self, id: i32) -> String {
        let known = usize::try_from(id).ok().and_then(|id| self.tokenizer.pieces().get(id));
        known.cloned().unwrap_or_else(|| no_piece(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_begin_and_end_with_tokens_of_the_list() {
        let folder = tempfile::tempdir().unwrap();
        let path = Path::try_from(folder.path()).unwrap().join("vocab.txt");
        path.write_atomic(b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nfox\n##es\n").unwrap();
        let spec = |vocab_file| BertVocabulary { vocab_file, lower_case: true };
        let vocabulary = BertPieces::load(&spec(path.to_string())).unwrap();
        assert_eq!((vocabulary.bos_id(), vocabulary.eos_id()), (Some(2), Some(3)));
        assert_eq!(vocabulary.encode("FOXES [MASK] ox"), [5, 6, 4, 1]);
        assert_eq!(vocabulary.decode(&[2, 5, 6, 5, 3, 5]), "[CLS] foxes fox [SEP]");
        path.write_atomic(b"[PAD]\n[UNK]\n[SEP]\n").unwrap();
        let error = BertPieces::load(&spec(path.to_string())).unwrap_err().to_string();
        assert!(error.contains("no piece `[CLS]`"), "{error}");
    }
}
