//! Preprocessors that change little in an example: renaming, prefixes, filters.

use std::collections::BTreeMap;

use super::{Context, PairKeys, Preprocess, Step, filter, missing, strings, text_of};
use crate::error::DataError;
use crate::value::{Key, Value};
use gimlet_gin::Configurable;

/// Renames features, dropping the others. Source: SeqIO `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.preprocessors.rekey", alias = "t5.data.preprocessors.rekey")]
pub struct Rekey {
    /// New name to old name; None makes an empty text. If the map is empty, nothing changes.
    #[gin(default = BTreeMap::new())]
    pub key_map: BTreeMap<String, Option<String>>,
}

impl Preprocess for Rekey {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        if self.key_map.is_empty() {
            return Ok(Vec::new());
        }
        let entry = |(new, old): (&String, &Option<String>)| {
            (Key::from(new.as_str()), old.clone().unwrap_or_default())
        };
        let key_map: Vec<(Key, String)> = self.key_map.iter().map(entry).collect();
        Ok(vec![Step::map(move |mut example| {
            let uses = |old: &str| key_map.iter().filter(|(_, key)| key == old).count();
            let values = key_map.iter().map(|(new, old)| {
                let value = match &old[..] {
                    "" => Some(Value::Text(String::new())),
                    old if uses(old) > 1 => example.get(old).cloned(),
                    old => example.take(old),
                };
                Ok((new.clone(), value.ok_or_else(|| missing(&example, old))?))
            });
            values.collect()
        })])
    }
}

/// Converts an article to "summarize: ..". Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.summarize")]
pub struct Summarize {
    /// The feature that holds the article.
    pub article_key: String,
    /// The feature that holds the summary.
    pub summary_key: String,
}

impl Preprocess for Summarize {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let (keys, spec) = (PairKeys::new(), self.clone());
        Ok(vec![Step::map(move |example| {
            let inputs = format!("summarize: {}", text_of(&example, &spec.article_key)?);
            Ok(keys.pair(inputs, text_of(&example, &spec.summary_key)?.to_string()))
        })])
    }
}

/// Removes the first word of a text and the space after it, such as the name of a task. Source: prompt-tuning
/// `data/preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.data.preprocessors.remove_first_text_token")]
pub struct RemoveFirstTextToken {
    /// The feature.
    #[gin(default = "inputs".to_string())]
    pub key: String,
}

impl Preprocess for RemoveFirstTextToken {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let key = self.key.clone();
        Ok(vec![Step::map(move |mut example| {
            let text = text_of(&example, &key)?;
            let rest = text.split_once(' ').map(|(_, rest)| rest.to_string());
            if let Some(rest) = rest {
                example.set(key.as_str().into(), Value::Text(rest));
            }
            Ok(example)
        })])
    }
}

/// Makes a text the targets of empty inputs. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.lm")]
pub struct Lm {}

impl Preprocess for Lm {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let keys = PairKeys::new();
        Ok(vec![Step::map(move |example| {
            Ok(keys.pair(String::new(), text_of(&example, "text")?.to_string()))
        })])
    }
}

/// Scripts written without spaces between words, by their Unicode blocks. Source: t5
/// `preprocessors.py`.
const NON_SPACED: [(char, char); 17] = [
    ('\u{1000}', '\u{104f}'), // Burmese
    ('\u{4e00}', '\u{9fff}'), // CJK ideographs
    ('\u{3400}', '\u{4dbf}'),
    ('\u{f900}', '\u{faff}'),
    ('\u{2e80}', '\u{2eff}'), // CJK radicals, strokes, punctuation
    ('\u{31c0}', '\u{31ef}'),
    ('\u{3000}', '\u{303f}'),
    ('\u{3040}', '\u{309f}'), // Hiragana, Katakana
    ('\u{30a0}', '\u{30ff}'),
    ('\u{a980}', '\u{a9df}'), // Javanese
    ('\u{1780}', '\u{17ff}'), // Khmer
    ('\u{19e0}', '\u{19ff}'),
    ('\u{0e80}', '\u{0eff}'), // Lao
    ('\u{1980}', '\u{19df}'), // Tai Lue, Tai Tham
    ('\u{1a20}', '\u{1aaf}'),
    ('\u{0e00}', '\u{0e7f}'), // Thai
    ('\u{0f00}', '\u{0fff}'), // Tibetan
];

/// Puts spaces around each character of a language without spaces. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.pad_nonspaced_languages")]
pub struct PadNonspacedLanguages {
    /// The feature that holds the text.
    #[gin(default = "text".to_string())]
    pub text_key: String,
}

impl Preprocess for PadNonspacedLanguages {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let key = Key::from(self.text_key.as_str());
        let nonspaced =
            |c: char| NON_SPACED.iter().any(|(first, last)| (*first..=*last).contains(&c));
        Ok(vec![Step::map(move |mut example| {
            let padded = strings::pad_where(text_of(&example, &key)?, nonspaced);
            example.set(key.clone(), Value::Text(padded));
            Ok(example)
        })])
    }
}

/// Drops examples whose text is too short or too long, in bytes. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.filter_by_string_length", open)]
pub struct FilterByStringLength {
    /// The feature that holds the text.
    #[gin(default = "targets".to_string())]
    pub feature_key: String,
    /// The shortest text kept, in bytes of UTF-8.
    #[gin(default = 1)]
    pub min_length: usize,
    /// The longest text kept, in bytes of UTF-8.
    #[gin(default = 1_000_000)]
    pub max_length: usize,
}

impl Preprocess for FilterByStringLength {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let spec = self.clone();
        let lengths = spec.min_length..=spec.max_length;
        Ok(vec![filter(move |example| {
            Ok(lengths.contains(&text_of(example, &spec.feature_key)?.len()))
        })])
    }
}
