//! L1: token vocabularies (SentencePiece, WordPiece, bytes, characters, lists) behind one interface.
//!
//! [`VocabularySpec`] is what gin names; [`VocabularySpec::build`] opens the model file and yields
//! an `Arc<dyn Vocabulary>`. Ids follow SeqIO: 0 pads, and extra ids (sentinels) stand at the end.

mod bytes;
mod codepoints;
mod error;
mod load;
mod pass_through;
mod sentencepiece;
mod spec;
mod train;
mod unigrams;
mod word_piece;

pub use error::VocabError;
pub use sentencepiece::{PieceCount, count_pieces, tokenizer_json};
pub use spec::{
    BertWordPieceVocabulary, ByteVocabulary, FullCodepointVocabulary, NormalizationForm,
    NormalizerSpec, PartialCodepointVocabulary, PassThroughVocabulary, SentencePieceVocabulary,
    UnigramVocabulary, VocabularySpec,
};
pub use train::train_sentencepiece;

/// The id that pads every vocabulary.
pub const PAD_ID: i32 = 0;

/// Text to ids and back, as SeqIO's `Vocabulary` does it.
pub trait Vocabulary: Send + Sync + std::fmt::Debug {
    /// How errors and logs name it, as `str(vocabulary)` in SeqIO.
    fn name(&self) -> String;

    /// Number of ids, extra ids included.
    fn vocab_size(&self) -> usize;

    /// Number of ids that decode to something other than the unknown piece.
    fn base_vocab_size(&self) -> usize;

    /// Begin of sequence, where there is one.
    fn bos_id(&self) -> Option<i32>;

    /// End of sequence, where there is one.
    fn eos_id(&self) -> Option<i32>;

    /// What stands for everything that the vocabulary lacks.
    fn unk_id(&self) -> Option<i32>;

    /// Whether examples hold ids already and text cannot be encoded.
    fn takes_ids(&self) -> bool {
        false
    }

    /// What was read of a file, by which vocabularies of two files are compared; `None` where there is none.
    fn content(&self) -> Option<Vec<u8>> {
        None
    }

    /// Appends the ids of `text` to `ids`, without EOS.
    fn encode_into(&self, text: &str, ids: &mut Vec<i32>);

    /// The text of ids that are in range and end at the first EOS.
    fn decode_clean(&self, ids: &[i32]) -> String;

    /// How people see one id: the piece it stands for.
    fn piece(&self, id: i32) -> String {
        self.decode_clean(&[id])
    }

    /// The ids of `text`, without EOS.
    fn encode(&self, text: &str) -> Vec<i32> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 4);
        self.encode_into(text, &mut ids);
        ids
    }

    /// The text of `ids` up through the first EOS. Ids beyond the base vocabulary become unknown.
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

/// What people see where an id has no piece.
fn no_piece(id: i32) -> String {
    format!("<no piece {id}>")
}
