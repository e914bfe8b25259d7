//! Encoding to ids alone: the ids of SentencePiece 0.2.1 without the strings that its interface
//! creates for every piece. Source: SentencePiece `sentencepiece_processor.cc`.

use std::cell::RefCell;
use std::sync::Arc;

use super::bpe::Bpe;
use super::model_proto::{ModelProto, ModelType, PieceKind};
use super::normalizer::Normalizer;
use super::pieces::UserDefined;
use super::unigram::Unigram;
use super::words::{Characters, Words};

/// Any kind of model.
#[derive(Debug)]
pub(super) struct Encoder {
    normalizer: Normalizer,
    algorithm: Algorithm,
}

/// The method of cutting normalized text into pieces.
#[derive(Debug)]
enum Algorithm {
    Unigram(Unigram),
    Bpe(Bpe),
    Words(Words),
    Characters(Characters),
}

thread_local! {
    static NORMALIZED: RefCell<Vec<u8>> = RefCell::default();
}

impl Encoder {
    /// Creates the encoder of a model file; `None` if the file is broken.
    pub(super) fn new(model: &[u8]) -> Option<Self> {
        let model = ModelProto::parse(model)?;
        let user_defined = Arc::new(UserDefined::new(&model));
        let normalizer = Normalizer::new(&model, user_defined.clone())?;
        let unknown = Unknown::new(&model)?;
        let algorithm = match model.model_type {
            ModelType::Unigram => Algorithm::Unigram(Unigram::new(&model, unknown)),
            ModelType::Bpe => Algorithm::Bpe(Bpe::new(&model, user_defined, unknown)),
            ModelType::Word => Algorithm::Words(Words::new(&model, unknown)),
            ModelType::Char => {
                Algorithm::Characters(Characters::new(&model, user_defined, unknown))
            }
        };
        Some(Self { normalizer, algorithm })
    }

    /// Appends the ids of a text.
    pub(super) fn encode_into(&self, text: &str, ids: &mut Vec<i32>) {
        NORMALIZED.with_borrow_mut(|normalized| {
            self.normalizer.normalize(text, normalized);
            match &self.algorithm {
                Algorithm::Unigram(unigram) => unigram.encode_into(normalized, ids),
                Algorithm::Bpe(bpe) => bpe.encode_into(normalized, ids),
                Algorithm::Words(words) => words.encode_into(normalized, ids),
                Algorithm::Characters(characters) => characters.encode_into(normalized, ids),
            }
        });
    }
}

/// The ids for text that the model does not know.
#[derive(Debug)]
pub(crate) struct Unknown {
    /// The unknown piece.
    pub id: i32,
    /// Ids of the 256 bytes for unknown characters, if the model has byte fallback.
    pub byte_ids: Option<Vec<i32>>,
}

impl Unknown {
    fn new(model: &ModelProto<'_>) -> Option<Self> {
        let (_, id) = model.of_kind(PieceKind::Unknown).next()?;
        let byte_ids = match model.byte_fallback {
            true => Some((0..=255).map(|byte| byte_id(model, byte)).collect::<Option<_>>()?),
            false => None,
        };
        Some(Self { id, byte_ids })
    }
}

/// The id of `<0x00>` to `<0xFF>`.
fn byte_id(model: &ModelProto<'_>, byte: u8) -> Option<i32> {
    let name = format!("<0x{byte:02X}>");
    let mut bytes = model.of_kind(PieceKind::Byte);
    bytes.find(|(piece, _)| piece.piece == name.as_bytes()).map(|(_, id)| id)
}

/// The ids of a text, in the order of its pieces.
pub(super) struct Output<'a> {
    unknown: &'a Unknown,
    ids: &'a mut Vec<i32>,
    after_unknown: bool,
}

impl<'a> Output<'a> {
    /// Appends to `ids`.
    pub(super) fn new(unknown: &'a Unknown, ids: &'a mut Vec<i32>) -> Self {
        Self { unknown, ids, after_unknown: false }
    }

    /// Appends a piece: its id, if it has one, and its text.
    pub(super) fn push(&mut self, id: Option<i32>, text: &[u8]) {
        let id = id.unwrap_or(self.unknown.id);
        let is_unknown = id == self.unknown.id;
        match &self.unknown.byte_ids {
            Some(byte_ids) if is_unknown => {
                self.ids.extend(text.iter().map(|&byte| byte_ids[usize::from(byte)]));
            }
            // Adjacent unknown pieces become one.
            _ if is_unknown && self.after_unknown => {}
            _ => self.ids.push(id),
        }
        self.after_unknown = is_unknown;
    }

    /// Appends ids without unknown pieces.
    pub(super) fn extend_known(&mut self, ids: &[i32]) {
        self.ids.extend_from_slice(ids);
        self.after_unknown &= ids.is_empty();
    }

    /// The ids so far.
    pub(super) fn ids(&self) -> &[i32] {
        self.ids
    }
}
