//! A SentencePiece model with SeqIO's extra ids.

use sentencepiece::SentencePieceProcessor;

use super::spec::SentencePieceVocabulary;
use super::unigram::Unigram;
use super::{VocabError, Vocabulary};
use crate::storage::Path;

/// A loaded model.
pub(super) struct SentencePiece {
    spec: SentencePieceVocabulary,
    processor: SentencePieceProcessor,
    /// Encodes unigram models, which is what T5 uses; the processor encodes all others.
    unigram: Option<Unigram>,
    num_pieces: usize,
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
        let processor = SentencePieceProcessor::from_serialized_proto(&model).map_err(|error| {
            let mut reason = format!("{error}; was the download cut short?");
            if spec.extra_ids > 0 {
                reason.push_str(" if it holds `<extra_id_0>` already, set `extra_ids = 0`");
            }
            VocabError::Model { path: path.to_string(), reason }
        })?;
        let num_pieces = processor.len();
        let unigram = Unigram::new(&model);
        Ok(Self { spec: spec.clone(), processor, unigram, num_pieces })
    }
}

/// Adds user-defined pieces `▁<extra_id_i>` behind the model's own, as SeqIO's `_load_model` does.
/// A protobuf's repeated field may go on anywhere in the message, so appending is enough.
fn append_extra_ids(model: &mut Vec<u8>, spec: &SentencePieceVocabulary) {
    const PIECES: u8 = 0x0a; // ModelProto.pieces
    const PIECE: u8 = 0x0a; // SentencePiece.piece
    const SCORE: u8 = 0x15; // SentencePiece.score, 0.0
    const TYPE: u8 = 0x18; // SentencePiece.type
    const USER_DEFINED: u8 = 4;
    let order: Vec<usize> = match spec.reverse_extra_ids {
        true => (0..spec.extra_ids).rev().collect(),
        false => (0..spec.extra_ids).collect(),
    };
    for i in order {
        let piece = format!("▁<extra_id_{i}>");
        let mut message = vec![PIECE, piece.len() as u8];
        message.extend(piece.bytes());
        message.extend([SCORE, 0, 0, 0, 0, TYPE, USER_DEFINED]);
        model.extend([PIECES, message.len() as u8]);
        model.extend(message);
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

    /// SeqIO counts the extra ids among the model's pieces, where they are after loading.
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

    fn encode_into(&self, text: &str, ids: &mut Vec<i32>) {
        if let Some(unigram) = &self.unigram {
            return unigram.encode_into(text, ids);
        }
        let pieces = self.processor.encode(text).expect("a loaded model encodes any text");
        ids.extend(pieces.iter().map(|piece| as_id(piece.id)));
    }

    /// Negative ids become unknown; SeqIO passes them on, and the C++ library then fails.
    fn decode_clean(&self, ids: &[i32]) -> String {
        let unk = self.processor.unk_id();
        let ids: Vec<u32> = ids.iter().map(|&id| u32::try_from(id).unwrap_or(unk)).collect();
        self.processor.decode_piece_ids(&ids).expect("every id is a piece of the model")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    fn model() -> SentencePiece {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pipeline/data/reference");
        let spec = SentencePieceVocabulary {
            sentencepiece_model_file: format!("{folder}/sentencepiece.model"),
            extra_ids: 100,
            reverse_extra_ids: true,
        };
        SentencePiece::load(&spec).unwrap()
    }

    /// Text of the model's own pieces, marks, and characters it has never seen.
    fn text(pieces: std::ops::Range<usize>) -> impl Strategy<Value = String> {
        let word = prop_oneof![
            8 => "[a-z]{1,6}",
            2 => "(ba|ce|lon|mer|ș|ță|е|д|日本){1,4}",
            4 => "[ \t\u{a0}\u{3000}]{1,3}",
            2 => "[!-~]{1,3}",
            1 => "(▁|<extra_id_[0-9]{1,2}>|▁<extra_id_[0-9]>)",
            1 => "[e-z][\u{300}-\u{330}]{1,2}",
            1 => "\\PC{1,4}",
            1 => any::<char>().prop_map(String::from),
        ];
        prop::collection::vec(word, pieces).prop_map(|words| words.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 2000,
            rng_seed: RngSeed::Fixed(1),
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn ids_equal_those_of_the_cpp_library(text in text(0..40)) {
            same_ids(&text);
        }
    }

    thread_local! {
        static MODEL: SentencePiece = model();
    }

    fn same_ids(text: &str) {
        MODEL.with(|model| {
            let expected: Vec<i32> =
                model.processor.encode(text).unwrap().iter().map(|piece| as_id(piece.id)).collect();
            assert_eq!(model.encode(text), expected, "{text:?}");
        });
    }

    #[test]
    fn ids_are_equal_where_scores_of_long_texts_lose_precision() {
        let words = ["bacelon", "di", "șață", "fogu", "xyz", "merha", "q", "日本語", "."];
        let long: Vec<&str> = (0..60_000usize).map(|i| words[i * i % 11 % words.len()]).collect();
        same_ids(&long.join(" "));
        same_ids(&long.concat());
    }
}
