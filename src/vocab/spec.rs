//! The configurables of vocabularies.

use gimlet_gin::Configurable;

/// Any vocabulary a feature or a model can use.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Configurable)]
pub enum VocabularySpec {
    /// Pieces of a SentencePiece model.
    SentencePiece(SentencePieceVocabulary),
    /// UTF-8 bytes.
    Byte(ByteVocabulary),
    /// Ids as they are.
    PassThrough(PassThroughVocabulary),
    /// BERT's WordPiece as transformers cut texts.
    Bert(BertVocabulary),
    /// BERT's WordPiece as TensorFlow Text cuts texts.
    BertWordPiece(BertWordPieceVocabulary),
    /// Tokens of a list.
    Unigram(UnigramVocabulary),
    /// All characters.
    FullCodepoint(FullCodepointVocabulary),
    /// Some characters.
    PartialCodepoint(PartialCodepointVocabulary),
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
    /// Path of the `.model` file, in any storage; or of the `tokenizer.json` in a folder of Hugging Face's transformers
    /// (of its `tokenizer_config.json` if it has a `spiece.model` instead), which gives the ids of transformers with
    /// added tokens.
    pub sentencepiece_model_file: String,
    /// Sentinels `<extra_id_0>`, ... added after the model's own pieces. Models with `100extra` in
    /// their name contain them already: leave this at 0 there.
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

impl SentencePieceVocabulary {
    /// Whether the file belongs to a tokenizer of Hugging Face's transformers.
    pub fn is_hugging_face(&self) -> bool {
        self.sentencepiece_model_file.ends_with(".json")
    }
}

/// UTF-8 bytes shifted by three special ids, as ByT5 uses them (Xue et al. 2021,
/// arXiv:2105.13626).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Configurable)]
#[gin(
    name = "seqio.ByteVocabulary",
    alias = "seqio.vocabularies.ByteVocabulary",
    alias = "t5.data.ByteVocabulary"
)]
pub struct ByteVocabulary {
    /// Sentinels added after the 256 bytes.
    #[gin(default = 0)]
    pub extra_ids: usize,
    /// Path of the `tokenizer_config.json` in a folder of Hugging Face's transformers, whose added tokens, sentinels
    /// among them, get their ids.
    #[gin(default = None)]
    pub tokenizer_config: Option<String>,
}

impl ByteVocabulary {
    /// Bytes and so many sentinels.
    pub fn of(extra_ids: usize) -> Self {
        Self { extra_ids, tokenizer_config: None }
    }
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

/// BERT's WordPiece over a list of pieces (Devlin et al. 2019, arXiv:1810.04805), as TensorFlow Text
/// does it. Source: SeqIO `vocabularies.py`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Configurable)]
#[gin(
    name = "seqio.BertWordPieceVocabulary",
    alias = "seqio.vocabularies.BertWordPieceVocabulary",
    ignored(token_out_type = "ids are 32 bits wide here")
)]
pub struct BertWordPieceVocabulary {
    /// Path of the `vocab.txt`, in any storage: one piece a line, whose id is its line from 0.
    pub vocab_lookup_table: String,
    /// Prefix of pieces that continue a word.
    #[gin(default = "##".to_string())]
    pub suffix_indicator: String,
    /// Longer words are unknown.
    #[gin(default = 100)]
    pub max_bytes_per_word: usize,
    /// Greatest number of characters of a piece, without the indicator.
    #[gin(default = None)]
    pub max_chars_per_token: Option<usize>,
    /// The piece for unknown words; with None they have an id outside the list.
    #[gin(default = Some("[UNK]".to_string()))]
    pub unknown_token: Option<String>,
    /// Makes single characters of a word unknown instead of the whole word.
    #[gin(default = false)]
    pub split_unknown_characters: bool,
    /// Folds case and strips accents, as uncased models expect.
    #[gin(default = false)]
    pub lower_case: bool,
    /// Makes runs of spaces words of their own.
    #[gin(default = false)]
    pub keep_whitespace: bool,
    /// Unicode form to which text is converted; `lower_case` has its own.
    #[gin(default = None)]
    pub normalization_form: Option<NormalizationForm>,
    /// Keeps words such as `[unused12]` whole.
    #[gin(default = false)]
    pub preserve_unused_token: bool,
    /// The id for padding; rows are padded with 0, so no other value is accepted.
    #[gin(default = 0)]
    pub pad_id: usize,
    /// The id of `[CLS]`.
    #[gin(default = 101)]
    pub start_of_sequence_id: usize,
    /// The id of `[SEP]`, which ends a sequence.
    #[gin(default = 102)]
    pub end_of_sequence_id: usize,
}

