//! Examples whose possible targets are scored, to find the most likely one.

use super::example_fn::{Equal, ExampleFn, Feature, Fill, OneHot};
use super::{Context, PairKeys, Preprocess, Step, flat_map, missing, re2, value_of};
use crate::error::DataError;
use crate::example::Example;
use crate::value::{Key, Value};
use gimlet_gin::{Configurable, Evaluator, FromGin, Registry, Reported, ValueKind};

/// The possible targets that become examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum RankingMode {
    /// Only the right ones.
    Train,
    /// All.
    Eval,
    /// All, as the rows of one example.
    FewshotEval,
}

/// Makes an example for each possible target, with 'idx' (number of the example, number of the
/// target) and 'is_correct'. Source: t5 `preprocessors.py`.
///
/// In Python its arguments are functions; here they are `@gimlet.example` functions, and those of
/// T0 by default: an example's 'answer_choices' are the targets of its repeated 'inputs', and the
/// choice that equals its 'targets' is right.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.rank_classification")]
pub struct RankClassification {
    /// Makes the list of inputs; None repeats 'inputs' for each of the 'answer_choices'.
    #[gin(default = None)]
    pub inputs_fn: Option<ExampleFn>,
    /// Makes the list of targets; 'answer_choices' if None.
    #[gin(default = None)]
    pub targets_fn: Option<ExampleFn>,
    /// Makes the list with 1 for right targets; None compares them with 'targets'.
    #[gin(default = None)]
    pub is_correct_fn: Option<ExampleFn>,
    /// Makes the weight of the example; None gives no weight.
    #[gin(default = None)]
    pub weight_fn: Option<ExampleFn>,
    /// The targets that become examples.
    #[gin(default = RankingMode::Eval)]
    pub mode: RankingMode,
    /// Features that are kept unchanged.
    #[gin(default = Vec::new())]
    pub passthrough_feature_keys: Vec<String>,
}

impl Preprocess for RankClassification {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let made = ["idx", "inputs", "targets", "is_correct"];
        let taken = |key: &&String| {
            made.contains(&key.as_str()) || (*key == "weight" && self.weight_fn.is_some())
        };
        if let Some(key) = self.passthrough_feature_keys.iter().find(taken) {
            return Err(DataError::Config(format!(
                "`rank_classification` makes a feature '{key}' itself, so that it cannot be passed \
                 through: rename it first, with `rekey`"
            )));
        }
        let choices = || "answer_choices".to_string();
        let or = |given: &Option<ExampleFn>, t0: ExampleFn| given.clone().unwrap_or(t0);
        let inputs = Fill { key: "inputs".to_string(), like: choices() };
        let inputs = or(&self.inputs_fn, ExampleFn::Fill(inputs));
        let targets = or(&self.targets_fn, ExampleFn::Feature(Feature { key: choices() }));
        let correct = Equal { key: choices(), to: "targets".to_string() };
        let correct = or(&self.is_correct_fn, ExampleFn::Equal(correct));
        let (keys, weight, mode) = (Keys::new(), self.weight_fn.clone(), self.mode);
        let passed = self.passthrough_feature_keys.clone();
        Ok(vec![flat_map(move |example, place| {
            let options = Options {
                inputs: texts(inputs.call(&example)?, "inputs_fn")?,
                targets: texts(targets.call(&example)?, "targets_fn")?,
                is_correct: truths(correct.call(&example)?)?,
                weight: weight.as_ref().map(|weight| weight.call(&example)).transpose()?,
            };
            let count = options.targets.len();
            let mut made = options.examples(&keys, place.counter, mode)?;
            for key in &passed {
                let value = match (value_of(&example, key)?, mode) {
                    (value, RankingMode::FewshotEval) => {
                        tiled(value, count).map_err(|e| format!("'{key}': {e}"))?
                    }
                    (value, _) => value.clone(),
                };
                made.iter_mut().for_each(|made| made.set(key.as_str().into(), value.clone()));
            }
            Ok(made)
        })])
    }
}

fn texts(value: Value, function: &str) -> Result<Vec<String>, String> {
    match value {
        Value::Texts(texts) => Ok(texts),
        Value::Ints(none) if none.is_empty() => Ok(Vec::new()),
        value => Err(format!("`{function}` makes {}, expected a list of texts", value.type_name())),
    }
}

