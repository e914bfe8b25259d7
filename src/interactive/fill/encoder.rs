//! Converts texts with masks to the ids that a model reads, in any thread. Source: transformers
//! `models/bert/tokenization_bert.py` and `pipelines/fill_mask.py`.

use std::sync::Arc;

use crate::interactive::lines::Asked;
use crate::models::{FillSpec, Model};
use crate::session::error::SessionError;
use crate::vocab::{BertVocabulary, BertWordPieceVocabulary, Vocabulary, VocabularySpec};

/// The piece that a text has in place of those to be restored.
const MASK: &str = "[MASK]";

/// The tokenizer of a model, and its greatest length.
#[derive(Clone, Debug)]
pub struct FillEncoder {
    vocabulary: Arc<dyn Vocabulary>,
    mask: i32,
    max_tokens: usize,
    max_tokens_name: &'static str,
}

impl FillEncoder {
    /// Builds the tokenizer of a model.
    ///
    /// # Errors
    /// The model restores no masked tokens, or its vocabulary is not one of pieces with `[MASK]`, or has more of them than the
    /// model has rows.
    pub fn new(model: &Model) -> Result<Self, SessionError> {
        let FillSpec { vocabulary: spec, max_tokens, max_tokens_name } = model.fill_spec()?;
        let pieces = match &spec {
            VocabularySpec::Bert(pieces) => pieces.clone(),
            VocabularySpec::BertWordPiece(pieces) => as_transformers(pieces)?,
            _ => {
                let name = spec.build()?.name();
                return Err(SessionError::Unfit(format!(
                    "{name} has no piece `{MASK}`, expected the WordPiece vocabulary with which the model was trained: bind \
                     VOCABULARY to @gimlet.BertVocabulary() with its vocab.txt"
                )));
            }
        };
        let file = pieces.vocab_file.clone();
        let vocabulary = VocabularySpec::Bert(pieces).build()?;
        let (found, rows) = (vocabulary.vocab_size(), model.num_ids());
        if found > rows {
            return Err(SessionError::Unfit(format!(
                "`{file}` has {found} pieces, and the model's embedding {rows} rows; expected the vocabulary with which the \
                 model was trained: bind VOCABULARY"
            )));
        }
        let mask = match vocabulary.encode(MASK)[..] {
            [mask] if Some(mask) != vocabulary.unk_id() => mask,
            _ => {
                return Err(SessionError::Unfit(format!(
                    "`{file}` has no piece `{MASK}`, expected a list with it, with which the model was trained: bind VOCABULARY"
                )));
            }
        };
        Ok(Self { vocabulary, mask, max_tokens, max_tokens_name })
    }

    /// Number of pieces.
    pub fn num_pieces(&self) -> usize {
        self.vocabulary.vocab_size()
    }

    /// Greatest number of tokens of a text.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// The piece of an id.
    pub fn piece(&self, id: i32) -> String {
        self.vocabulary.piece(id)
    }

    /// The places of masks in the ids of a text.
    pub fn masks(&self, asked: &Asked) -> impl Iterator<Item = usize> {
        let places = asked.inputs.iter().enumerate();
        places.filter(|(_, id)| **id == self.mask).map(|(place, _)| place)
    }

    /// Converts a text to the ids `[CLS] text [SEP]`.
    ///
    /// # Errors
    /// It has no mask, or is longer than the model's rows: found, expected and a remedy.
    pub fn encode(&self, text: &str) -> Result<Asked, String> {
        let mut inputs: Vec<i32> = self.vocabulary.bos_id().into_iter().collect();
        self.vocabulary.encode_into(text, &mut inputs);
        inputs.extend(self.vocabulary.eos_id());
        let (found, most, name) = (inputs.len(), self.max_tokens, self.max_tokens_name);
        if found > most {
            return Err(format!(
                "the text has {found} tokens with [CLS] and [SEP], expected at most {most} ({name}): shorten it around its masks"
            ));
        }
        match inputs.contains(&self.mask) {
            true => Ok(Asked { inputs, targets: None, is_cut: false }),
            false => Err(format!(
                "the text has no `{MASK}`, expected one in place of each piece to restore, such as \"Paris is the {MASK} of \
                 France.\""
            )),
        }
    }
}

/// The pieces of SeqIO's vocabulary as transformers cut texts.
///
/// # Errors
/// It has settings that transformers do not have.
fn as_transformers(spec: &BertWordPieceVocabulary) -> Result<BertVocabulary, SessionError> {
    let (file, lower_case) = (&spec.vocab_lookup_table, spec.lower_case);
    let same = BertWordPieceVocabulary {
        lower_case,
        start_of_sequence_id: spec.start_of_sequence_id,
        end_of_sequence_id: spec.end_of_sequence_id,
        ..BertWordPieceVocabulary::of(file)
    };
    match same == *spec {
        true => Ok(BertVocabulary { vocab_file: file.clone(), lower_case }),
        false => Err(SessionError::Unfit(format!(
            "seqio.BertWordPieceVocabulary of `{file}` has settings that transformers' tokenizer lacks, expected its \
             vocab_lookup_table and lower_case alone: texts with `{MASK}` are cut as transformers cut them"
        ))),
    }
}
