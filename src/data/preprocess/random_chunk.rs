//! One chunk of a long document. Source: t5 `preprocessors.py`.

use std::ops::Range;

use super::{Context, ExamplePosition, MapStep, Preprocess, Step, missing};
use crate::error::DataError;
use crate::example::Example;
use crate::random::Draw;
use crate::value::Value;
use gimlet_gin::Configurable;

/// Keeps one chunk of a feature, chosen at random, and drops features that are not named here.
/// Examples without tokens are dropped. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.select_random_chunk", open)]
pub struct SelectRandomChunk {
    /// Maximum number of tokens of the chunk; None takes the feature's length in
    /// `task_feature_lengths`, minus one if EOS is added.
    #[gin(default = None)]
    pub max_length: Option<usize>,
    /// The feature.
    #[gin(default = "targets".to_string())]
    pub feature_key: String,
    /// Features of the same length, of which the same chunk is kept.
    #[gin(default = None)]
    pub additional_feature_keys: Option<Vec<String>>,
    /// Features that are kept whole.
    #[gin(default = None)]
    pub passthrough_feature_keys: Option<Vec<String>>,
    /// Whether the chunk can begin at any token, and before the first; otherwise it begins at
    /// multiples of its length.
    #[gin(default = false)]
    pub uniform_random_start: bool,
    /// Minimum length of the chunk, which is drawn from here to below `max_length`; None always
    /// takes `max_length`.
    #[gin(default = None)]
    pub min_length: Option<usize>,
}

impl Default for SelectRandomChunk {
    fn default() -> Self {
        Self {
            max_length: None,
            feature_key: "targets".to_string(),
            additional_feature_keys: None,
            passthrough_feature_keys: None,
            uniform_random_start: false,
            min_length: None,
        }
    }
}

/// Maximum number of tokens that t5's objectives take from one document.
const MAX_DOCUMENT_TOKENS: usize = 65536;

impl SelectRandomChunk {
    /// The preprocessor as t5's objectives call it; the other parameters come from gin.
    pub(super) fn of_document(&self, passthrough: Option<&Vec<String>>) -> Self {
        Self {
            max_length: Some(MAX_DOCUMENT_TOKENS),
            feature_key: "targets".to_string(),
            passthrough_feature_keys: passthrough.cloned(),
            ..self.clone()
        }
    }

    fn max_tokens(&self, cx: &Context<'_>) -> Result<usize, DataError> {
        let key = &self.feature_key;
        let most = match self.max_length {
            Some(length) => length,
            None if cx.lengths.is_none() => {
                return Err(DataError::Config(format!(
                    "`select_random_chunk` needs `max_length` where there are no \
                     `task_feature_lengths` to take that of '{key}' from"
                )));
            }
            None => cx.length(key)?.saturating_sub(usize::from(cx.feature(key)?.add_eos)),
        };
        match self.min_length {
            _ if most == 0 => {
                let message = format!("`select_random_chunk` leaves no room for tokens of '{key}'");
                Err(DataError::Config(message))
            }
            Some(least) if !(1..most).contains(&least) => Err(DataError::Config(format!(
                "`select_random_chunk` needs 1 <= min_length < max_length, found {least} and {most}"
            ))),
            _ => Ok(most),
        }
    }
}

/// Rejects features that are both divided and passed through.
pub(super) fn check_overlap(
    function: &str,
    feature_key: &str,
    additional: &[String],
    passthrough: &[String],
) -> Result<(), DataError> {
    let divided = |key: &&String| *key == feature_key || additional.contains(key);
    match passthrough.iter().find(divided) {
        None => Ok(()),
        Some(key) => Err(DataError::Config(format!(
            "`{function}` is told both to divide '{key}' and to pass it through"
        ))),
    }
}

/// Rejects an additional feature whose length differs from that of the leading feature.
pub(super) fn check_length(
    example: &Example,
    (feature_key, length): (&str, usize),
    additional: &str,
) -> Result<(), String> {
    let value = example.get(additional).ok_or_else(|| missing(example, additional))?;
    if value.len() == Some(length) {
        return Ok(());
    }
    let found = value.len().map_or("no list".to_string(), |found| format!("of length {found}"));
    Err(format!(
        "'{additional}' is {found}, and '{feature_key}' of length {length}; they go together"
    ))
}

/// The length of the first dimension of a feature, or an error if it has none.
pub(super) fn length_of(example: &Example, key: &str) -> Result<usize, String> {
    let value = example.get(key).ok_or_else(|| missing(example, key))?;
    value.len().ok_or_else(|| {
        format!("'{key}' is {}, expected token ids; tokenize it first", value.type_name())
    })
}

impl Preprocess for SelectRandomChunk {
    fn needs_lengths(&self) -> bool {
        true
    }

    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let additional = self.additional_feature_keys.clone().unwrap_or_default();
        let passthrough = self.passthrough_feature_keys.clone().unwrap_or_default();
        check_overlap("select_random_chunk", &self.feature_key, &additional, &passthrough)?;
        Ok(vec![Step::Map(Box::new(ChunkSelector {
            max_length: self.max_tokens(cx)?,
            min_length: self.min_length,
            uniform_random_start: self.uniform_random_start,
            feature: self.feature_key.clone(),
            additional,
            passthrough,
        }))])
    }
}

struct ChunkSelector {
    max_length: usize,
    min_length: Option<usize>,
    uniform_random_start: bool,
    feature: String,
    additional: Vec<String>,
    passthrough: Vec<String>,
}

impl ChunkSelector {
    fn range(&self, num_tokens: usize, mut draw: Draw) -> Range<usize> {
        let length = match self.min_length {
            Some(least) => draw.between(least as i64, self.max_length as i64) as usize,
            None => self.max_length,
        };
        if self.uniform_random_start {
            let start = draw.between(1 - length as i64, num_tokens as i64);
            let end = (start + length as i64).min(num_tokens as i64);
            return start.max(0) as usize..end as usize;
        }
        let start = length * draw.below(num_tokens.div_ceil(length));
        start..(start + length).min(num_tokens)
    }
}

impl MapStep for ChunkSelector {
    fn apply(
        &self,
        mut example: Example,
        place: ExamplePosition<'_>,
    ) -> Result<Option<Example>, String> {
        let num_tokens = length_of(&example, &self.feature)?;
        if example.get(&self.feature).is_some_and(Value::is_empty) {
            return Ok(None);
        }
        for key in &self.additional {
            check_length(&example, (&self.feature, num_tokens), key)?;
        }
        let is = |keys: &[String], key: &str| keys.iter().any(|kept| kept == key);
        example.retain(|key| {
            key == self.feature || is(&self.additional, key) || is(&self.passthrough, key)
        });
        // Most documents are short, and drawing takes longer than keeping them.
        let is_whole = self.min_length.is_none() && !self.uniform_random_start;
        if is_whole && num_tokens <= self.max_length {
            return Ok(Some(example));
        }
        let range = self.range(num_tokens, place.draw());
        for (key, value) in example.iter_mut() {
            if **key == *self.feature || is(&self.additional, key) {
                value.keep(range.clone());
            }
        }
        Ok(Some(example))
    }
}