fn truths(value: Value) -> Result<Vec<bool>, String> {
    match value {
        Value::Ints(truths) => Ok(truths.into_iter().map(|truth| truth != 0).collect()),
        value => {
            Err(format!("`is_correct_fn` makes {}, expected a list of ints", value.type_name()))
        }
    }
}

struct Keys {
    pair: PairKeys,
    idx: Key,
    is_correct: Key,
    weight: Key,
}

impl Keys {
    fn new() -> Self {
        let [idx, is_correct, weight] = ["idx", "is_correct", "weight"].map(Key::from);
        Self { pair: PairKeys::new(), idx, is_correct, weight }
    }
}

/// The possible examples made from one example.
struct Options {
    inputs: Vec<String>,
    targets: Vec<String>,
    is_correct: Vec<bool>,
    weight: Option<Value>,
}

impl Options {
    fn examples(self, keys: &Keys, number: u64, mode: RankingMode) -> Result<Vec<Example>, String> {
        let counts = [self.inputs.len(), self.targets.len(), self.is_correct.len()];
        if counts.iter().any(|count| *count != counts[0]) {
            let [inputs, targets, correct] = counts;
            return Err(format!(
                "`inputs_fn`, `targets_fn` and `is_correct_fn` make {inputs}, {targets} and \
                 {correct} items, expected equally many"
            ));
        }
        let number = i32::try_from(number).map_err(|_| "there are more than 2^31 examples")?;
        let weight = self.weight.as_ref().map(as_f32).transpose()?;
        if mode == RankingMode::FewshotEval {
            return Ok(vec![self.rows(keys, number, weight)]);
        }
        let pairs = self.inputs.into_iter().zip(self.targets).zip(self.is_correct).zip(0..);
        let wanted = pairs.filter(|((_, correct), _)| *correct || mode == RankingMode::Eval);
        let made = wanted.map(|(((inputs, targets), correct), option)| {
            let mut made = keys.pair.pair(inputs, targets);
            made.set(keys.idx.clone(), Value::Ints(vec![number, option]));
            made.set(keys.is_correct.clone(), Value::Int(i64::from(correct)));
            if let Some(weight) = weight {
                made.set(keys.weight.clone(), Value::Float(weight));
            }
            made
        });
        Ok(made.collect())
    }

    /// All targets in one example.
    fn rows(self, keys: &Keys, number: i32, weight: Option<f64>) -> Example {
        let count = self.targets.len();
        let idx = (0..).take(count).map(|option| vec![number, option]).collect();
        let is_correct = self.is_correct.into_iter().map(i32::from).collect();
        let mut made = Example::from_iter([
            (keys.pair.inputs.clone(), Value::Texts(self.inputs)),
            (keys.pair.targets.clone(), Value::Texts(self.targets)),
            (keys.idx.clone(), Value::IntRows(idx)),
            (keys.is_correct.clone(), Value::Ints(is_correct)),
        ]);
        if let Some(weight) = weight {
            made.set(keys.weight.clone(), Value::Floats(vec![weight; count]));
        }
        made
    }
}

/// The value, repeated for each of `count` rows.
fn tiled(value: &Value, count: usize) -> Result<Value, String> {
    Ok(match value {
        Value::Int(number) => {
            let id = i32::try_from(*number).map_err(|_| format!("{number} has over 32 bits"))?;
            Value::Ints(vec![id; count])
        }
        Value::Float(number) => Value::Floats(vec![*number; count]),
        Value::Text(text) => Value::Texts(vec![text.clone(); count]),
        Value::Ints(ids) => Value::IntRows(vec![ids.clone(); count]),
        Value::Floats(numbers) => Value::FloatRows(vec![numbers.clone(); count]),
        list => Value::Lists(vec![list.clone(); count]),
    })
}

/// The weight in the precision of TensorFlow's floats.
fn as_f32(weight: &Value) -> Result<f64, String> {
    match weight {
        Value::Float(weight) => Ok(f64::from(*weight as f32)),
        Value::Int(weight) => Ok(f64::from(*weight as f32)),
        weight => Err(format!("the weight is {}, expected a number", weight.type_name())),
    }
}

