//! The `normalizer` of a `tokenizer.json`. Sources: tokenizers `normalizers/`, spm_precompiled `lib.rs`.

use std::borrow::Cow;

use base64::prelude::{BASE64_STANDARD, Engine};
use fancy_regex::Regex;
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use icu_properties::CodePointMapData;
use icu_properties::props::GraphemeClusterBreak;
use serde_json::Value;
use unicode_segmentation::UnicodeSegmentation;

use crate::sentencepiece::Rules;

/// Longer clusters of characters are replaced character by character.
const MAX_CLUSTER: usize = 6;

/// A step of normalization.
#[derive(Debug)]
pub(super) enum NormalizerStep {
    Precompiled(Charsmap),
    Strip { left: bool, right: bool },
    Replace { pattern: Pattern, content: String },
    Prepend(String),
    Lowercase,
    Composed(ComposingNormalizerBorrowed<'static>),
    Decomposed(DecomposingNormalizerBorrowed<'static>),
}

/// A text to look for, or a regular expression.
#[derive(Debug)]
pub(super) enum Pattern {
    Text(String),
    Regex(Box<Regex>),
}

impl Pattern {
    /// Reads `{"String": ...}` or `{"Regex": ...}`.
    pub(super) fn read(value: &Value) -> Result<Self, String> {
        match (value["String"].as_str(), value["Regex"].as_str()) {
            (Some(text), _) => Ok(Self::Text(text.to_string())),
            (_, Some(text)) => match Regex::new(text) {
                Ok(regex) => Ok(Self::Regex(Box::new(regex))),
                Err(error) => Err(format!("the pattern `{text}` is not valid: {error}")),
            },
            _ => Err(format!("a pattern is {value}, expected a String or a Regex")),
        }
    }

    /// Replaces every match.
    pub(super) fn replaced<'a>(&self, text: Cow<'a, str>, by: &str) -> Cow<'a, str> {
        match self {
            Self::Text(from) if !text.contains(&from[..]) => text,
            Self::Text(from) => Cow::Owned(text.replace(&from[..], by)),
            Self::Regex(regex) => match regex.is_match(&*text) {
                Ok(true) => {
                    Cow::Owned(regex.replace_all(&text, fancy_regex::NoExpand(by)).into_owned())
                }
                _ => text,
            },
        }
    }

    /// Whether a text begins with a match.
    fn begins(&self, text: &str) -> bool {
        match self {
            Self::Text(from) => text.starts_with(&from[..]),
            Self::Regex(regex) => {
                matches!(regex.find(text), Ok(Some(found)) if found.start() == 0 && found.end() > 0)
            }
        }
    }
}

impl NormalizerStep {
    /// Reads the steps of a `normalizer`.
    ///
    /// # Errors
    /// A step is of another kind, or broken.
    pub(super) fn read_all(value: &Value) -> Result<Vec<Self>, String> {
        match value["type"].as_str() {
            None if value.is_null() => Ok(Vec::new()),
            Some("Sequence") => {
                let steps = value["normalizers"].as_array().into_iter().flatten();
                Ok(steps
                    .map(Self::read_all)
                    .collect::<Result<Vec<_>, _>>()?
                    .into_iter()
                    .flatten()
                    .collect())
            }
            _ => Ok(vec![Self::read(value)?]),
        }
    }

    fn read(value: &Value) -> Result<Self, String> {
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_string();
        let flag = |key: &str| value[key].as_bool().unwrap_or(true);
        Ok(match value["type"].as_str().unwrap_or_default() {
            "Precompiled" => Self::Precompiled(Charsmap::read(&text("precompiled_charsmap"))?),
            "Strip" => Self::Strip { left: flag("strip_left"), right: flag("strip_right") },
            "Replace" => {
                let pattern = Pattern::read(&value["pattern"])?;
                Self::Replace { pattern, content: text("content") }
            }
            "Prepend" => Self::Prepend(text("prepend")),
            "Lowercase" => Self::Lowercase,
            "NFC" => Self::Composed(ComposingNormalizerBorrowed::new_nfc()),
            "NFKC" => Self::Composed(ComposingNormalizerBorrowed::new_nfkc()),
            "NFD" => Self::Decomposed(DecomposingNormalizerBorrowed::new_nfd()),
            "NFKD" => Self::Decomposed(DecomposingNormalizerBorrowed::new_nfkd()),
            other => {
                return Err(format!(
                    "its normalizer has a step `{other}`, expected Precompiled, Strip, Replace, Prepend, Lowercase, \
                     NFC, NFD, NFKC or NFKD"
                ));
            }
        })
    }

