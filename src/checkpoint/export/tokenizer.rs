//! The files beside a model from which transformers build its tokenizer.

use serde_json::{Value, json};

use crate::error::CheckpointError;
use gimlet_storage::Path;
use gimlet_vocab::{PieceCount, count_pieces, hugging_face_tokenizer, tokenizer_json};

/// Number of sentinels of a T5, which its SentencePiece model does not contain.
const T5_EXTRA_IDS: usize = 100;

/// Ids of ByT5 that are not bytes: padding, end, unknown.
const BYTE_SPECIALS: [(&str, usize); 3] = [("<pad>", 0), ("</s>", 1), ("<unk>", 2)];

/// The files of a tokenizer in a folder of transformers.
const OF_A_FOLDER: [&str; 5] = [
    "tokenizer.json",
    "spiece.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
];

/// Files by name.
pub(super) type Files = Vec<(&'static str, Vec<u8>)>;

/// Returns a SentencePiece model and the other files that transformers' `T5Tokenizer` needs, for an
/// embedding of `num_rows` rows. Without `extra_ids` it adds T5's sentinels, unless the model's own
/// pieces include sentinels.
pub(super) fn sentencepiece_files(
    vocabulary: &Path,
    extra_ids: Option<usize>,
    num_rows: usize,
) -> Result<Files, CheckpointError> {
    let refused = |reason: String| CheckpointError::Export { path: vocabulary.to_string(), reason };
    if vocabulary.file_name().ends_with(".json") {
        return copied(vocabulary, extra_ids, num_rows);
    }
    let model = vocabulary.read()?;
    let count = count_pieces(&model).ok_or_else(|| {
        refused(
            "it is not a SentencePiece model; expected a file such as `spiece.model`, or the `tokenizer.json` of a \
             folder of transformers"
                .to_string(),
        )
    })?;
    let extra_ids = sentinels(count, extra_ids, num_rows).map_err(refused)?;
    let mut config = specials(extra_ids);
    config["tokenizer_class"] = json!("T5Tokenizer");
    // Text after a special token is tokenized by the rules of SentencePiece.
    config["legacy"] = json!(false);
    config["sp_model_kwargs"] = json!({});
    let mut files = both(&config, extra_ids);
    // Transformers 5 needs this file unless the package sentencepiece is installed.
    if let Some(json) = tokenizer_json(&model, extra_ids) {
        files.push(("tokenizer.json", json.to_string().into_bytes()));
    }
    files.push(("spiece.model", model));
    Ok(files)
}

/// Returns the files of the folder in which a `tokenizer.json` or `tokenizer_config.json` lies, as they are.
fn copied(
    vocabulary: &Path,
    extra_ids: Option<usize>,
    num_rows: usize,
) -> Result<Files, CheckpointError> {
    let refused = |reason: String| CheckpointError::Export { path: vocabulary.to_string(), reason };
    let tokenizer =
        hugging_face_tokenizer(vocabulary).map_err(|error| refused(error.to_string()))?;
    if extra_ids.is_some_and(|extra_ids| extra_ids > 0) {
        return Err(refused(
            "its folder says which sentinels there are; expected no --extra_ids".to_string(),
        ));
    }
    let vocab_size = tokenizer.vocab_size;
    if vocab_size > num_rows {
        return Err(refused(format!(
            "it has {vocab_size} ids, and the model's embedding {num_rows} rows; expected the vocabulary that the \
             model was trained with"
        )));
    }
    let mut files = Vec::new();
    for name in OF_A_FOLDER {
        match vocabulary.folder().join(name).read() {
            Ok(bytes) => files.push((name, bytes)),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(files)
}

/// Number of sentinels after the pieces. A sentinel without a row in the embedding would be
/// unusable.
fn sentinels(count: PieceCount, asked: Option<usize>, num_rows: usize) -> Result<usize, String> {
    let PieceCount { num_pieces, num_sentinels } = count;
    let fits = |extra_ids: usize| num_pieces.saturating_add(extra_ids) <= num_rows;
    let default = if num_sentinels == 0 && fits(T5_EXTRA_IDS) { T5_EXTRA_IDS } else { 0 };
    match asked.unwrap_or(default) {
        _ if !fits(0) => Err(format!(
            "it has {num_pieces} pieces, and the model's embedding {num_rows} rows; expected the \
             vocabulary that the model was trained with"
        )),
        extra_ids if !fits(extra_ids) => Err(format!(
            "its {num_pieces} pieces and {extra_ids} extra ids are more than the {num_rows} rows of the \
             model's embedding; expected --extra_ids of {} at most{}",
            num_rows - num_pieces,
            if num_sentinels > 0 { ", or 0, since its pieces hold the sentinels" } else { "" }
        )),
        extra_ids => Ok(extra_ids),
    }
}

/// The files that transformers' `ByT5Tokenizer` needs.
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

/// Formats JSON like transformers.
pub fn pretty(value: &Value) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("plain data becomes JSON");
    text.push(b'\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: [usize; 2], asked: Option<usize>, rows: usize, expected: Result<usize, &str>) {
        let [num_pieces, num_sentinels] = pieces;
        let found = sentinels(PieceCount { num_pieces, num_sentinels }, asked, rows);
        match expected {
            Ok(extra_ids) => assert_eq!(found, Ok(extra_ids)),
            Err(part) => {
                assert!(found.as_ref().is_err_and(|reason| reason.contains(part)), "{found:?}")
            }
        }
    }

    #[test]
    fn sentinels_are_those_that_the_model_lacks_and_the_embedding_has() {
        check([32_000, 0], None, 32_128, Ok(100));
        // mT5, whose model has no sentinels, without room for any.
        check([250_100, 0], None, 250_112, Ok(0));
        check([250_100, 100], None, 250_112, Ok(0));
        check([64_000, 100], None, 64_256, Ok(0));
        check([32_000, 0], Some(128), 32_128, Ok(128));
        let unfit = "32000 pieces and 129 extra ids are more than the 32128 rows";
        check([32_000, 0], Some(129), 32_128, Err(unfit));
        check([32_000, 0], Some(usize::MAX), 32_128, Err("expected --extra_ids of 128 at most"));
        check([64_000, 100], Some(100), 64_000, Err("or 0, since its pieces hold the sentinels"));
        check([32_129, 0], None, 32_128, Err("32129 pieces, and the model's embedding 32128 rows"));
        check([32_129, 0], Some(0), 32_128, Err("that the model was trained with"));
    }
}
