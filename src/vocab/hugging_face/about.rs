//! The vocabulary that a folder of Hugging Face's transformers has.

use super::HuggingFace;
use super::folder::{TokenizerClass, TokenizerFolder};
use crate::{ByteVocabulary, SentencePieceVocabulary, VocabError, VocabularySpec};
use gimlet_storage::Path;

/// The tokenizer of a folder.
#[derive(Clone, Debug)]
pub struct HuggingFaceTokenizer {
    /// The vocabulary with the same ids.
    pub vocabulary: VocabularySpec,
    /// Number of ids, added tokens included.
    pub vocab_size: usize,
    /// Whether transformers append the end to a text.
    pub appends_eos: bool,
}

/// Reads the tokenizer that a `tokenizer.json` or `tokenizer_config.json` belongs to.
///
/// # Errors
/// A file is missing or broken, or the tokenizer is none of a T5.
pub fn hugging_face_tokenizer(file: &Path) -> Result<HuggingFaceTokenizer, VocabError> {
    if TokenizerFolder::read(file)?.class == TokenizerClass::ByT5 {
        let config = file.folder().join("tokenizer_config.json").to_string();
        let spec = ByteVocabulary { extra_ids: 0, tokenizer_config: Some(config) };
        let vocabulary = VocabularySpec::Byte(spec);
        let vocab_size = vocabulary.build()?.vocab_size();
        return Ok(HuggingFaceTokenizer { vocabulary, vocab_size, appends_eos: true });
    }
    let spec = SentencePieceVocabulary {
        sentencepiece_model_file: file.to_string(),
        extra_ids: 0,
        reverse_extra_ids: true,
        normalizer_spec_overrides: None,
    };
    let appends_eos = HuggingFace::load(&spec)?.appends_eos();
    let vocabulary = VocabularySpec::SentencePiece(spec);
    let vocab_size = vocabulary.build()?.vocab_size();
    Ok(HuggingFaceTokenizer { vocabulary, vocab_size, appends_eos })
}