impl BertWordPieceVocabulary {
    /// Creates a vocabulary from a list of pieces with SeqIO's defaults for everything else.
    pub fn of(vocab_lookup_table: &str) -> Self {
        Self {
            vocab_lookup_table: vocab_lookup_table.to_string(),
            suffix_indicator: "##".to_string(),
            max_bytes_per_word: 100,
            max_chars_per_token: None,
            unknown_token: Some("[UNK]".to_string()),
            split_unknown_characters: false,
            lower_case: false,
            keep_whitespace: false,
            normalization_form: None,
            preserve_unused_token: false,
            pad_id: 0,
            start_of_sequence_id: 101,
            end_of_sequence_id: 102,
        }
    }
}

/// BERT's WordPiece over a list of pieces, as the tokenizer `BertTokenizerFast` of Hugging Face's transformers. Special tokens in texts
/// are found as they stand; `[CLS]` begins a row and `[SEP]` ends one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Configurable)]
#[gin(name = "gimlet.BertVocabulary")]
pub struct BertVocabulary {
    /// Path of the `vocab.txt`, in any storage: one piece a line, whose id is its line from 0; or of the `tokenizer.json` in a
    /// folder of Hugging Face's transformers.
    pub vocab_file: String,
    /// Folds case and strips accents, as uncased models expect.
    #[gin(default = true)]
    pub lower_case: bool,
}

/// A normalization form of Unicode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Configurable)]
pub enum NormalizationForm {
    /// Composed.
    #[gin(name = "NFC")]
    Nfc,
    /// Decomposed.
    #[gin(name = "NFD")]
    Nfd,
    /// Composed, without distinctions of format.
    #[gin(name = "NFKC")]
    Nfkc,
    /// Decomposed, without distinctions of format.
    #[gin(name = "NFKD")]
    Nfkd,
}

/// Tokens of a list, between padding and unknown. Source: SeqIO `vocabularies.py`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Configurable)]
#[gin(name = "seqio.UnigramVocabulary", alias = "seqio.vocabularies.UnigramVocabulary")]
pub struct UnigramVocabulary {
    /// The tokens, whose ids count from 1.
    pub unigrams: Vec<String>,
    /// Cuts texts at spaces; otherwise a text is one token.
    #[gin(default = false)]
    pub split_on_space: bool,
}

/// Characters as ids, all of Unicode. Source: SeqIO `vocabularies.py`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Configurable)]
#[gin(name = "seqio.FullCodepointVocabulary", alias = "seqio.vocabularies.FullCodepointVocabulary")]
pub struct FullCodepointVocabulary {
    /// Sentinels added after the last character.
    #[gin(default = 0)]
    pub extra_ids: usize,
}

/// Some characters, with ids from 3. Source: SeqIO `vocabularies.py`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Configurable)]
#[gin(
    name = "seqio.PartialCodepointVocabulary",
    alias = "seqio.vocabularies.PartialCodepointVocabulary"
)]
pub struct PartialCodepointVocabulary {
    /// The characters' numbers in Unicode, in the order of their ids.
    pub codepoints: Vec<u64>,
    /// Sentinels added after the last character.
    #[gin(default = 0)]
    pub extra_ids: usize,
}
