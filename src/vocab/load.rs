//! Builds vocabularies from specs; a model file is read once per process.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::codepoints::PartialCodepoints;
use super::hugging_face::{HuggingFace, HuggingFaceBytes};
use super::sentencepiece::SentencePiece;
use super::unigrams::Unigrams;
use super::word_piece::{BertPieces, WordPiece};
use super::{BertWordPieceVocabulary, VocabError, Vocabulary, VocabularySpec};

type Loaded = Mutex<HashMap<VocabularySpec, Arc<dyn Vocabulary>>>;

static LOADED: LazyLock<Loaded> = LazyLock::new(Loaded::default);

impl VocabularySpec {
    /// Returns the vocabulary. Equal specs share one, so that a large model is in memory once.
    pub fn build(&self) -> Result<Arc<dyn Vocabulary>, VocabError> {
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(vocabulary) = loaded.get(self) {
            return Ok(vocabulary.clone());
        }
        let vocabulary: Arc<dyn Vocabulary> = match self {
            Self::SentencePiece(spec) if spec.is_hugging_face() => {
                Arc::new(HuggingFace::load(spec)?)
            }
            Self::SentencePiece(spec) => Arc::new(SentencePiece::load(spec)?),
            Self::Byte(spec) => match &spec.tokenizer_config {
                Some(file) => Arc::new(HuggingFaceBytes::load(spec, file)?),
                None => Arc::new(spec.clone()),
            },
            Self::PassThrough(spec) => Arc::new(spec.clone()),
            Self::Bert(spec) => Arc::new(BertPieces::load(spec)?),
            Self::BertWordPiece(spec) => Arc::new(WordPiece::load(spec)?),
            Self::Unigram(spec) => Arc::new(Unigrams::new(spec)),
            Self::FullCodepoint(spec) => Arc::new(spec.clone()),
            Self::PartialCodepoint(spec) => Arc::new(PartialCodepoints::new(spec)),
        };
        loaded.insert(self.clone(), vocabulary.clone());
        Ok(vocabulary)
    }
    /// Whether both are the same vocabulary. Files at two paths are compared by content, as in
    /// SeqIO: the tasks of a mixture may each have their own copy.
    ///
    /// # Errors
    /// A file needed for the comparison cannot be read.
    pub fn is_same_as(&self, other: &Self) -> Result<bool, VocabError> {
        let files_decide = match (self, other) {
            _ if self == other => return Ok(true),
            (Self::SentencePiece(one), Self::SentencePiece(two))
                if one.is_hugging_face() || two.is_hugging_face() =>
            {
                return Ok(has_same_pieces(&*self.build()?, &*other.build()?));
            }
            (Self::Byte(_), Self::Byte(_)) => {
                return Ok(self.build()?.vocab_size() == other.build()?.vocab_size());
            }
            // Extra ids and options become part of the model when it is loaded.
            (Self::SentencePiece(_), Self::SentencePiece(_)) => true,
            (Self::Bert(spec), Self::Bert(other)) => spec.lower_case == other.lower_case,
            (Self::BertWordPiece(spec), Self::BertWordPiece(other)) => {
                let vocab_lookup_table = other.vocab_lookup_table.clone();
                BertWordPieceVocabulary { vocab_lookup_table, ..spec.clone() } == *other
            }
            _ => false,
        };
        Ok(files_decide && self.build()?.content() == other.build()?.content())
    }
}

/// Whether both have the same text for every id. SeqIO writes sentinels with a space before them, transformers without.
fn has_same_pieces(one: &dyn Vocabulary, other: &dyn Vocabulary) -> bool {
    let size = i32::try_from(one.vocab_size()).unwrap_or(i32::MAX);
    let piece = |vocabulary: &dyn Vocabulary, id: i32| {
        let piece = vocabulary.piece(id);
        match piece.strip_prefix('▁').filter(|piece| piece.starts_with("<extra_id_")) {
            Some(sentinel) => sentinel.to_string(),
            None => piece,
        }
    };
    one.vocab_size() == other.vocab_size() && (0..size).all(|id| piece(one, id) == piece(other, id))
}
