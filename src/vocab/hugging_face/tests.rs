//! Compares ids and texts with those of transformers, for folders that `hugging_face.py` describes.

use serde_json::json;

use super::*;
use crate::{VocabularySpec, hugging_face_tokenizer, tokenizer_json};

const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/pipeline/data/reference");

fn reference() -> Value {
    let text = std::fs::read(format!("{REFERENCE}/hugging_face.json")).expect("it is readable");
    serde_json::from_slice(&text).expect("it is JSON")
}

/// Writes a folder, with the pieces and the charsmap that the reference leaves out.
fn written(files: &Value) -> tempfile::TempDir {
    let model = std::fs::read(format!("{REFERENCE}/sentencepiece.model")).expect("it is readable");
    let dir = tempfile::tempdir().expect("a folder");
    for (name, content) in files.as_object().expect("files by name") {
        let mut content = content.clone();
        if name == "tokenizer.json" {
            let vocab = &mut content["model"]["vocab"];
            let sentinels = vocab.as_u64().expect("a number of sentinels");
            let whole = tokenizer_json(&model, sentinels as usize).expect("a unigram model");
            *vocab = whole["model"]["vocab"].clone();
            let normalizer = &mut content["normalizer"];
            let first = match normalizer["type"] == "Sequence" {
                true => &mut normalizer["normalizers"][0],
                false => normalizer,
            };
            first["precompiled_charsmap"] = whole["normalizer"]["precompiled_charsmap"].clone();
        }
        let bytes = match name.ends_with(".json") {
            true => content.to_string().into_bytes(),
            false => model.clone(),
        };
        std::fs::write(dir.path().join(name), bytes).expect("it is writable");
    }
    dir
}

fn file(dir: &tempfile::TempDir) -> Path {
    let tokenizer = dir.path().join("tokenizer.json");
    let config = dir.path().join("tokenizer_config.json");
    let file = if tokenizer.exists() { tokenizer } else { config };
    Path::try_from(&*file).expect("a path")
}

fn ints(ids: &Value) -> Vec<i32> {
    serde_json::from_value(ids.clone()).expect("ids")
}

#[test]
fn ids_and_texts_equal_those_of_transformers() {
    let reference = reference();
    let lines = reference["lines"].as_array().expect("lines");
    for folder in reference["folders"].as_array().expect("folders") {
        let (name, dir) = (&folder["name"], written(&folder["files"]));
        let found = hugging_face_tokenizer(&file(&dir)).expect("a tokenizer");
        let vocabulary = found.vocabulary.build().expect("a vocabulary");
        assert_eq!(json!(vocabulary.vocab_size()), folder["size"], "{name}");
        assert_eq!(json!(vocabulary.eos_id()), folder["eos"], "{name}");
        assert_eq!(json!(found.appends_eos), folder["ends"], "{name}");
        let ids = folder["ids"].as_array().expect("ids of lines");
        for (line, ids) in lines.iter().zip(ids) {
            let line = line.as_str().expect("text");
            assert_eq!(vocabulary.encode(line), ints(ids), "{name}: {line:?}");
        }
        let is_sentinel = |id: &i32| vocabulary.piece(*id).starts_with("<extra_id_");
        let texts = folder["texts"].as_array().expect("texts");
        let more = folder["decode"].as_array().expect("more ids");
        for (ids, text) in ids.iter().chain(more).zip(texts) {
            let mut ids = ints(ids);
            ids.retain(|id| !is_sentinel(id));
            assert_eq!(
                vocabulary.decode_clean(&ids),
                text.as_str().expect("text"),
                "{name}: {ids:?}"
            );
        }
    }
}

fn files_of(name: &str) -> Value {
    let reference = reference();
    let mut folders = reference["folders"].as_array().expect("folders").iter();
    folders.find(|folder| folder["name"] == name).expect("a folder")["files"].clone()
}

#[test]
fn a_vocabulary_is_the_same_in_either_file_unless_tokens_were_added() {
    let model = SentencePieceVocabulary {
        sentencepiece_model_file: format!("{REFERENCE}/sentencepiece.model"),
        extra_ids: 4,
        reverse_extra_ids: true,
        normalizer_spec_overrides: None,
    };
    let model = VocabularySpec::SentencePiece(model);
    for (name, expected) in [("t5", true), ("added", false)] {
        let dir = written(&files_of(name));
        let found = hugging_face_tokenizer(&file(&dir)).expect("a tokenizer").vocabulary;
        assert_eq!(model.is_same_as(&found).expect("both are readable"), expected);
        let sentinel = found.build().expect("a vocabulary").first_sentinel_id();
        assert_eq!(sentinel, model.build().expect("a vocabulary").first_sentinel_id());
    }
}

#[test]
fn sentinels_are_shown_as_seqio_shows_them() {
    let dir = written(&files_of("t5"));
    let found = hugging_face_tokenizer(&file(&dir)).expect("a tokenizer");
    let vocabulary = found.vocabulary.build().expect("a vocabulary");
    let ids = [vocabulary.encode("<extra_id_0> di <extra_id_3>"), vec![1, 5]].concat();
    assert_eq!(vocabulary.decode(&ids), "<extra_id_0> di<extra_id_3>");
}

#[test]
fn other_tokenizers_are_refused_by_name() {
    for (name, pointer, value, part) in [
        ("t5", "/tokenizer.json/model/type", json!("BPE"), "its model is BPE, expected Unigram"),
        (
            "t5",
            "/tokenizer_config.json/tokenizer_class",
            json!("LlamaTokenizer"),
            "tokenizer_class is `LlamaTokenizer`, expected T5Tokenizer",
        ),
        (
            "t5",
            "/tokenizer_config.json/pad_token",
            json!("</s>"),
            "pad_token has the id 1, expected 0",
        ),
        (
            "backend",
            "/tokenizer.json/pre_tokenizer",
            json!({"type": "Digits"}),
            r#"a step {"type":"Digits"}, expected WhitespaceSplit"#,
        ),
        (
            "backend",
            "/tokenizer.json/post_processor",
            json!({"type": "ByteLevel"}),
            r#"its post_processor is "ByteLevel", expected TemplateProcessing"#,
        ),
        ("backend", "/tokenizer.json/normalizer", json!({"type": "Nmt"}), "a step `Nmt`, expected"),
    ] {
        let mut files = files_of(name);
        *files.pointer_mut(pointer).expect("it is there") = value;
        if pointer.ends_with("normalizer") {
            // There is no charsmap to fill in.
            let steps = json!([{"type": "Precompiled"}, {"type": "Nmt"}]);
            files["tokenizer.json"]["normalizer"] =
                json!({"type": "Sequence", "normalizers": steps});
        }
        let dir = written(&files);
        let said = hugging_face_tokenizer(&file(&dir)).expect_err("it is refused").to_string();
        assert!(said.contains(part), "{said}");
    }
}
