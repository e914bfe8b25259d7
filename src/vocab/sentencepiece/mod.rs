//! A SentencePiece model with SeqIO's extra ids.
//!
//! The C++ library checks the model and decodes; [`encoder::Encoder`] encodes, with the same ids.

mod bpe;
mod encoder;
mod model_proto;
mod normalizer;
mod pieces;
mod tokenizer_json;
mod trie;
mod unigram;
mod word_cache;
mod words;

pub use tokenizer_json::tokenizer_json;

use std::sync::OnceLock;

use sentencepiece::SentencePieceProcessor;

use self::encoder::Encoder;
pub(super) use self::encoder::Unknown;
use self::model_proto::PieceProto;
pub(super) use self::model_proto::{ModelProto, ModelType, PieceKind};
pub(super) use self::normalizer::Rules;
pub(super) use self::unigram::Unigram;
use super::piece_text::byte_of;
use super::spec::{NormalizerSpec, SentencePieceVocabulary};
use super::{PieceText, VocabError, Vocabulary};
use gimlet_storage::Path;

/// The beginning of T5's sentinels.
const SENTINEL: &str = "<extra_id_";

/// A loaded model.
pub(super) struct SentencePiece {
    spec: SentencePieceVocabulary,
    processor: SentencePieceProcessor,
    encoder: Encoder,
    num_pieces: usize,
    /// The text of each piece, for people to look at.
    pieces: OnceLock<Vec<String>>,
}

impl std::fmt::Debug for SentencePiece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl SentencePiece {
    /// Reads the model file and appends the extra ids to its pieces.
    pub(super) fn load(spec: &SentencePieceVocabulary) -> Result<Self, VocabError> {
        let path = Path::parse(&spec.sentencepiece_model_file)?;
        let mut model = path.read()?;
        append_extra_ids(&mut model, spec);
        append_overrides(&mut model, spec.normalizer_spec_overrides.as_ref());
        let unfit = |reason| VocabError::Model { path: path.to_string(), reason };
        let processor = SentencePieceProcessor::from_serialized_proto(&model).map_err(|error| {
            let mut reason = format!("{error}; was the download cut short?");
            if spec.extra_ids > 0 {
                reason.push_str(" if it holds `<extra_id_0>` already, set `extra_ids = 0`");
            }
            unfit(reason)
        })?;
        let encoder = Encoder::new(&model)
            .ok_or_else(|| unfit("its normalization rules or its pieces are broken".to_string()))?;
        let num_pieces = processor.len();
        Ok(Self { spec: spec.clone(), processor, encoder, num_pieces, pieces: OnceLock::new() })
    }

    fn pieces(&self) -> &[String] {
        self.pieces.get_or_init(|| {
            let model = self.processor.to_serialized_proto();
            let pieces = ModelProto::parse(&model).map(|model| model.pieces).unwrap_or_default();
            let text = |piece: &[u8]| String::from_utf8_lossy(piece).into_owned();
            pieces.iter().map(|piece| text(piece.piece)).collect()
        })
    }
}

/// The size of a model according to its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceCount {
    /// Number of pieces, including sentinels among them.
    pub num_pieces: usize,
    /// Number of sentinels that are pieces of the model itself, as in a model named `100extra`.
    pub num_sentinels: usize,
}

/// Counts the pieces of a model; `None` if the bytes are no model.
pub fn count_pieces(model: &[u8]) -> Option<PieceCount> {
    let model = ModelProto::parse(model).filter(|model| !model.pieces.is_empty())?;
    let is_sentinel = |piece: &&PieceProto<'_>| {
        piece.piece.windows(SENTINEL.len()).any(|window| window == SENTINEL.as_bytes())
    };
    let num_sentinels = model.pieces.iter().filter(is_sentinel).count();
    Some(PieceCount { num_pieces: model.pieces.len(), num_sentinels })
}

/// Adds user-defined pieces `▁<extra_id_i>` after the model's own, as in SeqIO's `_load_model`.
fn append_extra_ids(model: &mut Vec<u8>, spec: &SentencePieceVocabulary) {
    let order: Vec<usize> = match spec.reverse_extra_ids {
        true => (0..spec.extra_ids).rev().collect(),
        false => (0..spec.extra_ids).collect(),
    };
    order.into_iter().for_each(|i| append_piece(model, &format!("▁<extra_id_{i}>")));
}

