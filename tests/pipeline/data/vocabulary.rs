//! SentencePiece in the way that SeqIO uses it; the reference was made with
//! `reference/sentencepiece_reference.py`.

use gimlet::vocab::{
    BertWordPieceVocabulary, NormalizationForm, NormalizerSpec, SentencePieceVocabulary,
    VocabularySpec,
};

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
    for (model, ids) in reference["models"].as_object().unwrap() {
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

#[test]
fn overridden_rules_of_normalization_are_those_of_seqio() {
    let lines = reference_json("sentencepiece.json")["lines"].clone();
    let reference = reference_json("sentencepiece/ids.json")["overridden"].clone();
    let spec = VocabularySpec::SentencePiece(SentencePieceVocabulary {
        sentencepiece_model_file: reference_path("../sentencepiece"),
        extra_ids: 5,
        reverse_extra_ids: true,
        normalizer_spec_overrides: Some(NormalizerSpec {
            add_dummy_prefix: Some(false),
            remove_extra_whitespaces: Some(false),
            escape_whitespaces: None,
        }),
    });
    let vocabulary = spec.build().unwrap();
    let found =
        reference["ids"].as_array().unwrap().iter().zip(reference["texts"].as_array().unwrap());
    for (line, (ids, text)) in lines.as_array().unwrap().iter().zip(found) {
        let line = line.as_str().unwrap();
        assert_eq!(vocabulary.encode(line), ints(ids), "{line:?}");
        assert_eq!(vocabulary.decode(&ints(ids)), text.as_str().unwrap(), "{line:?}");
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

#[test]
fn copies_of_a_file_are_one_vocabulary() {
    let folder = tempfile::tempdir().unwrap();
    let copy = |name: &str| {
        let path = folder.path().join(name);
        std::fs::copy(reference(name), &path).unwrap();
        path.display().to_string()
    };
    let at = |path: String, extra_ids| {
        VocabularySpec::SentencePiece(SentencePieceVocabulary {
            sentencepiece_model_file: path,
            extra_ids,
            reverse_extra_ids: true,
            normalizer_spec_overrides: None,
        })
    };
    let model = spec(5, true);
    let copied = copy("sentencepiece.model");
    assert!(model.is_same_as(&at(copied.clone(), 5)).unwrap());
    assert!(!model.is_same_as(&at(copied, 6)).unwrap());
    assert!(!model.is_same_as(&at(reference_path("bpe"), 5)).unwrap());
    let error = model.is_same_as(&at("/nowhere/x.model".to_string(), 5)).unwrap_err().to_string();
    assert!(error.contains("cannot read `/nowhere/x.model`"), "{error}");

    let lists = ["a.txt", "b.txt", "c.txt"].map(|name| folder.path().join(name));
    for (list, pieces) in lists.iter().zip(["[PAD]\nx\n", "[PAD]\nx\n", "[PAD]\ny\n"]) {
        std::fs::write(list, pieces).unwrap();
    }
    let [a, b, c] = lists.map(|list| BertWordPieceVocabulary::of(&list.display().to_string()));
    let lower = BertWordPieceVocabulary { lower_case: true, ..b.clone() };
    let a = VocabularySpec::BertWordPiece(a);
    for (other, is_same) in [(b, true), (c, false), (lower, false)] {
        assert_eq!(a.is_same_as(&VocabularySpec::BertWordPiece(other)).unwrap(), is_same);
    }
}

fn word_piece(options: &serde_json::Value) -> BertWordPieceVocabulary {
    let is_on = |key: &str| options[key].as_bool().unwrap_or(false);
    let number = |key: &str| options[key].as_u64().map(|number| number as usize);
    let text = |key: &str| options[key].as_str().map(str::to_string);
    BertWordPieceVocabulary {
        vocab_lookup_table: reference("word_piece/vocab.txt").display().to_string(),
        suffix_indicator: text("suffix_indicator").unwrap_or("##".to_string()),
        max_bytes_per_word: number("max_bytes_per_word").unwrap_or(100),
        max_chars_per_token: number("max_chars_per_token"),
        unknown_token: Some(text("unknown_token").unwrap_or("[UNK]".to_string())),
        split_unknown_characters: is_on("split_unknown_characters"),
        lower_case: is_on("lower_case"),
        keep_whitespace: is_on("keep_whitespace"),
        normalization_form: options["normalization_form"].as_str().map(|form| match form {
            "NFKC" => NormalizationForm::Nfkc,
            _ => NormalizationForm::Nfd,
        }),
        preserve_unused_token: is_on("preserve_unused_token"),
        pad_id: 0,
        start_of_sequence_id: 101,
        end_of_sequence_id: 102,
    }
}

/// The reference was made with `reference/word_piece/make.py`.
#[test]
fn word_pieces_equal_those_of_tensorflow_text() {
    let reference = reference_json("word_piece/word_piece.json");
    let shared = reference_json("sentencepiece.json")["lines"].clone();
    let lines = reference["lines"].as_array().unwrap().iter().chain(shared.as_array().unwrap());
    let lines: Vec<&str> = lines.map(|line| line.as_str().unwrap()).collect();
    for case in reference["cases"].as_array().unwrap() {
        let options = &case["options"];
        let vocabulary = VocabularySpec::BertWordPiece(word_piece(options)).build().unwrap();
        assert_eq!(serde_json::json!(vocabulary.vocab_size()), case["vocab_size"], "{options}");
        assert_eq!(serde_json::json!(vocabulary.unk_id()), case["unk_id"], "{options}");
        for (line, ids) in lines.iter().zip(case["ids"].as_array().unwrap()) {
            assert_eq!(vocabulary.encode(line), ints(ids), "{options}: {line:?}");
        }
        let decoded = reference["decoded"].as_array().unwrap();
        for (ids, text) in decoded.iter().zip(case["texts"].as_array().unwrap()) {
            assert_eq!(vocabulary.decode(&ints(ids)), text.as_str().unwrap(), "{options}: {ids}");
        }
    }
}

#[test]
fn a_list_with_a_piece_twice_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vocab.txt");
    std::fs::write(&path, "[UNK]\na\nb\na\n").unwrap();
    let spec = BertWordPieceVocabulary {
        vocab_lookup_table: path.display().to_string(),
        ..word_piece(&serde_json::Value::Null)
    };
    let error = VocabularySpec::BertWordPiece(spec).build().unwrap_err().to_string();
    assert!(error.ends_with("lines 2 and 4 are the same piece `a`"), "{error}");
}
