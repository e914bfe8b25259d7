//! What gin says about vocabularies.

use crate::gin::Configurable;

/// Any vocabulary a feature or a model can use.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Configurable)]
pub enum VocabularySpec {
    /// Pieces of a SentencePiece model.
    SentencePiece(SentencePieceVocabulary),
    /// UTF-8 bytes.
    Byte(ByteVocabulary),
    /// Ids as they are.
    PassThrough(PassThroughVocabulary),
}

/// The pieces of a SentencePiece model. Source: SeqIO `vocabularies.py`.
///
/// The model is expected to reserve 0 for padding, 1 for EOS and 2 for unknown.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Configurable)]
#[gin(
    name = "seqio.SentencePieceVocabulary",
    alias = "seqio.vocabularies.SentencePieceVocabulary",
    alias = "t5.data.SentencePieceVocabulary",
    alias = "t5.data.sentencepiece_vocabulary.SentencePieceVocabulary",
    ignored(use_fast_tokenizer = "the tokenizer is the same at any speed")
)]
pub struct SentencePieceVocabulary {
    /// Path of the `.model` file, in any storage.
    pub sentencepiece_model_file: String,
    /// Sentinels `<extra_id_0>`, ... added after the model's own pieces. Models whose name says
    /// `100extra` hold them already: leave this at 0 there.
    #[gin(default = 0)]
    pub extra_ids: usize,
    /// Numbers the sentinels downwards, so that `<extra_id_0>` has the highest id, as span
    /// corruption expects.
    #[gin(default = true)]
    pub reverse_extra_ids: bool,
    /// Options that win over the model's own rules of normalization.
    #[gin(default = None)]
    pub normalizer_spec_overrides: Option<NormalizerSpec>,
}

/// Rules of normalization that differ from a model's own; those not given stay. Source:
/// SentencePiece `sentencepiece_model.proto`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Configurable)]
#[gin(
    name = "sentencepiece_model_pb2.NormalizerSpec",
    ignored(
        name = "only training reads it; a model holds its rules themselves",
        normalization_rule_tsv = "only training reads it; a model holds its rules themselves"
    )
)]
pub struct NormalizerSpec {
    /// Puts a space before the text, so that its first word is a word like the others.
    #[gin(default = None)]
    pub add_dummy_prefix: Option<bool>,
    /// Drops spaces at both ends, and all but one in a row.
    #[gin(default = None)]
    pub remove_extra_whitespaces: Option<bool>,
    /// Writes spaces as `▁`.
    #[gin(default = None)]
    pub escape_whitespaces: Option<bool>,
}

/// UTF-8 bytes shifted by three special ids, as ByT5 uses them (Xue et al. 2021,
/// arXiv:2105.13626).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Configurable)]
#[gin(
    name = "seqio.ByteVocabulary",
    alias = "seqio.vocabularies.ByteVocabulary",
    alias = "t5.data.ByteVocabulary"
)]
pub struct ByteVocabulary {
    /// Sentinels added after the 256 bytes.
    #[gin(default = 0)]
    pub extra_ids: usize,
}

/// Ids that are in the data already. Source: SeqIO `vocabularies.py`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Configurable)]
#[gin(name = "seqio.PassThroughVocabulary", alias = "seqio.vocabularies.PassThroughVocabulary")]
pub struct PassThroughVocabulary {
    /// Number of ids.
    pub size: usize,
    /// The id that ends a sequence, if any.
    #[gin(default = None)]
    pub eos_id: Option<u64>,
}
