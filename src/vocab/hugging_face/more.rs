//! New added tokens in the files of a tokenizer of Hugging Face's transformers, as its `add_tokens` and `save_pretrained` leave
//! them. Source: transformers 5.24 `tokenization_utils_base.py`.

use serde_json::{Map, Value, json};

use super::added::{AddedToken, AddedTokens};
use super::folder::{TokenizerFolder, json_file};
use super::{HuggingFace, HuggingFaceBytes};
use crate::more_pieces::NamedFiles;
use crate::{VocabError, Vocabulary, VocabularySpec};
use gimlet_storage::Path;

/// The files that list added tokens.
const TOKENIZER: &str = "tokenizer.json";
const CONFIG: &str = "tokenizer_config.json";
const ADDED: &str = "added_tokens.json";
/// The list in `tokenizer_config.json`.
const DECODER: &str = "added_tokens_decoder";
/// Files that are copied as they are.
const COPIED: [&str; 3] = ["spiece.model", "special_tokens_map.json", "chat_template.jinja"];

/// Returns the files of a tokenizer with new added tokens, and the id of the first. The ids follow all others.
pub(in super::super) fn with_pieces(
    spec: &VocabularySpec,
    file: &Path,
    pieces: &[&str],
) -> Result<(NamedFiles, usize), VocabError> {
    let known = Known::of(spec)?;
    let first = known.vocab_size;
    let new: Vec<(usize, AddedToken)> =
        (first..).zip(pieces.iter().map(|piece| AddedToken::plain(piece))).collect();
    let folder = file.folder();
    let mut files = NamedFiles::new();
    let tokenizer = json_file(&folder.join(TOKENIZER))?;
    let config = object(&folder.join(CONFIG))?;
    // A list in the configuration replaces all others, so it must be complete.
    let is_listed =
        tokenizer.is_none() || config.as_ref().is_some_and(|it| it.contains_key(DECODER));
    if let Some(mut tokenizer) = tokenizer {
        let Some(added) = tokenizer["added_tokens"].as_array_mut() else {
            return Err(
                TokenizerFolder::read(file)?.unfit("its tokenizer.json has no added_tokens")
            );
        };
        added.extend(new.iter().map(|(id, token)| numbered(*id, token)));
        files.push((TOKENIZER.to_string(), pretty(&tokenizer)));
    }
    if let Some(mut config) = config {
        if is_listed {
            let new = new.iter().map(|(id, token)| (id.to_string(), json!(token)));
            let all = known.listed.into_iter().chain(new).collect();
            config.insert(DECODER.to_string(), Value::Object(all));
        }
        files.push((CONFIG.to_string(), pretty(&Value::Object(config))));
    }
    if let Some(mut added) = object(&folder.join(ADDED))? {
        added.extend(new.iter().map(|(id, token)| (token.content.clone(), json!(id))));
        files.push((ADDED.to_string(), pretty(&Value::Object(added))));
    }
    for name in COPIED {
        match folder.join(name).read() {
            Ok(bytes) => files.push((name.to_string(), bytes)),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok((files, first))
}

/// The added tokens of a tokenizer, in the form of the list in its configuration.
struct Known {
    listed: Map<String, Value>,
    vocab_size: usize,
}

impl Known {
    fn of(spec: &VocabularySpec) -> Result<Self, VocabError> {
        let listed = |tokens: &AddedTokens| {
            tokens.sorted().into_iter().map(|(id, token)| (id.to_string(), json!(token))).collect()
        };
        Ok(match spec {
            VocabularySpec::Byte(bytes) => {
                let file = bytes.tokenizer_config.as_deref().unwrap_or_default();
                let found = HuggingFaceBytes::load(bytes, file)?;
                Self { listed: listed(found.added()), vocab_size: found.vocab_size() }
            }
            VocabularySpec::SentencePiece(pieces) => {
                let found = HuggingFace::load(pieces)?;
                Self { listed: listed(found.added()), vocab_size: found.vocab_size() }
            }
            _ => unreachable!("other vocabularies have no tokenizer of a T5"),
        })
    }
}

/// Returns a token as `tokenizer.json` lists it.
fn numbered(id: usize, token: &AddedToken) -> Value {
    let mut entry = Map::from_iter([("id".to_string(), json!(id))]);
    if let Value::Object(flags) = json!(token) {
        entry.extend(flags);
    }
    Value::Object(entry)
}

/// Reads a JSON object; `None` if the file does not exist or is no object.
fn object(file: &Path) -> Result<Option<Map<String, Value>>, VocabError> {
    Ok(match json_file(file)? {
        Some(Value::Object(object)) => Some(object),
        _ => None,
    })
}

/// Formats JSON like transformers.
fn pretty(value: &Value) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("plain data becomes JSON");
    text.push(b'\n');
    text
}
