//! The settings of a BERT's tokenizer in a folder of Hugging Face's transformers. Source: transformers
//! `models/bert/tokenization_bert.py`.

use serde_json::{Value, json};

use crate::VocabError;
use gimlet_storage::Path;

/// Whether the tokenizer of a folder folds case: `do_lower_case` of its `tokenizer_config.json`, true by default.
///
/// # Errors
/// The file cannot be read, is not JSON, or has settings that [`super::BertTokenizer`] lacks.
pub fn bert_folds_case(folder: &Path) -> Result<bool, VocabError> {
    let file = folder.join("tokenizer_config.json");
    if !file.exists()? {
        return Ok(true);
    }
    let bad = |reason: String| VocabError::HuggingFace { path: file.to_string(), reason };
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
