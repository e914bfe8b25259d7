//! The tokenizer of a folder of Hugging Face's transformers as gin, and the meaning of every key of its files.

use serde_json::{Map, Value};

use crate::checkpoint::{
    KeyFate::{self, Honoured, NoEffect, Refused},
    KeyTable, check_keys,
};
use crate::storage::Path;
use crate::telemetry::warn_once;
use crate::vocab::{HuggingFaceTokenizer, VocabularySpec, hugging_face_tokenizer};

/// The file with the pieces that version 5 writes.
const TOKENIZER: &str = "tokenizer.json";

/// The file with the class and the options.
const CONFIG: &str = "tokenizer_config.json";

/// The files of older versions.
const SPECIAL_TOKENS: &str = "special_tokens_map.json";
const ADDED_TOKENS: &str = "added_tokens.json";

/// Keys of `tokenizer_config.json`, beside those of special tokens.
const CONFIG_KEYS: KeyTable = &[
    ("add_bos_token", NoEffect),
    ("add_eos_token", NoEffect),
    ("add_prefix_space", NoEffect),
    ("added_tokens_decoder", Honoured),
    (
        "auto_map",
        Refused { harmless: &["null"], reason: "the tokenizer is Python code of its own" },
    ),
    ("backend", NoEffect),
    ("chat_control_tokens", NoEffect),
    ("chat_template", NoEffect),
    ("clean_up_tokenization_spaces", Honoured),
    ("clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", NoEffect),
    ("device_map", NoEffect),
    ("do_lower_case", NoEffect),
    ("errors", NoEffect),
    ("extra_ids", Honoured),
    ("files_loaded", NoEffect),
    ("from_slow", NoEffect),
    ("init_inputs", Refused { harmless: &["[]"], reason: "they are arguments of Python" }),
    ("is_local", NoEffect),
    ("keep_accents", NoEffect),
    ("legacy", NoEffect),
    ("local_files_only", NoEffect),
    ("max_length", NoEffect),
    ("model_input_names", NoEffect),
    ("model_max_length", NoEffect),
    ("name_or_path", NoEffect),
    ("pad_to_multiple_of", NoEffect),
    ("pad_token_type_id", NoEffect),
    ("padding_side", NoEffect),
    ("processor_class", NoEffect),
    ("response_schema", NoEffect),
    ("response_template", NoEffect),
    ("revision", NoEffect),
    ("slow_tokenizer_class", NoEffect),
    ("sp_model_kwargs", NoEffect),
    ("special_tokens_map_file", NoEffect),
    (
        "split_special_tokens",
        Refused { harmless: &["false"], reason: "special tokens are always found as a whole" },
    ),
    ("stride", NoEffect),
    ("tokenizer_class", Honoured),
    ("tokenizer_file", NoEffect),
    ("truncation", NoEffect),
    ("truncation_side", NoEffect),
    ("truncation_strategy", NoEffect),
    ("trust_remote_code", NoEffect),
    ("unk_id", NoEffect),
    ("use_fast", NoEffect),
    ("verbose", NoEffect),
    ("vocab_file", NoEffect),
];

/// Keys of special tokens, of which models may have more that end with `_token`.
const TOKEN_KEYS: KeyTable =
    &[("additional_special_tokens", Honoured), ("extra_special_tokens", Honoured)];

/// Keys of `tokenizer.json`.
const TOKENIZER_KEYS: KeyTable = &[
    ("added_tokens", Honoured),
    ("decoder", Honoured),
    ("model", Honoured),
    ("normalizer", Honoured),
    // Transformers switch both off unless a call asks for them.
    ("padding", NoEffect),
    ("truncation", NoEffect),
    ("post_processor", Honoured),
    ("pre_tokenizer", Honoured),
    ("version", NoEffect),
];

/// Keys of its `model`.
const MODEL_KEYS: KeyTable = &[
    ("alpha", SAMPLES),
    ("byte_fallback", Honoured),
    ("nbest_size", SAMPLES),
    ("type", Honoured),
    ("unk_id", Honoured),
    ("vocab", Honoured),
];

const SAMPLES: KeyFate =
    Refused { harmless: &["null"], reason: "it draws pieces at random, and answers would too" };

/// Returns the lines that bind VOCABULARY to the folder's tokenizer; `None` if it has a `spiece.model` alone, or nothing.
///
/// # Errors
/// A key is refused, the tokenizer is none of a T5, or it has more ids than the model.
pub fn tokenizer_lines(folder: &Path, vocab_size: usize) -> Result<Option<String>, String> {
    let tokenizer = object(folder, TOKENIZER)?;
    let config = object(folder, CONFIG)?;
    let special = object(folder, SPECIAL_TOKENS)?;
    let added = object(folder, ADDED_TOKENS)?;
    let file = match (&tokenizer, &config, &special, &added) {
        (Some(_), ..) => folder.join(TOKENIZER),
        (None, None, None, None) => return Ok(None),
        _ if is_byt5(config.as_ref()) || folder.join("spiece.model").exists().map_err(text)? => {
            folder.join(CONFIG)
        }
        _ => return Ok(None),
    };
    check(&folder.join(CONFIG), config, &[CONFIG_KEYS, TOKEN_KEYS])?;
    check(&folder.join(SPECIAL_TOKENS), special, &[TOKEN_KEYS])?;
    if let Some(tokenizer) = tokenizer {
        let model = tokenizer.get("model").and_then(Value::as_object).cloned();
        let kind = model.as_ref().and_then(|model| model.get("type"));
        let is_unigram = kind.is_some_and(|kind| kind == "Unigram");
        check(&folder.join(TOKENIZER), Some(tokenizer), &[TOKENIZER_KEYS])?;
        // Another kind of model is refused as such below.
        check(&folder.join(TOKENIZER), model.filter(|_| is_unigram), &[MODEL_KEYS])?;
    }
    let found = hugging_face_tokenizer(&file).map_err(text)?;
    if found.vocab_size > vocab_size {
        return Err(format!(
            "{file}: the tokenizer has {} ids, and config.json a vocab_size of {vocab_size}; expected no more ids than \
             rows of the embedding: resize the embedding (`resize_token_embeddings`), or remove the tokens added last",
            found.vocab_size
        ));
    }
    Ok(Some(lines(&found)))
}

