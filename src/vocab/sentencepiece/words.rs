//! Models whose pieces are whole words, or single characters. Sources: SentencePiece `word_model.cc`,
//! `char_model.cc` and `model_interface.cc` (`SplitIntoWords`).

use std::sync::Arc;

use super::encoder::{Output, Unknown};
use super::model_proto::ModelProto;
use super::normalizer::SPACE;
use super::pieces::{Pieces, UserDefined};

/// A model of words.
#[derive(Debug)]
pub(super) struct Words {
    pieces: Pieces,
    unknown: Unknown,
}

impl Words {
    /// The words of a model.
    pub(super) fn new(model: &ModelProto<'_>, unknown: Unknown) -> Self {
        Self { pieces: Pieces::new(model), unknown }
    }

    /// Appends the ids of normalized text, cut before every space.
    pub(super) fn encode_into(&self, mut text: &[u8], ids: &mut Vec<i32>) {
        let mut output = Output::new(&self.unknown, ids);
        while !text.is_empty() {
            let rest = text.windows(SPACE.len()).skip(1).position(|bytes| bytes == SPACE);
            let (word, rest) = text.split_at(rest.map_or(text.len(), |index| index + 1));
            output.push(self.pieces.id(word), word);
            text = rest;
        }
    }
}

/// A model of characters.
#[derive(Debug)]
pub(super) struct Characters {
    pieces: Pieces,
    user_defined: Arc<UserDefined>,
    unknown: Unknown,
}

impl Characters {
    /// The characters of a model.
    pub(super) fn new(
        model: &ModelProto<'_>,
        user_defined: Arc<UserDefined>,
        unknown: Unknown,
    ) -> Self {
        Self { pieces: Pieces::new(model), user_defined, unknown }
    }

    /// Appends the ids of normalized text.
    pub(super) fn encode_into(&self, mut text: &[u8], ids: &mut Vec<i32>) {
        let mut output = Output::new(&self.unknown, ids);
        while !text.is_empty() {
            let (length, _) = self.user_defined.symbol(text);
            let (symbol, rest) = text.split_at(length);
            output.push(self.pieces.id(symbol), symbol);
            text = rest;
        }
    }
}
