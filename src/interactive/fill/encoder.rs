//! Converts texts with masks to the ids that a model reads, in any thread. Source: transformers
//! `models/bert/tokenization_bert.py` and `pipelines/fill_mask.py`.

use std::sync::Arc;

use crate::interactive::lines::Asked;
use crate::models::{FillSpec, Model};
use crate::session::error::SessionError;
use crate::storage::Path;
use crate::vocab::{BertTokenizer, Vocabulary, VocabularySpec};

/// The piece that a text has in place of those to be restored.
const MASK: &str = "[MASK]";

/// The tokenizer of a model, and its greatest length.
#[derive(Clone, Debug)]
pub struct FillEncoder {
    tokenizer: Arc<BertTokenizer>,
    vocabulary: Arc<dyn Vocabulary>,
    begin: i32,
    end: i32,
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
        let (file, lower_case) = match &spec {
            VocabularySpec::Bert(pieces) => (&pieces.vocab_file, pieces.lower_case),
            VocabularySpec::BertWordPiece(pieces) => {
                (&pieces.vocab_lookup_table, pieces.lower_case)
            }
            _ => {
                let name = spec.build()?.name();
                return Err(SessionError::Unfit(format!(
                    "{name} has no piece `{MASK}`, expected the WordPiece vocabulary with which the model was trained: bind \
                     VOCABULARY to @gimlet.BertVocabulary() with its vocab.txt"
                )));
            }
        };
        let tokenizer = BertTokenizer::of_transformers(&Path::parse(file)?, lower_case)?;
        let (found, rows) = (tokenizer.num_pieces(), model.num_ids());
        if found > rows {
            return Err(SessionError::Unfit(format!(
                "`{file}` has {found} pieces, and the model's embedding {rows} rows; expected the vocabulary with which the \
                 model was trained: bind VOCABULARY"
            )));
        }
        let id = |piece: &str| {
            let missing = || {
                SessionError::Unfit(format!(
                    "`{file}` has no piece `{piece}`, expected a list with [CLS], [SEP] and {MASK}, with which the model was \
                     trained: bind VOCABULARY"
                ))
            };
            tokenizer.id(piece).ok_or_else(missing)
        };
        let (begin, end, mask) = (id("[CLS]")?, id("[SEP]")?, id(MASK)?);
        let (vocabulary, tokenizer) = (spec.build()?, Arc::new(tokenizer));
        Ok(Self { tokenizer, vocabulary, begin, end, mask, max_tokens, max_tokens_name })
    }

    /// Number of pieces.
    pub fn num_pieces(&self) -> usize {
        self.tokenizer.num_pieces()
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
        let mut inputs = vec![self.begin];
        inputs.extend(self.tokenizer.encode(text));
        inputs.push(self.end);
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
