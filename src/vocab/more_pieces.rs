//! A vocabulary with new pieces: the same files with more in them.

use super::hugging_face;
use super::sentencepiece::{append_piece, count_pieces};
use super::word_piece;
use super::{VocabError, VocabularySpec};
use gimlet_storage::Path;

/// Files by name.
pub(crate) type NamedFiles = Vec<(String, Vec<u8>)>;

/// A vocabulary with new pieces, whose files are not written yet.
#[derive(Clone, Debug)]
pub struct MorePieces {
    /// The vocabulary, once its files lie in the folder that it was made for.
    pub vocabulary: VocabularySpec,
    /// Its files by name.
    pub files: Vec<(String, Vec<u8>)>,
    /// The id of the first new piece. Old ids from there on are greater by the number of new pieces.
    pub first: usize,
}

impl VocabularySpec {
    /// The file from which the vocabulary is read; for a tokenizer of transformers one of a folder of files.
    pub fn file(&self) -> Option<&str> {
        match self {
            Self::SentencePiece(spec) => Some(&spec.sentencepiece_model_file),
            Self::Byte(spec) => spec.tokenizer_config.as_deref(),
            Self::Bert(spec) => Some(&spec.vocab_file),
            Self::BertWordPiece(spec) => Some(&spec.vocab_lookup_table),
            _ => None,
        }
    }

    /// Returns the vocabulary with new pieces after its own, for a folder in which its files will lie. SeqIO's sentinels follow
    /// the pieces of a SentencePiece model, new ones too; added tokens of transformers follow everything.
    ///
    /// # Errors
    /// The vocabulary is no list of pieces; its files cannot be read, or are broken.
    pub fn with_pieces(&self, pieces: &[&str], folder: &Path) -> Result<MorePieces, VocabError> {
        let file = self.file().map(Path::parse).transpose()?;
        let (files, first) = match (self, &file) {
            (Self::SentencePiece(spec), Some(file)) if !spec.is_hugging_face() => {
                let mut model = file.read()?;
                let count = count_pieces(&model).ok_or_else(|| VocabError::Model {
                    path: file.to_string(),
                    reason: "it has no pieces; was the download cut short?".to_string(),
                })?;
                pieces.iter().for_each(|piece| append_piece(&mut model, piece));
                (vec![(file.file_name().to_string(), model)], count.num_pieces)
            }
            (Self::SentencePiece(_) | Self::Byte(_), Some(file)) => {
                hugging_face::with_pieces(self, file, pieces)?
            }
            (Self::Bert(_) | Self::BertWordPiece(_), Some(file)) => {
                word_piece::with_pieces(file, pieces)?
            }
            _ => return Err(self.closed()?),
        };
        let vocabulary = match &file {
            Some(file) => self.at(&folder.join(file.file_name())),
            None => self.clone(),
        };
        Ok(MorePieces { vocabulary, files, first })
    }

    /// Returns the same vocabulary in another file.
    fn at(&self, place: &Path) -> Self {
        let mut moved = self.clone();
        let place = place.to_string();
        match &mut moved {
            Self::SentencePiece(spec) => spec.sentencepiece_model_file = place,
            Self::Byte(spec) => spec.tokenizer_config = Some(place),
            Self::Bert(spec) => spec.vocab_file = place,
            Self::BertWordPiece(spec) => spec.vocab_lookup_table = place,
            _ => {}
        }
        moved
    }

    fn closed(&self) -> Result<VocabError, VocabError> {
        let reason = match self {
            Self::Byte(_) => {
                "its ids are bytes and sentinels; expected the tokenizer of a folder of transformers, which holds added tokens: \
                 bind seqio.ByteVocabulary.tokenizer_config, or write such a folder by `gimlet checkpoint convert --to hugging_face`"
            }
            Self::Unigram(_) => {
                "its tokens stand in gin; bind seqio.UnigramVocabulary.unigrams with more of them"
            }
            _ => {
                "it has no list of pieces; expected SentencePiece, WordPiece, or a tokenizer of transformers"
            }
        };
        Ok(VocabError::Closed { name: self.build()?.name(), reason: reason.to_string() })
    }
}
