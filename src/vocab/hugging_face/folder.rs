//! The files of a tokenizer in a folder of Hugging Face's transformers, and the tokens that they add. Sources:
//! transformers 5.24 `tokenization_utils_base.py` (`_from_pretrained`), `models/t5/tokenization_t5.py`,
//! `models/byt5/tokenization_byt5.py`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::added::AddedToken;
use crate::VocabError;
use gimlet_storage::Path;

/// The names of special tokens, in the order in which they get ids.
const NAMED: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The key of special tokens without a name, and its older name.
const EXTRA: &str = "extra_special_tokens";
const ADDITIONAL: &str = "additional_special_tokens";

/// A class of transformers' tokenizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenizerClass {
    /// Takes the pieces of the file, and T5's rules whatever the file says.
    T5,
    /// Takes the file as it is.
    AsWritten,
    /// UTF-8 bytes.
    ByT5,
}

/// The contents of the files.
pub(super) struct TokenizerFolder {
    path: Path,
    /// The class that transformers choose.
    pub class: TokenizerClass,
    /// `tokenizer.json`.
    pub tokenizer: Option<Value>,
    /// `spiece.model`, read only if there is no `tokenizer.json`.
    pub model: Option<Vec<u8>>,
    /// `tokenizer_config.json` with the `special_tokens_map.json` of older versions.
    settings: Map<String, Value>,
    /// Special tokens under names of their own.
    own_names: Vec<Value>,
    added: Map<String, Value>,
    model_type: Option<String>,
}

impl TokenizerFolder {
    /// Reads the folder of a `tokenizer.json` or `tokenizer_config.json`.
    pub(super) fn read(file: &Path) -> Result<Self, VocabError> {
        let path = file.folder();
        let is_config = file.file_name() == "tokenizer_config.json";
        let tokenizer = match is_config {
            true => json_file(&path.join("tokenizer.json"))?,
            false => Some(json_of(file, &file.read()?)?),
        };
        let config = object(json_file(&path.join("tokenizer_config.json"))?);
        let model_config = object(json_file(&path.join("config.json"))?);
        let special_map = object(json_file(&path.join("special_tokens_map.json"))?);
        let added = object(json_file(&path.join("added_tokens.json"))?);
        let mut folder = Self {
            model_type: model_config.get("model_type").and_then(Value::as_str).map(String::from),
            path,
            class: TokenizerClass::T5,
            tokenizer,
            model: None,
            settings: config,
            own_names: Vec::new(),
            added,
        };
        folder.merge(special_map);
        folder.class = folder.find_class()?;
        if folder.tokenizer.is_none() && folder.class != TokenizerClass::ByT5 {
            folder.model = Some(folder.path.join("spiece.model").read()?);
        }
        Ok(folder)
    }

    /// Returns an error that names the folder.
    pub(super) fn unfit(&self, reason: impl Into<String>) -> VocabError {
        VocabError::HuggingFace { path: self.path.to_string(), reason: reason.into() }
    }

    /// Moves tokens to the keys of version 5, and adds those of `special_tokens_map.json`, which count if the
    /// configuration does not list all added tokens.
    fn merge(&mut self, special_map: Map<String, Value>) {
        let is_empty = |value: Option<&Value>| {
            value.is_none_or(|value| {
                [Value::Null, json!([]), json!({}), json!(false)].contains(value)
            })
        };
        if self.settings.contains_key(ADDITIONAL) && is_empty(self.settings.get(EXTRA)) {
            let tokens = self.settings.remove(ADDITIONAL).unwrap_or_default();
            self.settings.insert(EXTRA.to_string(), tokens);
        }
        self.take_own_names();
        if !self.settings.contains_key("added_tokens_decoder") {
            for (key, value) in special_map {
                match (self.settings.get_mut(&key), value) {
                    (Some(Value::Array(tokens)), Value::Array(more)) if key == EXTRA => {
                        let new = more.into_iter().filter(|token| !tokens.contains(token));
                        let new: Vec<Value> = new.collect();
                        tokens.extend(new);
                    }
                    (_, value) => drop(self.settings.insert(key, value)),
                }
            }
            self.take_own_names();
        }
    }

    fn take_own_names(&mut self) {
        if let Some(Value::Object(named)) = self.settings.get(EXTRA) {
            self.own_names.extend(named.values().cloned());
            self.settings.remove(EXTRA);
        }
        let is_own = |key: &str, value: &Value| {
            key.ends_with("_token") && !NAMED.contains(&key) && value.is_string()
        };
        let own = self.settings.iter().filter(|(key, value)| is_own(key, value));
        let own: Vec<String> = own.map(|(key, _)| key.clone()).collect();
        self.own_names.extend(own.iter().filter_map(|key| self.settings.remove(key)));
    }

    fn find_class(&self) -> Result<TokenizerClass, VocabError> {
        let class = self.text("tokenizer_class").map(|class| class.trim_end_matches("Fast"));
        let model_type = self.model_type.as_deref();
        match (class, model_type) {
            (Some("ByT5Tokenizer"), _) => Ok(TokenizerClass::ByT5),
            (_, Some("umt5")) if self.tokenizer.is_some() => Ok(TokenizerClass::AsWritten),
            (Some("T5Tokenizer" | "MT5Tokenizer"), _) => Ok(TokenizerClass::T5),
            (Some("TokenizersBackend" | "PreTrainedTokenizer"), _) => Ok(TokenizerClass::AsWritten),
            (None, Some("t5" | "mt5" | "longt5" | "umt5")) => Ok(TokenizerClass::T5),
            (None, _) => Ok(if self.tokenizer.is_some() { TokenizerClass::AsWritten } else { TokenizerClass::T5 }),
            (Some(class), _) => Err(self.unfit(format!(
                "its tokenizer_class is `{class}`, expected T5Tokenizer, TokenizersBackend or ByT5Tokenizer"
            ))),
        }
    }