/// Adds a user-defined piece after the model's own. A protobuf's repeated field may continue anywhere in the message, so
/// appending is enough.
pub(super) fn append_piece(model: &mut Vec<u8>, piece: &str) {
    const PIECES: u8 = 0x0a; // ModelProto.pieces
    const PIECE: u8 = 0x0a; // SentencePiece.piece
    const SCORE: u8 = 0x15; // SentencePiece.score, 0.0
    const TYPE: u8 = 0x18; // SentencePiece.type
    const USER_DEFINED: u8 = 4;
    let mut message = vec![PIECE];
    append_varint(&mut message, piece.len());
    message.extend(piece.bytes());
    message.extend([SCORE, 0, 0, 0, 0, TYPE, USER_DEFINED]);
    model.push(PIECES);
    append_varint(model, message.len());
    model.extend(message);
}

/// Adds a number as protobuf writes it: seven bits a byte, the lowest first.
fn append_varint(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Adds the given options to the model's rules of normalization, as in SeqIO's `_load_model`. A
/// protobuf's embedded message may continue anywhere in the message, too; later values win.
fn append_overrides(model: &mut Vec<u8>, overrides: Option<&NormalizerSpec>) {
    const NORMALIZER: u8 = 0x1a; // ModelProto.normalizer_spec
    const DENORMALIZER: u8 = 0x2a; // ModelProto.denormalizer_spec
    let Some(overrides) = overrides else { return };
    let options = [
        (0x18, overrides.add_dummy_prefix),
        (0x20, overrides.remove_extra_whitespaces),
        (0x28, overrides.escape_whitespaces),
    ];
    let given = options.iter().filter_map(|(tag, value)| value.map(|is_on| [*tag, is_on as u8]));
    let message = given.collect::<Vec<_>>().concat();
    for field in [NORMALIZER, DENORMALIZER] {
        model.extend([field, message.len() as u8]);
        model.extend(&message);
    }
}

fn as_id(id: u32) -> i32 {
    i32::try_from(id).expect("a model has fewer than 2^31 pieces")
}

impl Vocabulary for SentencePiece {
    fn name(&self) -> String {
        let SentencePieceVocabulary { sentencepiece_model_file, extra_ids, .. } = &self.spec;
        format!("SentencePieceVocabulary(file={sentencepiece_model_file}, extra_ids={extra_ids})")
    }

    /// Returns the number of pieces; like SeqIO, it includes the extra ids, which are pieces after
    /// loading.
    fn vocab_size(&self) -> usize {
        self.num_pieces
    }

    fn base_vocab_size(&self) -> usize {
        self.num_pieces
    }

    fn bos_id(&self) -> Option<i32> {
        self.processor.bos_id().map(as_id)
    }

    fn eos_id(&self) -> Option<i32> {
        self.processor.eos_id().map(as_id)
    }

    fn unk_id(&self) -> Option<i32> {
        Some(as_id(self.processor.unk_id()))
    }

    /// Returns the model, with extra ids and options.
    fn content(&self) -> Option<Vec<u8>> {
        Some(self.processor.to_serialized_proto().to_vec())
    }

    fn piece_texts(&self) -> Result<Vec<Option<PieceText>>, String> {
        let bytes = self.processor.to_serialized_proto();
        let model = ModelProto::parse(&bytes).ok_or("its model is broken")?;
        if model.treat_whitespace_as_suffix {
            return Err("its pieces end in spaces".to_string());
        }
        let rules = &model.normalizer;
        let drops_first = rules.add_dummy_prefix || rules.remove_extra_whitespaces;
        let text = |piece: &PieceProto<'_>| {
            let text = std::str::from_utf8(piece.piece).ok()?;
            match piece.kind {
                PieceKind::Byte => byte_of(text).map(|byte| PieceText::everywhere(vec![byte])),
                PieceKind::Normal => Some(PieceText::of_piece(text, drops_first)),
                PieceKind::UserDefined if !text.contains(SENTINEL) => {
                    Some(PieceText::of_piece(text, drops_first))
                }
                _ => None,
            }
        };
        Ok(model.pieces.iter().map(text).collect())
    }

    fn encode_into(&self, text: &str, ids: &mut Vec<i32>) {
        self.encoder.encode_into(text, ids);
    }

    fn piece(&self, id: i32) -> String {
        let known = usize::try_from(id).ok().and_then(|id| self.pieces().get(id));
        known.cloned().unwrap_or_else(|| super::no_piece(id))
    }

    /// Treats negative ids as unknown; SeqIO passes them on, and the C++ library then fails.
    fn decode_clean(&self, ids: &[i32]) -> String {
        let unk = self.processor.unk_id();
        let ids: Vec<u32> = ids.iter().map(|&id| u32::try_from(id).unwrap_or(unk)).collect();
        self.processor.decode_piece_ids(&ids).expect("every id is a piece of the model")
    }
}

#[cfg(test)]
mod tests;