/// Makes an example for each format of inputs or targets, in which `{name}` is replaced by a
/// feature. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.rank_classification_formatter")]
pub struct RankClassificationFormatter {
    /// One format of all inputs, or a list with one format for each class.
    pub inputs_formats: Formats,
    /// One format of all targets, or a list with one format for each class.
    pub targets_formats: Formats,
    /// The classes that become examples.
    #[gin(default = RankingMode::Eval)]
    pub mode: RankingMode,
    /// The feature that holds the number of the right class, or of several right classes.
    #[gin(default = "label".to_string())]
    pub label_key: String,
    /// The feature that holds the example's weight; None gives no weight.
    #[gin(default = None)]
    pub weight_key: Option<String>,
}

/// One format for all classes, or one for each.
#[derive(Clone, Debug, PartialEq)]
pub enum Formats {
    /// One format for all classes.
    All(String),
    /// One format for each class.
    Each(Vec<String>),
}

impl FromGin for Formats {
    fn expected() -> String {
        "a str or a list of str".to_string()
    }

    fn from_gin(value: &gimlet_gin::Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Str(format) => Ok(Self::All(format.clone())),
            ValueKind::List(_) | ValueKind::Tuple(_) => cx.read(value).map(Self::Each),
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }

    fn register(_: &mut Registry) {}
}

impl Formats {
    fn of_each_class(&self, num_classes: usize) -> Vec<String> {
        match self {
            Self::All(format) => vec![format.clone(); num_classes],
            Self::Each(formats) => formats.clone(),
        }
    }
}

impl RankClassificationFormatter {
    fn num_classes(&self) -> Result<usize, DataError> {
        let wrong = |found: String| {
            DataError::Config(format!(
                "one of `inputs_formats` and `targets_formats` must be a list, or both of one \
                 length; found {found}"
            ))
        };
        match (&self.inputs_formats, &self.targets_formats) {
            (Formats::Each(inputs), Formats::Each(targets)) if inputs.len() != targets.len() => {
                Err(wrong(format!("{} and {} formats", inputs.len(), targets.len())))
            }
            (Formats::Each(formats), _) | (_, Formats::Each(formats)) => Ok(formats.len()),
            (Formats::All(_), Formats::All(_)) => Err(wrong("two texts".to_string())),
        }
    }
}

impl Preprocess for RankClassificationFormatter {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let num_classes = self.num_classes()?;
        let inputs = self.inputs_formats.of_each_class(num_classes);
        let targets = self.targets_formats.of_each_class(num_classes);
        let label = OneHot { key: self.label_key.clone(), num_classes };
        let correct = ExampleFn::OneHot(label);
        let weight = self.weight_key.clone().map(|key| ExampleFn::Feature(Feature { key }));
        let (keys, mode) = (Keys::new(), self.mode);
        Ok(vec![flat_map(move |example, place| {
            let formatted = |formats: &[String]| -> Result<Vec<String>, String> {
                formats.iter().map(|format| filled(format, &example)).collect()
            };
            let options = Options {
                inputs: formatted(&inputs)?,
                targets: formatted(&targets)?,
                is_correct: truths(correct.call(&example)?)?,
                weight: weight.as_ref().map(|weight| weight.call(&example)).transpose()?,
            };
            options.examples(&keys, place.counter, mode)
        })])
    }
}

/// The format with names replaced by features. t5 replaces them with a regular expression, so a
/// backslash in a feature's text is interpreted as part of a rewrite.
fn filled(format: &str, example: &Example) -> Result<String, String> {
    let mut out = format.to_string();
    for name in names(format) {
        let text = match example.get(name) {
            Some(Value::Text(text)) => text,
            Some(value) => {
                return Err(format!("'{name}' is {}, expected text", value.type_name()));
            }
            None => return Err(missing(example, name)),
        };
        out = re2::replace_literal(&out, &format!("{{{name}}}"), text);
    }
    Ok(out)
}

/// The texts in braces without a space, each once.
fn names(format: &str) -> Vec<&str> {
    let mut out = Vec::new();
    for piece in format.split('{').skip(1) {
        if let Some((name, _)) = piece.split_once('}')
            && !name.is_empty()
            && !name.contains(char::is_whitespace)
            && !out.contains(&name)
        {
            out.push(name);
        }
    }
    out
}