    /// Number of sentinels, or that of the class.
    pub(super) fn extra_ids(&self, default: u64) -> usize {
        self.settings.get("extra_ids").and_then(Value::as_u64).unwrap_or(default) as usize
    }

    /// Whether a setting is true.
    pub(super) fn is_on(&self, key: &str) -> bool {
        self.settings.get(key) == Some(&Value::Bool(true))
    }

    /// Returns the text of a token that has a name.
    pub(super) fn named_token(&self, name: &str) -> Option<String> {
        self.settings.get(name).and_then(AddedToken::read).map(|token| token.content)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.settings.get(key).and_then(Value::as_str)
    }

    /// Returns the added tokens that the files list with an id.
    pub(super) fn recorded(&self) -> Result<BTreeMap<i32, AddedToken>, VocabError> {
        let token = |value: &Value| serde_json::from_value::<AddedToken>(value.clone());
        let mut recorded = BTreeMap::new();
        if let Some(listed) = self.settings.get("added_tokens_decoder") {
            for (id, value) in listed.as_object().into_iter().flatten() {
                match (id.parse(), token(value)) {
                    (Ok(id), Ok(token)) => drop(recorded.insert(id, token)),
                    _ => {
                        return Err(
                            self.unfit(format!("its added_tokens_decoder holds {id}: {value}"))
                        );
                    }
                }
            }
            return Ok(recorded);
        }
        let special = self.special_texts();
        for (content, id) in &self.added {
            let special = special.contains(content);
            let Some(id) = id.as_i64().and_then(|id| i32::try_from(id).ok()) else {
                return Err(
                    self.unfit(format!("its added_tokens.json gives `{content}` the id {id}"))
                );
            };
            let content = content.clone();
            let token = AddedToken { content, special, normalized: !special, ..Default::default() };
            recorded.insert(id, token);
        }
        recorded.extend(self.of_tokenizer()?);
        Ok(recorded)
    }

    /// Returns the added tokens of `tokenizer.json`.
    pub(super) fn of_tokenizer(&self) -> Result<BTreeMap<i32, AddedToken>, VocabError> {
        let tokens = self.tokenizer.as_ref().and_then(|json| json["added_tokens"].as_array());
        let read = |value: &Value| {
            let id = value["id"].as_i64().and_then(|id| i32::try_from(id).ok());
            let token = serde_json::from_value::<AddedToken>(value.clone()).ok();
            id.zip(token).ok_or_else(|| {
                self.unfit(format!("its tokenizer.json has {value} among its added_tokens"))
            })
        };
        tokens.into_iter().flatten().map(read).collect()
    }

    fn special_texts(&self) -> Vec<String> {
        let listed = self.settings.get(EXTRA).and_then(Value::as_array);
        let all = NAMED.iter().filter_map(|name| self.settings.get(*name));
        let all = all.chain(listed.into_iter().flatten());
        all.filter_map(AddedToken::read).map(|token| token.content).collect()
    }

    /// Returns the special tokens that have a name, with the class's own for those that the files do not name.
    pub(super) fn named(&self, defaults: &[(&str, AddedToken)]) -> Vec<AddedToken> {
        let default = |name: &str| {
            let found = defaults.iter().find(|(default, _)| *default == name);
            found.map(|(_, token)| token.clone())
        };
        let of = |name: &&str| match self.settings.get(*name) {
            Some(value) => AddedToken::read(value),
            None => default(name),
        };
        NAMED
            .iter()
            .filter_map(of)
            .chain(self.own_names.iter().filter_map(AddedToken::read))
            .collect()
    }

    /// Returns the special tokens without a name. `own` are those of the class if the files list none.
    pub(super) fn extras(&self, own: Vec<AddedToken>) -> Vec<AddedToken> {
        let read = |value: &Value| -> Vec<AddedToken> {
            value.as_array().into_iter().flatten().filter_map(AddedToken::read).collect()
        };
        if let Some(listed) = self.settings.get(EXTRA) {
            return read(listed);
        }
        let additional = self.settings.get(ADDITIONAL).filter(|value| !value.is_null()).map(read);
        match (self.class, additional) {
            (TokenizerClass::AsWritten, additional) => additional.unwrap_or_default(),
            (TokenizerClass::ByT5, additional) => additional.unwrap_or_else(|| self.sentinels(125)),
            (TokenizerClass::T5, additional) => {
                let mut listed = additional.unwrap_or(own);
                if !listed.iter().any(AddedToken::is_sentinel) {
                    listed.extend(self.sentinels(100));
                }
                listed
            }
        }
    }

    fn sentinels(&self, default: u64) -> Vec<AddedToken> {
        let number = self.extra_ids(default);
        (0..number).map(|at| AddedToken::special(&format!("<extra_id_{at}>"))).collect()
    }
}

/// Orders sentinels as T5's vocabularies do: the first has the highest id.
pub(super) fn reversed_sentinels(number: usize) -> impl Iterator<Item = String> {
    (0..number).rev().map(|at| format!("<extra_id_{at}>"))
}

fn object(value: Option<Value>) -> Map<String, Value> {
    match value {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

/// Reads a file of JSON; `None` if it does not exist.
pub(super) fn json_file(file: &Path) -> Result<Option<Value>, VocabError> {
    match file.read() {
        Ok(bytes) => json_of(file, &bytes).map(Some),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn json_of(file: &Path, bytes: &[u8]) -> Result<Value, VocabError> {
    serde_json::from_slice(bytes).map_err(|error| VocabError::HuggingFace {
        path: file.to_string(),
        reason: format!("it is not valid JSON: {error}"),
    })
}
