//! L1: token vocabularies (SentencePiece, WordPiece, bytes, characters, lists) behind one interface.
//!
//! Gin names a [`VocabularySpec`]; [`VocabularySpec::build`] opens the model file and returns
//! an `Arc<dyn Vocabulary>`. Ids follow SeqIO: 0 pads, and extra ids (sentinels) are at the end.

mod bytes;
mod codepoints;
mod error;
mod hugging_face;
mod load;
mod more_pieces;
mod pass_through;
mod piece_text;
mod sentencepiece;
mod spec;
mod train;
mod unigrams;
mod word_piece;

pub use error::VocabError;
pub use hugging_face::{HuggingFaceTokenizer, hugging_face_tokenizer};
pub use more_pieces::MorePieces;
pub use piece_text::PieceText;
pub use sentencepiece::{PieceCount, count_pieces, tokenizer_json};
pub use spec::{
    BertVocabulary, BertWordPieceVocabulary, ByteVocabulary, FullCodepointVocabulary,
    NormalizationForm, NormalizerSpec, PartialCodepointVocabulary, PassThroughVocabulary,
    SentencePieceVocabulary, UnigramVocabulary, VocabularySpec,
};
pub use train::train_sentencepiece;
pub use word_piece::{BertFolder, BertTokenizer, bert_folds_case};

/// The id that pads every vocabulary.
pub const PAD_ID: i32 = 0;

/// Converts text to ids and back, like SeqIO's `Vocabulary`.
pub trait Vocabulary: Send + Sync + std::fmt::Debug {
    /// Returns its name in errors and logs, as `str(vocabulary)` in SeqIO.
    fn name(&self) -> String;

    /// Number of ids, extra ids included.
    fn vocab_size(&self) -> usize;

    /// Number of ids that decode to something other than the unknown piece.
    fn base_vocab_size(&self) -> usize;

    /// Returns the id for the begin of a sequence, if there is one.
    fn bos_id(&self) -> Option<i32>;

    /// Returns the id for the end of a sequence, if there is one.
    fn eos_id(&self) -> Option<i32>;

    /// Returns the id for everything that the vocabulary does not have.
    fn unk_id(&self) -> Option<i32>;

    /// Returns the id of the first sentinel; those of the others are smaller.
    fn first_sentinel_id(&self) -> i32 {
        i32::try_from(self.vocab_size()).unwrap_or(i32::MAX) - 1
    }

    /// Whether an id stands for a part of a text, and is not the unknown piece or a sentinel after all pieces.
    fn stands_for_text(&self, id: i32) -> bool {
        Some(id) != self.unk_id() && usize::try_from(id).is_ok_and(|id| id < self.base_vocab_size())
    }

    /// Whether examples contain ids already and text cannot be encoded.
    fn takes_ids(&self) -> bool {
        false
    }

    /// Returns the content by which vocabularies of two files are compared; `None` for vocabularies
    /// without a file.
    fn content(&self) -> Option<Vec<u8>> {
        None
    }

    /// Whether the ids after a text may remove its last space.
    fn cleans_up(&self) -> bool {
        false
    }

    /// Returns the bytes that each id adds to a text; `None` for ids that stand for no text, and for sentinels.
    ///
    /// # Errors
    /// The reason for which a text is not the bytes of its ids, one after another.
    fn piece_texts(&self) -> Result<Vec<Option<PieceText>>, String> {
        Err("its ids are not parts of a text, which follow each other".to_string())
    }

    /// Appends the ids of `text` to `ids`, without EOS.
    fn encode_into(&self, text: &str, ids: &mut Vec<i32>);

    /// The text of ids that are in range and end at the first EOS.
    fn decode_clean(&self, ids: &[i32]) -> String;

    /// Returns the displayed piece of one id.
    fn piece(&self, id: i32) -> String {
        self.decode_clean(&[id])
    }

    /// The ids of `text`, without EOS.
    fn encode(&self, text: &str) -> Vec<i32> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 4);
        self.encode_into(text, &mut ids);
        ids
    }

    /// Returns the text of `ids` up to and including the first EOS. Ids beyond the base vocabulary
    /// become unknown.
    fn decode(&self, ids: &[i32]) -> String {
        let base = i32::try_from(self.base_vocab_size()).unwrap_or(i32::MAX);
        let clean = |&id: &i32| match self.unk_id() {
            Some(unk) if id >= base => unk,
            _ => id,
        };
        let mut ids: Vec<i32> = ids.iter().map(clean).collect();
        if let Some(end) = ids.iter().position(|&id| Some(id) == self.eos_id()) {
            ids.truncate(end + 1);
        }
        self.decode_clean(&ids)
    }
}

/// Returns the displayed text of an id without a piece.
fn no_piece(id: i32) -> String {
    format!("<no piece {id}>")
}
