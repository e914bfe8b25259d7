//! The files beside a model from which transformers makes its tokenizer.

use serde_json::{Value, json};

use crate::checkpoint::error::CheckpointError;
use crate::storage::Path;

/// Ids of ByT5 that are no bytes: padding, end, unknown.
const BYTE_SPECIALS: [(&str, usize); 3] = [("<pad>", 0), ("</s>", 1), ("<unk>", 2)];

/// Files by name.
pub(super) type Files = Vec<(&'static str, Vec<u8>)>;

/// A SentencePiece model and what transformers' `T5Tokenizer` asks for.
pub(super) fn sentencepiece_files(
    vocabulary: &Path,
    extra_ids: usize,
) -> Result<Files, CheckpointError> {
    let mut config = specials(extra_ids);
    config["tokenizer_class"] = json!("T5Tokenizer");
    // Text after a special token is tokenized as SentencePiece does.
    config["legacy"] = json!(false);
    config["sp_model_kwargs"] = json!({});
    let mut files = both(&config, extra_ids);
    files.push(("spiece.model", vocabulary.read()?));
    Ok(files)
}

/// What transformers' `ByT5Tokenizer` asks for.
pub(super) fn byte_files(extra_ids: usize) -> Files {
    let mut config = specials(extra_ids);
    config["tokenizer_class"] = json!("ByT5Tokenizer");
    let decoder = BYTE_SPECIALS.map(|(content, id)| {
        let token = json!({"content": content, "lstrip": false, "normalized": true,
            "rstrip": false, "single_word": false, "special": true});
        (id.to_string(), token)
    });
    config["added_tokens_decoder"] = decoder.into_iter().collect();
    both(&config, extra_ids)
}

fn both(config: &Value, extra_ids: usize) -> Files {
    let mut specials = specials(extra_ids);
    specials.as_object_mut().expect("it is a map").remove("extra_ids");
    vec![("tokenizer_config.json", pretty(config)), ("special_tokens_map.json", pretty(&specials))]
}

fn specials(extra_ids: usize) -> Value {
    let extra: Vec<String> = (0..extra_ids).map(|id| format!("<extra_id_{id}>")).collect();
    json!({
        "additional_special_tokens": extra,
        "eos_token": "</s>",
        "extra_ids": extra_ids,
        "pad_token": "<pad>",
        "unk_token": "<unk>",
    })
}

/// JSON as transformers lays it out.
pub(super) fn pretty(value: &Value) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("plain data becomes JSON");
    text.push(b'\n');
    text
}
