//! `tokenizer.json`, a vocabulary in the format of Hugging Face's `tokenizers`. Transformers 5
//! builds its `T5Tokenizer` from it, and without it needs the package `sentencepiece`; transformers
//! 4 builds its `T5TokenizerFast` from it.
//! Source: transformers 5.23 `models/t5/tokenization_t5.py`, tokenizers 0.22 `tokenizer/serialization.rs`.

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};

use super::model_proto::{ModelProto, ModelType, PieceKind};

/// The end of a text.
const END: &str = "</s>";

/// Converts a SentencePiece model, with so many sentinels after its pieces, in reversed order as in
/// every T5; `None` for models that a `T5Tokenizer` cannot represent, which are not unigram models
/// with the usual treatment of spaces.
pub fn tokenizer_json(model: &[u8], extra_ids: usize) -> Option<Value> {
    let model = ModelProto::parse(model)?;
    let normalizer = &model.normalizer;
    let is_usual = model.model_type == ModelType::Unigram
        && normalizer.add_dummy_prefix
        && normalizer.remove_extra_whitespaces
        && normalizer.escape_whitespaces
        && !model.treat_whitespace_as_suffix;
    if !is_usual {
        return None;
    }
    let (mut vocab, mut added, mut unknown, mut end) = (Vec::new(), Vec::new(), None, None);
    for (id, piece) in model.pieces.iter().enumerate() {
        let text = std::str::from_utf8(piece.piece).ok()?;
        vocab.push(json!([text, f64::from(piece.score)]));
        match piece.kind {
            PieceKind::Unknown => unknown = Some(id),
            PieceKind::Control if text == END => end = Some(id),
            _ => {}
        }
        let special = matches!(piece.kind, PieceKind::Control | PieceKind::Unknown);
        if special || piece.kind == PieceKind::UserDefined {
            added.push(token(id, text, special));
        }
    }
    for number in (0..extra_ids).rev() {
        let text = format!("<extra_id_{number}>");
        added.push(token(vocab.len(), &text, true));
        vocab.push(json!([text, 0.0]));
    }
    let charsmap = BASE64_STANDARD.encode(normalizer.precompiled_charsmap);
    Some(json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": match charsmap.is_empty() {
            true => Value::Null,
            false => json!({"type": "Precompiled", "precompiled_charsmap": charsmap}),
        },
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "WhitespaceSplit"}, spaces()],
        },
        "post_processor": with_end(end?),
        "decoder": spaces(),
        "model": {
            "type": "Unigram",
            "unk_id": unknown?,
            "vocab": vocab,
            "byte_fallback": model.byte_fallback,
        },
    }))
}

fn token(id: usize, content: &str, special: bool) -> Value {
    json!({
        "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": special,
    })
}

/// Adds a space before each word, written as in SentencePiece.
fn spaces() -> Value {
    json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true})
}

/// Adds the end after one text, and after each of a pair.
fn with_end(id: usize) -> Value {
    let text = |name: &str| json!({"Sequence": {"id": name, "type_id": 0}});
    let end = json!({"SpecialToken": {"id": END, "type_id": 0}});
    json!({
        "type": "TemplateProcessing",
        "single": [text("A"), end],
        "pair": [text("A"), end, text("B"), end],
        "special_tokens": {END: {"id": END, "ids": [id], "tokens": [END]}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/pipeline/data/reference/sentencepiece.model"
    );

    /// Shortens the JSON in the same way as `tokenizer_json.py` does for the output of
    /// transformers.
    fn shortened(mut json: Value) -> Value {
        let charsmap = &mut json["normalizer"]["precompiled_charsmap"];
        let sum = crc32c::crc32c(charsmap.as_str().unwrap().as_bytes());
        *charsmap = json!(sum);
        let vocab = json["model"]["vocab"].as_array_mut().unwrap();
        let length = vocab.len();
        vocab.drain(6..length - 6);
        vocab.push(json!(length));
        json
    }

    #[test]
    fn it_is_what_transformers_writes_for_the_same_model() {
        let expected: Value =
            serde_json::from_str(include_str!("tokenizer_json.golden.json")).unwrap();
        let found = tokenizer_json(&std::fs::read(MODEL).unwrap(), 4).unwrap();
        assert_eq!(shortened(found), expected);
    }

    #[test]
    fn only_unigram_models_have_one() {
        let folder = std::path::Path::new(MODEL).parent().unwrap().join("sentencepiece");
        for name in ["bpe.model", "char.model", "word.model"] {
            assert_eq!(tokenizer_json(&std::fs::read(folder.join(name)).unwrap(), 0), None);
        }
        assert_eq!(tokenizer_json(b"no model", 0), None);
    }
}