    /// Whether the step removes the first characters of a text.
    pub(super) fn removes_start(&self, text: &str) -> bool {
        match self {
            Self::Strip { left, .. } => *left && text.starts_with(char::is_whitespace),
            Self::Replace { pattern, content } => content.is_empty() && pattern.begins(text),
            _ => false,
        }
    }

    /// Applies the step.
    pub(super) fn apply<'a>(&self, text: Cow<'a, str>) -> Cow<'a, str> {
        let normalized = match self {
            Self::Precompiled(charsmap) => charsmap.apply(&text).map(Cow::Owned),
            Self::Strip { left, right } => {
                let kept = if *left { text.trim_start() } else { &text };
                let kept = if *right { kept.trim_end() } else { kept };
                (kept.len() < text.len()).then(|| Cow::Owned(kept.to_string()))
            }
            Self::Replace { pattern, content } => return pattern.replaced(text, content),
            Self::Prepend(_) if text.is_empty() => None,
            Self::Prepend(prefix) => Some(Cow::Owned(format!("{prefix}{text}"))),
            Self::Lowercase => {
                Some(Cow::Owned(text.chars().flat_map(char::to_lowercase).collect()))
            }
            Self::Composed(form) => Some(Cow::Owned(form.normalize(&text).into_owned())),
            Self::Decomposed(form) => Some(Cow::Owned(form.normalize(&text).into_owned())),
        };
        normalized.unwrap_or(text)
    }
}

/// SentencePiece's replacements, as tokenizers applies them: to clusters of characters, and by the shortest key.
#[derive(Debug)]
pub(super) struct Charsmap {
    rules: Rules,
    /// ASCII characters that are not changed.
    is_plain: [bool; 128],
}

impl Charsmap {
    fn read(text: &str) -> Result<Self, String> {
        let blob =
            BASE64_STANDARD.decode(text).map_err(|error| format!("its charsmap: {error}"))?;
        Self::parse(&blob).ok_or_else(|| "its charsmap is broken".to_string())
    }

    /// Parses the replacements of a SentencePiece model.
    pub(super) fn parse(blob: &[u8]) -> Option<Self> {
        let rules = Rules::parse(blob)?;
        let mut is_plain = [false; 128];
        for (byte, is_plain) in (0..).zip(&mut is_plain) {
            *is_plain = (b' '..0x7f).contains(&byte) && rules.shortest(&[byte]).is_none();
        }
        Some(Self { rules, is_plain })
    }

    /// Returns the changed text; `None` if nothing changes.
    fn apply(&self, text: &str) -> Option<String> {
        let plain = self.plain_prefix(text.as_bytes());
        if plain == text.len() {
            return None;
        }
        let mut out = String::with_capacity(text.len() + 16);
        let mut rest = text;
        while !rest.is_empty() {
            let plain = self.plain_prefix(rest.as_bytes());
            out.push_str(&rest[..plain]);
            rest = &rest[plain..];
            rest = self.apply_to_cluster(rest, &mut out);
        }
        Some(out)
    }

    /// Number of ASCII characters that stay as they are and combine with nothing after them.
    fn plain_prefix(&self, text: &[u8]) -> usize {
        let is_plain = |byte: &u8| self.is_plain.get(usize::from(*byte)) == Some(&true);
        let run = text.iter().take_while(|byte| is_plain(byte)).count();
        match text.get(run) {
            Some(next) if !next.is_ascii() => run.saturating_sub(1),
            _ => run,
        }
    }

    /// Appends the replacement of the first cluster, and returns the text after it.
    fn apply_to_cluster<'a>(&self, text: &'a str, out: &mut String) -> &'a str {
        let mut characters = text.chars();
        let Some(first) = characters.next() else { return "" };
        let is_alone = stands_alone(first) && characters.next().is_none_or(stands_alone);
        let length = match is_alone {
            true => first.len_utf8(),
            false => text.graphemes(true).next().map_or(text.len(), str::len),
        };
        let (cluster, rest) = text.split_at(length);
        if cluster.len() < MAX_CLUSTER
            && let Some(replacement) = self.rules.shortest(cluster.as_bytes())
        {
            out.push_str(&String::from_utf8_lossy(replacement));
            return rest;
        }
        for (at, c) in cluster.char_indices() {
            let character = &cluster[at..at + c.len_utf8()];
            match self.rules.shortest(character.as_bytes()) {
                Some(replacement) => out.push_str(&String::from_utf8_lossy(replacement)),
                None => out.push(c),
            }
        }
        rest
    }
}

/// Whether a character never forms a cluster with another one that does so too.
fn stands_alone(c: char) -> bool {
    match c.is_ascii() {
        true => !c.is_ascii_control(),
        false => {
            CodePointMapData::<GraphemeClusterBreak>::new().get(c) == GraphemeClusterBreak::Other
        }
    }
}
