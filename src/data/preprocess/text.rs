//! Preprocessors of text: from a data set's own fields to 'inputs' and 'targets'.

use std::collections::BTreeMap;

use super::{Context, Preprocess, Step, missing, text_of};
use crate::data::error::DataError;
use crate::data::example::{Example, Key, Value};
use crate::gin::Configurable;

/// Renames features, dropping the others. Source: SeqIO `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.preprocessors.rekey", alias = "t5.data.preprocessors.rekey")]
pub struct Rekey {
    /// New name to old name; None makes an empty text. Without it nothing changes.
    #[gin(default = BTreeMap::new())]
    pub key_map: BTreeMap<String, Option<String>>,
}

/// `{'de': .., 'en': ..}` becomes "translate German to English: ..". Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.translate")]
pub struct Translate {
    /// Code of the language to translate from, which is also its feature.
    pub source_language: String,
    /// Code of the language to translate to, which is also its feature.
    pub target_language: String,
}

/// An article becomes "summarize: ..". Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.summarize")]
pub struct Summarize {
    /// The feature that holds the article.
    pub article_key: String,
    /// The feature that holds the summary.
    pub summary_key: String,
}

/// The fields of a delimited line as features; quotes have no meaning. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.parse_tsv")]
pub struct ParseTsv {
    /// Names of the fields; 'inputs' and 'targets' if None.
    #[gin(default = None)]
    pub field_names: Option<Vec<String>>,
    /// What separates fields.
    #[gin(default = "\t".to_string())]
    pub field_delim: String,
    /// Columns of the fields; the first ones if None.
    #[gin(default = None)]
    pub field_columns: Option<Vec<usize>>,
}

/// The fields of a delimited line, put into formats. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5.data.preprocessors.preprocess_tsv",
    ignored(use_quote_delim = "quotes have no meaning")
)]
pub struct PreprocessTsv {
    /// What separates fields.
    #[gin(default = "\t".to_string())]
    pub field_delim: String,
    /// Number of fields where they have no names.
    #[gin(default = 2)]
    pub num_fields: usize,
    /// 'inputs', with `{0}` or `{name}` for a field.
    #[gin(default = "{0}".to_string())]
    pub inputs_format: String,
    /// 'targets', with `{0}` or `{name}` for a field.
    #[gin(default = "{1}".to_string())]
    pub targets_format: String,
    /// Names of the fields; numbers from 0 if None.
    #[gin(default = None)]
    pub field_names: Option<Vec<String>>,
}

/// An example of texts, whose keys are shared by all examples.
fn pair(keys: &[Key; 2], inputs: String, targets: String) -> Example {
    let [inputs_key, targets_key] = keys.clone();
    [(inputs_key, Value::Text(inputs)), (targets_key, Value::Text(targets))].into_iter().collect()
}

fn pair_keys() -> [Key; 2] {
    ["inputs".into(), "targets".into()]
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

impl Preprocess for Translate {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let (source, target) = (self.source_language.clone(), self.target_language.clone());
        let prefix = format!("translate {} to {}: ", english(&source)?, english(&target)?);
        let keys = pair_keys();
        Ok(vec![Step::map(move |example| {
            let inputs = format!("{prefix}{}", text_of(&example, &source)?);
            Ok(pair(&keys, inputs, text_of(&example, &target)?.to_string()))
        })])
    }
}

/// English names of languages, as Unicode's CLDR has them.
const LANGUAGES: [(&str, &str); 34] = [
    ("ar", "Arabic"),
    ("bg", "Bulgarian"),
    ("cs", "Czech"),
    ("da", "Danish"),
    ("de", "German"),
    ("el", "Greek"),
    ("en", "English"),
    ("es", "Spanish"),
    ("et", "Estonian"),
    ("fa", "Persian"),
    ("fi", "Finnish"),
    ("fr", "French"),
    ("gu", "Gujarati"),
    ("he", "Hebrew"),
    ("hi", "Hindi"),
    ("hu", "Hungarian"),
    ("id", "Indonesian"),
    ("it", "Italian"),
    ("ja", "Japanese"),
    ("kk", "Kazakh"),
    ("ko", "Korean"),
    ("lt", "Lithuanian"),
    ("lv", "Latvian"),
    ("nl", "Dutch"),
    ("no", "Norwegian"),
    ("pl", "Polish"),
    ("pt", "Portuguese"),
    ("ro", "Romanian"),
    ("ru", "Russian"),
    ("sv", "Swedish"),
    ("tr", "Turkish"),
    ("uk", "Ukrainian"),
    ("vi", "Vietnamese"),
    ("zh", "Chinese"),
];

/// The name of a language by the first two letters of its code.
fn english(code: &str) -> Result<&'static str, DataError> {
    let known = LANGUAGES.iter().find(|(known, _)| code.get(..2) == Some(*known));
    known.map(|(_, name)| *name).ok_or_else(|| {
        let known: Vec<&str> = LANGUAGES.iter().map(|(code, _)| *code).collect();
        let known = known.join(", ");
        DataError::Config(format!("`translate` has no name for language '{code}'; known: {known}"))
    })
}

impl Preprocess for Summarize {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let (keys, spec) = (pair_keys(), self.clone());
        Ok(vec![Step::map(move |example| {
            let inputs = format!("summarize: {}", text_of(&example, &spec.article_key)?);
            Ok(pair(&keys, inputs, text_of(&example, &spec.summary_key)?.to_string()))
        })])
    }
}