fn lines(found: &HuggingFaceTokenizer) -> String {
    let quoted = |file: &str| serde_json::to_string(file).expect("a text becomes JSON");
    let vocabulary = match &found.vocabulary {
        VocabularySpec::Byte(spec) => {
            let file = spec.tokenizer_config.as_deref().unwrap_or_default();
            format!(
                "VOCABULARY = @seqio.ByteVocabulary()\nseqio.ByteVocabulary.tokenizer_config = {}\n",
                quoted(file)
            )
        }
        VocabularySpec::SentencePiece(spec) => format!(
            "VOCABULARY = @seqio.SentencePieceVocabulary()\n\
             seqio.SentencePieceVocabulary.sentencepiece_model_file = {}\n",
            quoted(&spec.sentencepiece_model_file)
        ),
        _ => unreachable!("a T5's tokenizer has pieces or bytes"),
    };
    match found.appends_eos {
        true => vocabulary,
        // Its post-processor appends nothing.
        false => format!(
            "{vocabulary}from t5x import interactive_model\ninteractive_model.InteractiveModel.add_eos = False\n"
        ),
    }
}

fn is_byt5(config: Option<&Map<String, Value>>) -> bool {
    let class = config.and_then(|config| config.get("tokenizer_class")).and_then(Value::as_str);
    class.is_some_and(|class| class.starts_with("ByT5"))
}

/// Checks the keys of a file, and prints a warning about unknown ones.
fn check(
    file: &Path,
    object: Option<Map<String, Value>>,
    tables: &[KeyTable],
) -> Result<(), String> {
    let Some(mut object) = object else { return Ok(()) };
    object.retain(|key, _| !key.ends_with("_token"));
    if let Some(notice) = check_keys(file, &object, tables)? {
        warn_once(&notice);
    }
    Ok(())
}

/// Reads a JSON object of the folder; `None` if the file does not exist.
fn object(folder: &Path, name: &str) -> Result<Option<Map<String, Value>>, String> {
    let file = folder.join(name);
    match file.read() {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| format!("{file}: it is not a JSON object: {error}")),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tokenizer(kind: &str) -> Value {
        let vocab = [["<pad>", "0"], ["</s>", "0"], ["<unk>", "0"], ["▁", "-2"], ["a", "-3"]];
        let vocab = vocab.map(|[piece, score]| json!([piece, score.parse::<f64>().unwrap()]));
        json!({"version": "1.0", "added_tokens": [], "model": {"type": kind, "unk_id": 2, "vocab": vocab}})
    }

    fn check(files: &[(&str, Value)], vocab_size: usize) -> Result<Option<String>, String> {
        let dir = tempfile::tempdir().expect("a folder");
        for (name, content) in files {
            std::fs::write(dir.path().join(name), content.to_string()).expect("it is writable");
        }
        let folder = Path::try_from(dir.path()).expect("a path");
        let lines = tokenizer_lines(&folder, vocab_size);
        lines.map(|lines| lines.map(|lines| lines.replace(folder.as_str(), "DIR")))
    }

    #[test]
    fn the_tokenizer_of_a_folder_is_the_vocabulary() {
        let config = |class: &str| (CONFIG, json!({"tokenizer_class": class, "extra_ids": 0}));
        let json = (TOKENIZER, tokenizer("Unigram"));
        let bound = |lines: Result<Option<String>, String>| lines.unwrap().unwrap();
        let found = bound(check(&[json.clone(), config("T5Tokenizer")], 5));
        assert!(found.ends_with("sentencepiece_model_file = \"DIR/tokenizer.json\"\n"), "{found}");
        // Nothing is appended by a file that does not say so.
        let found = bound(check(&[json, config("TokenizersBackend")], 5));
        assert!(found.ends_with("interactive_model.InteractiveModel.add_eos = False\n"), "{found}");
        let found = bound(check(&[config("ByT5Tokenizer")], 259));
        assert!(found.ends_with("tokenizer_config = \"DIR/tokenizer_config.json\"\n"), "{found}");
        assert_eq!(check(&[], 5), Ok(None));
    }

    #[test]
    fn tokenizers_that_do_not_fit_are_refused_with_the_reason() {
        let config = |key: &str, value: Value| (CONFIG, json!({"extra_ids": 0, key: value}));
        for (kind, config, part) in [
            ("BPE", config("legacy", json!(true)), "its model is BPE, expected Unigram"),
            (
                "Unigram",
                config("split_special_tokens", json!(true)),
                "`split_special_tokens` is true, expected false: special tokens are always found",
            ),
            (
                "Unigram",
                config("extra_special_tokens", json!(["<sep>"])),
                "the tokenizer has 6 ids, and config.json a vocab_size of 5",
            ),
        ] {
            let files = [
                (TOKENIZER, tokenizer(kind)),
                config,
                ("config.json", json!({"model_type": "t5"})),
            ];
            let said = check(&files, 5).expect_err("it is refused");
            assert!(said.contains(part), "{said}");
        }
    }
}
