//! The pieces and settings of a BERT's tokenizer in a folder of Hugging Face's transformers. Source: transformers
//! `models/bert/tokenization_bert.py`.

use serde_json::{Value, json};

use super::bert::{CONTINUES, LONGEST_WORD, SPECIAL_TOKENS, UNKNOWN};
use crate::VocabError;
use gimlet_storage::Path;

/// The list of pieces, one a line, and the file with all of a tokenizer, which version 5 writes.
pub(super) const PIECES: &str = "vocab.txt";
pub(super) const TOKENIZER: &str = "tokenizer.json";

/// The tokenizer of a BERT's folder.
#[derive(Debug)]
pub struct BertFolder {
    /// The file with its pieces.
    pub pieces: Path,
    /// Whether it folds case.
    pub folds_case: bool,
}

impl BertFolder {
    /// Finds the tokenizer of a folder; `None` if it has none.
    ///
    /// # Errors
    /// A file cannot be read, or has settings that [`super::BertTokenizer`] lacks.
    pub fn at(folder: &Path) -> Result<Option<Self>, VocabError> {
        let (pieces, tokenizer) = (folder.join(PIECES), folder.join(TOKENIZER));
        if pieces.exists()? {
            return Ok(Some(Self { pieces, folds_case: bert_folds_case(folder)? }));
        }
        if !tokenizer.exists()? {
            return Ok(None);
        }
        let folds_case = read(&tokenizer)?["normalizer"]["lowercase"].as_bool().unwrap_or(true);
        Ok(Some(Self { pieces: tokenizer, folds_case }))
    }
}

/// Whether a file of pieces is a `tokenizer.json`.
pub(super) fn is_tokenizer(path: &Path) -> bool {
    path.as_str().ends_with(".json")
}

/// Returns the pieces of a `tokenizer.json`, in the order of their ids.
///
/// # Errors
/// The file cannot be read, or has settings that [`super::BertTokenizer`] lacks.
pub(super) fn pieces(path: &Path) -> Result<Vec<String>, VocabError> {
    let tokenizer = read(path)?;
    let ids = tokenizer["model"]["vocab"].as_object();
    let id = |id: &Value| id.as_u64().unwrap_or(u64::MAX);
    let mut pieces: Vec<(u64, &String)> =
        ids.into_iter().flatten().map(|(piece, value)| (id(value), piece)).collect();
    pieces.sort_unstable();
    match (0..).zip(&pieces).find(|(expected, (found, _))| expected != found) {
        None => Ok(pieces.into_iter().map(|(_, piece)| piece.clone()).collect()),
        Some((expected, (_, piece))) => Err(bad(
            path,
            format!("its piece `{piece}` is not at {expected}, expected each id from 0 on once"),
        )),
    }
}

/// Reads a `tokenizer.json`.
pub(super) fn read(path: &Path) -> Result<Value, VocabError> {
    let tokenizer: Value = serde_json::from_slice(&path.read()?)
        .map_err(|error| bad(path, format!("it is not JSON: {error}")))?;
    let folds_case = &tokenizer["normalizer"]["lowercase"];
    let known = [
        ("/model/type", json!("WordPiece")),
        ("/model/unk_token", json!(UNKNOWN)),
        ("/model/continuing_subword_prefix", json!(CONTINUES)),
        ("/model/max_input_chars_per_word", json!(LONGEST_WORD)),
        ("/normalizer/type", json!("BertNormalizer")),
        ("/normalizer/clean_text", json!(true)),
        ("/normalizer/handle_chinese_chars", json!(true)),
        ("/pre_tokenizer/type", json!("BertPreTokenizer")),
    ];
    let null = Value::Null;
    for (key, expected) in known {
        let found = tokenizer.pointer(key).unwrap_or(&null);
        if *found != expected {
            return Err(bad(path, format!("its `{key}` is {found}, expected {expected}")));
        }
    }
    let strips = &tokenizer["normalizer"]["strip_accents"];
    if !strips.is_null() && strips != folds_case {
        return Err(bad(
            path,
            format!("its `/normalizer/strip_accents` is {strips}, expected null or {folds_case}"),
        ));
    }
    let added = tokenizer["added_tokens"].as_array().into_iter().flatten();
    let added = added.filter_map(|token| token["content"].as_str());
    match added.into_iter().find(|token| !SPECIAL_TOKENS.contains(token)) {
        None => Ok(tokenizer),
        Some(token) => Err(bad(
            path,
            format!(
                "it adds the token `{token}`, expected none beside {}",
                SPECIAL_TOKENS.join(", ")
            ),
        )),
    }
}

fn bad(path: &Path, reason: String) -> VocabError {
    VocabError::HuggingFace { path: path.to_string(), reason }
}

