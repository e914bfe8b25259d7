//! SentencePiece as SeqIO uses it; the reference was made with
//! `reference/sentencepiece_reference.py`.

use gimlet::vocab::{SentencePieceVocabulary, VocabularySpec};

use super::*;

fn spec(extra_ids: usize, reverse_extra_ids: bool) -> VocabularySpec {
    VocabularySpec::SentencePiece(SentencePieceVocabulary {
        sentencepiece_model_file: reference("sentencepiece.model").display().to_string(),
        extra_ids,
        reverse_extra_ids,
        normalizer_spec_overrides: None,
    })
}

#[test]
fn ids_and_texts_equal_those_of_seqio() {
    let reference = reference_json("sentencepiece.json");
    let lines = reference["lines"].as_array().unwrap();
    for expected in reference["vocabularies"].as_array().unwrap() {
        let extra_ids = expected["extra_ids"].as_u64().unwrap() as usize;
        let spec = spec(extra_ids, expected["reverse_extra_ids"].as_bool().unwrap());
        let vocabulary = spec.build().unwrap();
        assert_eq!(serde_json::json!(vocabulary.vocab_size()), expected["vocab_size"]);
        assert_eq!((vocabulary.eos_id(), vocabulary.unk_id()), (Some(1), Some(2)));
        for ((line, ids), text) in (lines.iter().zip(expected["ids"].as_array().unwrap()))
            .zip(expected["texts"].as_array().unwrap())
        {
            let line = line.as_str().unwrap();
            assert_eq!(vocabulary.encode(line), ints(ids), "{line:?}");
            assert_eq!(vocabulary.decode(&ints(ids)), text.as_str().unwrap(), "{line:?}");
        }
        let odd = expected["odd_ids"].as_array().unwrap();
        for (ids, text) in odd.iter().zip(expected["odd_texts"].as_array().unwrap()) {
            assert_eq!(vocabulary.decode(&ints(ids)), text.as_str().unwrap(), "{ids}");
        }
    }
}

/// The reference was made with `reference/sentencepiece/make.py`.
#[test]
fn ids_of_other_kinds_of_models_equal_those_of_pypi() {
    let lines = reference_json("sentencepiece.json")["lines"].clone();
    let reference = reference_json("sentencepiece/ids.json");
    for (model, ids) in reference.as_object().unwrap() {
        let spec = VocabularySpec::SentencePiece(SentencePieceVocabulary {
            sentencepiece_model_file: reference_path(model),
            extra_ids: 0,
            reverse_extra_ids: true,
            normalizer_spec_overrides: None,
        });
        let vocabulary = spec.build().unwrap();
        for (line, ids) in lines.as_array().unwrap().iter().zip(ids.as_array().unwrap()) {
            let line = line.as_str().unwrap();
            assert_eq!(vocabulary.encode(line), ints(ids), "{model}: {line:?}");
        }
    }
}

fn reference_path(model: &str) -> String {
    reference(&format!("sentencepiece/{model}.model")).display().to_string()
}

#[test]
fn the_first_sentinel_is_the_last_id() {
    let vocabulary = spec(100, true).build().unwrap();
    assert_eq!(vocabulary.vocab_size(), 1100);
    let sentinel = vocabulary.encode("<extra_id_0>");
    assert_eq!(sentinel.last(), Some(&1099));
    assert_eq!(vocabulary.decode(&[1099]), "<extra_id_0>");
}

#[test]
fn equal_specs_share_a_model() {
    let (a, b) = (spec(100, true).build().unwrap(), spec(100, true).build().unwrap());
    assert!(Arc::ptr_eq(&a, &b));
}

#[test]
fn a_bad_model_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.model");
    let model = std::fs::read(reference("sentencepiece.model")).unwrap();
    std::fs::write(&path, &model[..model.len() / 2]).unwrap();
    for (file, expected) in [
        (path.display().to_string(), "is not a usable SentencePiece model"),
        ("/nowhere/x.model".to_string(), "cannot read `/nowhere/x.model`: not found"),
    ] {
        let spec = VocabularySpec::SentencePiece(SentencePieceVocabulary {
            sentencepiece_model_file: file.clone(),
            extra_ids: 0,
            reverse_extra_ids: true,
            normalizer_spec_overrides: None,
        });
        let error = spec.build().unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(&file), "{error}");
    }
}
