//! Pairs of texts in two languages.

use super::languages::english_name;
use super::{Context, PairKeys, Preprocess, Step, filter_map, text_of, texts_of};
use crate::error::DataError;
use gimlet_gin::Configurable;

/// Converts `{'de': .., 'en': ..}` to "translate German to English: ..". Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.translate")]
pub struct Translate {
    /// Code of the language to translate from, which is also its feature.
    pub source_language: String,
    /// Code of the language to translate to, which is also its feature.
    pub target_language: String,
}

impl Preprocess for Translate {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let (source, target) = (self.source_language.clone(), self.target_language.clone());
        let prefix = prefix(&source, &target)?;
        let keys = PairKeys::new();
        Ok(vec![Step::map(move |example| {
            let inputs = format!("{prefix}{}", text_of(&example, &source)?);
            Ok(keys.pair(inputs, text_of(&example, &target)?.to_string()))
        })])
    }
}

/// Converts `{'translations/language': .., 'translations/translation': ..}` to "translate German to
/// English: ..", if the example has both languages; otherwise drops the example. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.multi_translate")]
pub struct MultiTranslate {
    /// Code of the language to translate from.
    pub source_language: String,
    /// Code of the language to translate to.
    pub target_language: String,
}

impl Preprocess for MultiTranslate {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let (source, target) = (self.source_language.clone(), self.target_language.clone());
        let prefix = prefix(&source, &target)?;
        let keys = PairKeys::new();
        Ok(vec![filter_map(move |example, _| {
            let languages = texts_of(&example, "translations/language")?;
            let translations = texts_of(&example, "translations/translation")?;
            let found = (
                translation(languages, translations, &source)?,
                translation(languages, translations, &target)?,
            );
            let (Some(from), Some(to)) = found else { return Ok(None) };
            Ok(Some(keys.pair(format!("{prefix}{from}"), to.to_string())))
        })])
    }
}

/// The text in one language, if there is one.
fn translation<'a>(
    languages: &[String],
    translations: &'a [String],
    language: &str,
) -> Result<Option<&'a str>, String> {
    let mut places = (0..languages.len()).filter(|i| languages[*i] == language);
    let Some(place) = places.next() else { return Ok(None) };
    if places.next().is_some() {
        return Err(format!("'translations/language' has '{language}' more than once"));
    }
    let text = translations.get(place).ok_or_else(|| {
        let (found, expected) = (translations.len(), languages.len());
        format!("'translations/translation' has {found} texts, expected {expected}")
    });
    text.map(|text| Some(text.as_str()))
}

/// The prefix "translate German to English: ".
fn prefix(source: &str, target: &str) -> Result<String, DataError> {
    let name = |code: &str| {
        english_name(code).ok_or_else(|| {
            DataError::Config(format!(
                "there is no English name for language '{code}'; expected a code that begins with \
                 the two letters of ISO 639-1, such as 'de' or 'zh-cn'"
            ))
        })
    };
    Ok(format!("translate {} to {}: ", name(source)?, name(target)?))
}