/// Whether the tokenizer of a folder folds case: `do_lower_case` of its `tokenizer_config.json`, true by default.
///
/// # Errors
/// The file cannot be read, is not JSON, or has settings that [`super::BertTokenizer`] lacks.
pub fn bert_folds_case(folder: &Path) -> Result<bool, VocabError> {
    let file = folder.join("tokenizer_config.json");
    if !file.exists()? {
        return Ok(true);
    }
    let bad = |reason: String| bad(&file, reason);
    let config: Value = serde_json::from_slice(&file.read()?)
        .map_err(|error| bad(format!("it is not JSON: {error}")))?;
    let folds_case = config["do_lower_case"].as_bool().unwrap_or(true);
    // The values that are possible beside null.
    let known = [
        ("do_lower_case", vec![json!(true), json!(false)]),
        ("strip_accents", vec![json!(folds_case)]),
        ("tokenize_chinese_chars", vec![json!(true)]),
        ("tokenizer_class", vec![json!("BertTokenizer"), json!("BertTokenizerFast")]),
    ];
    for (key, values) in known {
        let found = &config[key];
        if !found.is_null() && !values.contains(found) {
            let values: Vec<String> = values.iter().map(Value::to_string).collect();
            let expected = values.join(" or ");
            return Err(bad(format!(
                "its `{key}` is {found}, expected {expected}, or no such key"
            )));
        }
    }
    Ok(folds_case)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(config: &str) -> Result<bool, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tokenizer_config.json"), config).unwrap();
        bert_folds_case(&Path::try_from(folder.path()).unwrap()).map_err(|error| error.to_string())
    }

    const PIECES: [&str; 7] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b"];

    /// A `tokenizer.json` as version 5 writes it.
    fn tokenizer() -> Value {
        let ids: serde_json::Map<String, Value> =
            PIECES.iter().zip(0..).map(|(piece, id)| (piece.to_string(), json!(id))).collect();
        json!({
            "added_tokens": PIECES[..5].iter().map(|piece| json!({"content": piece})).collect::<Vec<_>>(),
            "normalizer": {
                "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
                "lowercase": false
            },
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "model": {
                "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100, "vocab": ids
            }
        })
    }

    fn found(tokenizer: &Value) -> Result<(Vec<String>, bool), String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(TOKENIZER), tokenizer.to_string()).unwrap();
        let found = BertFolder::at(&Path::try_from(folder.path()).unwrap());
        let found = found.map_err(|error| error.to_string())?.unwrap();
        let pieces = pieces(&found.pieces).map_err(|error| error.to_string())?;
        Ok((pieces, found.folds_case))
    }

    #[test]
    fn a_tokenizer_json_has_the_pieces_and_the_settings() {
        assert_eq!(found(&tokenizer()), Ok((PIECES.map(str::to_string).to_vec(), false)));
        let empty = tempfile::tempdir().unwrap();
        assert!(BertFolder::at(&Path::try_from(empty.path()).unwrap()).unwrap().is_none());
        for (place, value, expected) in [
            ("/model/type", json!("BPE"), "its `/model/type` is \"BPE\", expected \"WordPiece\""),
            ("/normalizer/strip_accents", json!(true), "is true, expected null or false"),
            ("/added_tokens/0/content", json!("<x>"), "it adds the token `<x>`, expected none"),
            ("/model/vocab/a", json!(9), "its piece `##b` is not at 5"),
        ] {
            let mut changed = tokenizer();
            *changed.pointer_mut(place).unwrap() = value;
            let error = found(&changed).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn settings_of_transformers_are_read_or_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        assert!(bert_folds_case(&Path::try_from(folder.path()).unwrap()).unwrap());
        let usual = r#"{"do_lower_case": false, "strip_accents": null, "tokenize_chinese_chars": true,
            "tokenizer_class": "BertTokenizer", "unk_token": "[UNK]"}"#;
        assert_eq!(read(usual), Ok(false));
        assert_eq!(
            read(r#"{"strip_accents": true, "tokenizer_class": "BertTokenizerFast"}"#),
            Ok(true)
        );
        let refused = |config: &str, expected: &str| {
            let error = read(config).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        refused(r#"{"strip_accents": false}"#, "its `strip_accents` is false, expected true,");
        refused(
            r#"{"do_lower_case": false, "strip_accents": true}"#,
            "`strip_accents` is true, expected false",
        );
        refused(
            r#"{"do_lower_case": "yes"}"#,
            "its `do_lower_case` is \"yes\", expected true or false",
        );
        refused(r#"{"tokenize_chinese_chars": false}"#, "its `tokenize_chinese_chars` is false");
        refused(r#"{"tokenizer_class": "BertJapaneseTokenizer"}"#, "BertJapaneseTokenizer");
        refused("{", "it is not JSON");
    }
}
