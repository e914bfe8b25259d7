//! Small steps that Python tasks write as lambdas: filter, set, map, format, replace.

use std::collections::BTreeMap;

use super::tsv::{Piece, pieces};
use super::{Context, Preprocess, Step, filter, int_of, missing, text_of, value_of};
use crate::error::DataError;
use crate::example::Example;
use crate::value::{Key, Value};
use gimlet_gin::{Configurable, repr_float};

/// Keeps the examples in which a feature has one of the given values. Python's
/// `dataset.filter(lambda x: x['label'] != -1)`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.preprocessors.filter")]
pub struct FilterByValue {
    /// The feature.
    pub key: String,
    /// The values, texts or numbers.
    pub values: Vec<Value>,
    /// Whether examples with these values are dropped instead.
    #[gin(default = false)]
    pub negate: bool,
}

impl Preprocess for FilterByValue {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let spec = self.clone();
        Ok(vec![filter(move |example| {
            let value = value_of(example, &spec.key)?;
            Ok(spec.values.iter().any(|wanted| equal(wanted, value)) != spec.negate)
        })])
    }
}

/// Equality as in Python: 1 equals 1.0.
fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Int(int), Value::Float(float)) | (Value::Float(float), Value::Int(int)) => {
            *int as f64 == *float
        }
        _ => one == other,
    }
}

/// Sets features to values that are the same for all examples.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.preprocessors.set_features")]
pub struct SetFeature {
    /// Feature to value; existing features are replaced.
    pub features: BTreeMap<String, Value>,
}

impl Preprocess for SetFeature {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let features: Vec<(Key, Value)> =
            self.features.iter().map(|(key, value)| (key.as_str().into(), value.clone())).collect();
        Ok(vec![Step::map(move |mut example| {
            features.iter().cloned().for_each(|(key, value)| example.set(key, value));
            Ok(example)
        })])
    }
}

/// Adds the name of a label's number as another feature: 0 becomes 'entailment'.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.preprocessors.label_names")]
pub struct MapLabels {
    /// The feature that holds the number.
    #[gin(default = "label".to_string())]
    pub key: String,
    /// The feature that gets the name.
    #[gin(default = "targets".to_string())]
    pub output_key: String,
    /// Names of the labels, in the order of their numbers.
    pub names: Vec<String>,
    /// The name of any other number; without it such a number is an error.
    #[gin(default = None)]
    pub default: Option<String>,
}

impl Preprocess for MapLabels {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let (spec, output_key) = (self.clone(), Key::from(self.output_key.as_str()));
        Ok(vec![Step::map(move |mut example| {
            let label = int_of(&example, &spec.key)?;
            let name = usize::try_from(label).ok().and_then(|label| spec.names.get(label));
            let name = name.or(spec.default.as_ref()).ok_or_else(|| {
                let (key, count) = (&spec.key, spec.names.len());
                format!("'{key}' is {label}, expected one of the {count} of `names` from 0")
            })?;
            example.set(output_key.clone(), Value::Text(name.clone()));
            Ok(example)
        })])
    }
}

/// Makes features from formats: `{'inputs': 'question: {question}'}`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.preprocessors.format")]
pub struct FormatFeatures {
    /// Feature to its format, in which `{name}` is replaced by a feature: texts unchanged, numbers
    /// as Python writes them, lists joined by ", ".
    pub formats: BTreeMap<String, String>,
    /// Whether the other features are kept.
    #[gin(default = true)]
    pub keep: bool,
}

impl Preprocess for FormatFeatures {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let formats: Vec<(Key, String)> = self
            .formats
            .iter()
            .map(|(key, format)| (key.as_str().into(), format.clone()))
            .collect();
        let keep = self.keep;
        Ok(vec![Step::map(move |example| {
            let made: Result<Vec<(Key, Value)>, String> = formats
                .iter()
                .map(|(key, format)| Ok((key.clone(), Value::Text(formatted(format, &example)?))))
                .collect();
            let mut out = if keep { example } else { Example::default() };
            made?.into_iter().for_each(|(key, value)| out.set(key, value));
            Ok(out)
        })])
    }
}

fn formatted(format: &str, example: &Example) -> Result<String, String> {
    let text = |piece: Piece<'_>| match piece {
        Piece::Literal(text) => Ok(text.to_string()),
        Piece::Name(name) => example.get(name).map(plain).ok_or_else(|| missing(example, name)),
    };
    pieces(format).into_iter().map(text).collect()
}

fn plain(value: &Value) -> String {
    let list = |items: Vec<String>| items.join(", ");
    match value {
        Value::Text(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => repr_float(*number),
        Value::Texts(texts) => list(texts.clone()),
        Value::Ints(ids) => list(ids.iter().map(i32::to_string).collect()),
        Value::Longs(numbers) => list(numbers.iter().map(i64::to_string).collect()),
        Value::Floats(numbers) => list(numbers.iter().map(|number| repr_float(*number)).collect()),
        Value::IntRows(rows) => list(rows.iter().map(|row| format!("{row:?}")).collect()),
        Value::FloatRows(rows) => list(rows.iter().map(|row| format!("{row:?}")).collect()),
        Value::Lists(lists) => {
            list(lists.iter().map(|inner| format!("[{}]", plain(inner))).collect())
        }
    }
}

/// Replaces a text within some features. Python's `text.replace(' ', '')`, after which a model
/// learns to restore spaces.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.preprocessors.replace")]
pub struct ReplaceText {
    /// The features.
    #[gin(default = vec!["text".to_string()])]
    pub keys: Vec<String>,
    /// The text that is replaced, wherever it occurs.
    pub old: String,
    /// The text that replaces it.
    #[gin(default = String::new())]
    pub new: String,
}

impl Preprocess for ReplaceText {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let spec = self.clone();
        Ok(vec![Step::map(move |mut example| {
            for key in &spec.keys {
                let replaced = text_of(&example, key)?.replace(&spec.old, &spec.new);
                example.set(key.as_str().into(), Value::Text(replaced));
            }
            Ok(example)
        })])
    }
}
