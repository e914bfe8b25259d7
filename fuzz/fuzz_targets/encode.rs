//! Our SentencePiece encoder finds the ids of the C++ library, whatever the text and the model.

#![no_main]

use std::sync::{Arc, LazyLock};

use gimlet::vocab::{SentencePieceVocabulary, Vocabulary, VocabularySpec};
use libfuzzer_sys::fuzz_target;
use sentencepiece::SentencePieceProcessor;

/// Unigram; BPE; BPE with bytes; characters; words.
const MODELS: [&str; 5] = [
    "sentencepiece.model",
    "sentencepiece/bpe.model",
    "sentencepiece/bpe_bytes.model",
    "sentencepiece/char.model",
    "sentencepiece/word.model",
];

struct Both {
    name: &'static str,
    ours: Arc<dyn Vocabulary>,
    theirs: SentencePieceProcessor,
}

static ALL: LazyLock<Vec<Both>> = LazyLock::new(|| {
    let load = |name: &'static str| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/pipeline/data/reference");
        let path = format!("{folder}/{name}");
        let spec = VocabularySpec::SentencePiece(SentencePieceVocabulary {
            sentencepiece_model_file: path.clone(),
            extra_ids: 0,
            reverse_extra_ids: true,
            normalizer_spec_overrides: None,
        });
        let ours = spec.build().expect("the model is usable");
        let theirs = SentencePieceProcessor::open(&path).expect("the model is usable");
        Both { name, ours, theirs }
    };
    MODELS.map(load).into()
});

fuzz_target!(|text: &str| {
    for Both { name, ours, theirs } in ALL.iter() {
        let expected = theirs.encode(text).expect("any text is encoded");
        let expected: Vec<i32> = expected.iter().map(|piece| piece.id as i32).collect();
        assert_eq!(ours.encode(text), expected, "{name}");
    }
});
