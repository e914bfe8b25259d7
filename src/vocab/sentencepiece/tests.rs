//! Compares Gimlet's encoder with the C++ library, for models and texts of every kind.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/pipeline/data/reference");

/// Unigram; BPE; BPE with bytes, user-defined symbols and case folding; characters; words.
const MODELS: [&str; 5] = [
    "sentencepiece.model",
    "sentencepiece/bpe.model",
    "sentencepiece/bpe_bytes.model",
    "sentencepiece/char.model",
    "sentencepiece/word.model",
];

fn models() -> Vec<SentencePiece> {
    let overrides = [
        None,
        Some(NormalizerSpec {
            add_dummy_prefix: Some(false),
            remove_extra_whitespaces: Some(false),
            escape_whitespaces: None,
        }),
    ];
    let spec = |model: &&str, normalizer_spec_overrides: &Option<NormalizerSpec>| {
        SentencePieceVocabulary {
            sentencepiece_model_file: format!("{REFERENCE}/{model}"),
            extra_ids: 100,
            reverse_extra_ids: true,
            normalizer_spec_overrides: normalizer_spec_overrides.clone(),
        }
    };
    let specs = MODELS.iter().flat_map(|model| overrides.iter().map(move |o| spec(model, o)));
    specs.map(|spec| SentencePiece::load(&spec).expect("a model")).collect()
}

thread_local! {
    static LOADED: Vec<SentencePiece> = models();
}

fn expected(model: &SentencePiece, text: &str) -> Vec<i32> {
    model
        .processor
        .encode(text)
        .expect("any text is encoded")
        .iter()
        .map(|piece| as_id(piece.id))
        .collect()
}

fn same_ids(text: &str) {
    LOADED.with(|models| {
        for model in models {
            assert_eq!(model.encode(text), expected(model, text), "{model:?}: {text:?}");
        }
    });
}

/// Text of the models' own pieces, marks, and characters that the models do not contain.
fn text(pieces: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    let word = prop_oneof![
        8 => "[a-z]{1,6}",
        2 => "(ba|ce|lon|mer|ș|ță|е|д|日本){1,4}",
        4 => "[ \t\u{a0}\u{3000}]{1,3}",
        2 => "[!-~]{1,3}",
        1 => "(▁|<extra_id_[0-9]{1,2}>|▁<extra_id_[0-9]>|<sep>|lon<|</s>|<unk>|<0x41>)",
        1 => "[e-zA-Z][\u{300}-\u{330}]{1,2}",
        1 => "\\PC{1,4}",
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(word, pieces).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn ids_equal_those_of_the_cpp_library(text in text(0..40)) {
        same_ids(&text);
    }
}

#[test]
fn ids_are_equal_where_scores_of_long_texts_lose_precision() {
    let words = ["bacelon", "di", "șață", "fogu", "xyz", "merha", "q", "日本語", "."];
    let long: Vec<&str> = (0..60_000usize).map(|i| words[i * i % 11 % words.len()]).collect();
    let (spaced, concatenated) = (long.join(" "), long.concat());
    LOADED.with(|models| {
        for model in models.iter().step_by(2) {
            assert!(model.encode(&spaced) == expected(model, &spaced), "{model:?}");
            assert!(model.encode(&concatenated) == expected(model, &concatenated), "{model:?}");
        }
    });
}

/// Changes the type of a model's pieces.
fn retyped(model: &str, change: impl Fn(&str, i32) -> Option<u8>) -> Vec<u8> {
    let bytes = std::fs::read(format!("{REFERENCE}/{model}")).expect("it is readable");
    let parsed = ModelProto::parse(&bytes).expect("it is a model");
    let mut out = bytes.clone();
    let start = bytes.as_ptr() as usize;
    for (piece, id) in parsed.pieces.iter().zip(0..) {
        let text = std::str::from_utf8(piece.piece).expect("it is text");
        let Some(kind) = change(text, id) else { continue };
        // A normal piece states no type, only its text and its score, in five bytes. They are
        // replaced by the type, as a varint of four bytes.
        let at = piece.piece.as_ptr() as usize - start + piece.piece.len();
        assert_eq!(out[at], 0x15, "{text}");
        out[at..at + 5].copy_from_slice(&[0x18, kind | 0x80, 0x80, 0x80, 0x00]);
    }
    out
}

/// `SetVocabulary` marks pieces as unused, and so may a model file.
#[test]
fn unused_pieces_are_taken_apart_as_they_were_made() {
    const UNUSED: u8 = 5;
    for model in MODELS {
        let bytes = retyped(model, |piece, id| {
            (id > 400 && piece.chars().count() > 1 && id % 3 == 0).then_some(UNUSED)
        });
        let processor = SentencePieceProcessor::from_serialized_proto(&bytes).expect("a model");
        let encoder = Encoder::new(&bytes).expect("a model");
        let reference = std::fs::read_to_string(format!("{REFERENCE}/sentencepiece.json"))
            .expect("it is readable");
        let reference: serde_json::Value = serde_json::from_str(&reference).expect("it is JSON");
        for line in reference["lines"].as_array().expect("a list") {
            let line = line.as_str().expect("text");
            let expected = processor.encode(line).expect("any text is encoded");
            let expected: Vec<i32> = expected.iter().map(|piece| as_id(piece.id)).collect();
            let mut ids = Vec::new();
            encoder.encode_into(line, &mut ids);
            assert_eq!(ids, expected, "{model}: {line:?}");
        }
    }
}