impl Preprocess for ParseTsv {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let names = self.field_names.clone().unwrap_or(vec!["inputs".into(), "targets".into()]);
        let columns = self.field_columns.clone().unwrap_or((0..names.len()).collect());
        let fields: Vec<(Key, usize)> =
            names.iter().map(|name| Key::from(name.as_str())).zip(columns).collect();
        let delimiter = self.field_delim.clone();
        Ok(vec![Step::map(move |example| {
            let line = text_of(&example, "text")?;
            let columns: Vec<&str> = line.split(&delimiter).collect();
            let field = |(name, column): &(Key, usize)| {
                let value = columns.get(*column).ok_or_else(|| {
                    format!("column {column} for '{name}' is missing in {line:?}")
                })?;
                Ok((name.clone(), Value::Text(value.to_string())))
            };
            fields.iter().map(field).collect()
        })])
    }
}

/// A piece of a format: text as it is, or a field.
enum Part {
    Literal(String),
    Field(usize),
}

impl Preprocess for PreprocessTsv {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let names = self
            .field_names
            .clone()
            .unwrap_or_else(|| (0..self.num_fields).map(|i| i.to_string()).collect());
        let inputs = parts_of(&self.inputs_format, &names);
        let targets = parts_of(&self.targets_format, &names);
        let (keys, delimiter) = (pair_keys(), self.field_delim.clone());
        Ok(vec![Step::map(move |example| {
            let line = text_of(&example, "text")?;
            let fields: Vec<&str> = line.split(&delimiter).collect();
            if fields.len() != names.len() {
                let (found, expected) = (fields.len(), names.len());
                return Err(format!("expected {expected} fields, found {found} in {line:?}"));
            }
            Ok(pair(&keys, join(&inputs, &fields), join(&targets, &fields)))
        })])
    }
}

fn parts_of(format: &str, names: &[String]) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = format;
    while let Some((at, field)) = next_field(rest, names) {
        parts.push(Part::Literal(rest[..at].to_string()));
        parts.push(Part::Field(field));
        rest = &rest[at + names[field].len() + 2..];
    }
    parts.push(Part::Literal(rest.to_string()));
    parts
}

/// Where the next `{name}` stands, and which field it is.
fn next_field(format: &str, names: &[String]) -> Option<(usize, usize)> {
    let places = names.iter().enumerate();
    places.filter_map(|(i, name)| Some((format.find(&format!("{{{name}}}"))?, i))).min()
}

fn join(parts: &[Part], fields: &[&str]) -> String {
    let text = |part: &Part| match part {
        Part::Literal(text) => text.clone(),
        Part::Field(field) => fields[*field].to_string(),
    };
    parts.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::preprocess::Place;
    use crate::data::random::StageSeed;

    fn run(spec: &dyn Preprocess, features: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let seed = StageSeed::new(0, "test");
        let text = |text: &str| Value::Text(text.to_string());
        let mut example: Example =
            features.iter().map(|(key, value)| (Key::from(*key), text(value))).collect();
        let output_features = Default::default();
        let cx = Context { features: &output_features, lengths: None };
        for step in spec.steps(&cx).map_err(|error| error.to_string())? {
            let Step::Map(map) = step else { panic!("a map was expected") };
            example = map.apply(example, Place { seed: &seed, counter: 0 })?.expect("kept");
        }
        Ok(example.iter().map(|(key, _)| format!("{key}={}", example.text(key).unwrap())).collect())
    }

    #[test]
    fn rekey_renames_and_empties() {
        let spec = |entries: &[(&str, Option<&str>)]| Rekey {
            key_map: entries.iter().map(|(n, o)| (n.to_string(), o.map(str::to_string))).collect(),
        };
        let rekey = spec(&[("inputs", None), ("targets", Some("text"))]);
        assert_eq!(run(&rekey, &[("text", "x"), ("b", "y")]).unwrap(), ["inputs=", "targets=x"]);
        let rekey = spec(&[("a", Some("text")), ("b", Some("text"))]);
        assert_eq!(run(&rekey, &[("text", "x")]).unwrap(), ["a=x", "b=x"]);
        let error = run(&spec(&[("targets", Some("text"))]), &[("txt", "x")]).unwrap_err();
        assert_eq!(error, "the example lacks 'text'; it has 'txt'");
    }

    #[test]
    fn translations_and_summaries_say_what_to_do() {
        let spec = Translate { source_language: "de".into(), target_language: "en".into() };
        let found = run(&spec, &[("de", "Das ist gut."), ("en", "That is good.")]);
        let inputs = "inputs=translate German to English: Das ist gut.";
        assert_eq!(found.unwrap(), [inputs, "targets=That is good."]);
        let spec = Summarize { article_key: "a".into(), summary_key: "s".into() };
        let found = run(&spec, &[("a", "long"), ("s", "short")]).unwrap();
        assert_eq!(found, ["inputs=summarize: long", "targets=short"]);
    }

    #[test]
    fn tsv_fields_go_where_formats_put_them() {
        let spec = PreprocessTsv {
            field_delim: ",".into(),
            num_fields: 3,
            inputs_format: "numerator: {2} denominator: {1}".into(),
            targets_format: "quotient: {0}".into(),
            field_names: None,
        };
        let found = run(&spec, &[("text", "6,7,42")]).unwrap();
        assert_eq!(found, ["inputs=numerator: 42 denominator: 7", "targets=quotient: 6"]);
        let error = run(&spec, &[("text", "6,7")]).unwrap_err();
        assert_eq!(error, "expected 3 fields, found 2 in \"6,7\"");
        let spec = ParseTsv {
            field_names: None,
            field_delim: "\t".into(),
            field_columns: Some(vec![2, 0]),
        };
        let found = run(&spec, &[("text", "a\tb\tc")]).unwrap();
        assert_eq!(found, ["inputs=c", "targets=a"]);
    }
}
