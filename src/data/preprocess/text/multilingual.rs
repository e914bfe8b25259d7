//! The preprocessors of mT5's fine-tuning tasks (Xue et al. 2021, arXiv:2010.11934).

use std::sync::LazyLock;

use fancy_regex::Regex;

use super::question_answering::squad_with;
use super::strings::collapse_spaces;
use super::{
    Context, PairKeys, Preprocess, Step, filter, flat_map, int_of, text_of, texts_of, value_of,
};
use crate::error::DataError;
use crate::example::Example;
use crate::value::Value;
use gimlet_gin::Configurable;

/// As t5's `squad`, for texts in any language: letters, their marks and digits of all scripts are
/// not punctuation. Source: mT5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "multilingual_t5.preprocessors.xquad")]
pub struct Xquad {
    /// Whether inputs have the context besides the question.
    #[gin(default = true)]
    pub include_context: bool,
}

impl Preprocess for Xquad {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let include_context = self.include_context;
        Ok(vec![Step::map(move |example| {
            squad_with(&example, include_context, pad_punctuation_of_any_script)
        })])
    }
}

/// Puts spaces around each character that is not a letter, mark, digit, `_` or space, then
/// collapses spaces.
fn pad_punctuation_of_any_script(text: &str) -> String {
    static PUNCTUATION: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"[^_\t\n\f\r \p{N}\p{L}\p{M}]").expect("the pattern is well-formed")
    });
    collapse_spaces(&PUNCTUATION.replace_all(text, " $0 "))
}

/// Converts MNLI to "xnli: premise: .. hypothesis: ..", with the number of the label as targets.
/// Source: mT5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "multilingual_t5.preprocessors.process_mnli")]
pub struct ProcessMnli {}

impl Preprocess for ProcessMnli {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let keys = PairKeys::new();
        Ok(vec![Step::map(move |example| {
            let (premise, hypothesis) =
                (text_of(&example, "premise")?, text_of(&example, "hypothesis")?);
            Ok(xnli(&keys, premise, hypothesis, int_of(&example, "label")?))
        })])
    }
}

fn xnli(keys: &PairKeys, premise: &str, hypothesis: &str, label: i64) -> Example {
    let inputs = format!("xnli: premise: {premise} hypothesis: {hypothesis}");
    keys.pair(inputs, label.to_string())
}

/// Converts XNLI to the form of `process_mnli`: one example for each of these languages in which a
/// record has a hypothesis. Source: mT5 `preprocessors.py`, in which the languages follow each
/// other, each with all records.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "multilingual_t5.preprocessors.process_xnli")]
pub struct ProcessXnli {
    /// The languages, such as 'en'.
    pub target_languages: Vec<String>,
}

impl Preprocess for ProcessXnli {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let (languages, keys) = (self.target_languages.clone(), PairKeys::new());
        Ok(vec![flat_map(move |example, _| {
            let known = texts_of(&example, "hypothesis/language")?;
            let hypotheses = texts_of(&example, "hypothesis/translation")?;
            let label = int_of(&example, "label")?;
            let mut made = Vec::new();
            for language in &languages {
                let premise = text_of(&example, &format!("premise/{language}"))?;
                let of_language =
                    known.iter().zip(hypotheses).filter(|(known, _)| *known == language);
                made.extend(of_language.map(|(_, text)| xnli(&keys, premise, text, label)));
            }
            Ok(made)
        })])
    }
}

/// Keeps the examples of TyDi QA whose 'id' begins with a language and "-". Source: mT5
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "multilingual_t5.preprocessors.filter_tydiqa_by_language")]
pub struct FilterTydiqaByLanguage {
    /// The language in English: 'finnish'.
    pub lang: String,
}

impl Preprocess for FilterTydiqaByLanguage {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let language = self.lang.clone();
        Ok(vec![filter(move |example| {
            Ok(text_of(example, "id")?.split('-').next() == Some(&language))
        })])
    }
}

/// Converts sentences for named-entity recognition: "tag: " and the words become inputs, "PER: rick
/// $$ PER: morty" targets. Source: mT5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "multilingual_t5.preprocessors.wikiann")]
pub struct Wikiann {}

impl Preprocess for Wikiann {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let keys = PairKeys::new();
        Ok(vec![Step::map(move |example| {
            let inputs = format!("tag: {}", texts_of(&example, "tokens")?.join(" "));
            let spans = texts_of(&example, "spans")?;
            let mut made = keys.pair(inputs, spans.join(" $$ "));
            for name in ["tokens", "tags", "langs"] {
                made.set(name.into(), value_of(&example, name)?.clone());
            }
            made.set("spans".into(), Value::Texts(spans.to_vec()));
            Ok(made)
        })])
    }
}
