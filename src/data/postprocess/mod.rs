//! From decoded text to the values that metrics compare. Source: t5 `data/postprocessors.py`.
//!
//! A postprocessor sees the whole example, and converts the target (the list of all right answers,
//! the group that a question belongs to) to another form than the model's prediction.

mod printed;
mod python;

use serde_json::{Map, Value, json};

use gimlet_gin::{Configurable, Nested, Value as PythonValue, ValueKind};
use gimlet_metrics::{
    is_space, normalize_squad, number_value, with_ascii_digits, without_underscores,
};

use printed::{in_python, tuple_in_python};

pub use printed::printed;
pub use python::PythonPostprocessor;

/// The features of an example, by name.
pub type ExampleFeatures = Map<String, Value>;

gimlet_gin::slot! {
    /// Any postprocessor of a task, in called form: `@t5.data.postprocessors.lower_text()`.
    pub enum Postprocessor: Postprocess {
        LowerText,
        Multirc,
        NaturalQuestions,
        NormalizedLabelToClassId,
        PythonPostprocessor,
        Qa,
        RankClassificationTargets,
        Record,
        RemoveSentinels,
        SpanQa,
        StringLabelToClassId,
        StringToFloat,
        StripWhitespace,
        WscSimple,
    }
}

impl Postprocessor {
    /// The text in the form that metrics take, or the reason why it has no such form.
    ///
    /// # Errors
    /// A feature that is missing in the example.
    pub fn apply(
        &self,
        text: &str,
        example: &ExampleFeatures,
        is_target: bool,
    ) -> Result<Value, String> {
        match is_target {
            true => self.spec().target(text, example),
            false => self.spec().prediction(text, example),
        }
    }
}

/// A postprocessor that gin can name.
trait Postprocess {
    /// Converts a prediction.
    fn prediction(&self, text: &str, example: &ExampleFeatures) -> Result<Value, String>;

    /// Converts a target.
    fn target(&self, text: &str, example: &ExampleFeatures) -> Result<Value, String> {
        self.prediction(text, example)
    }

    /// Returns a target as t5 has it in Python, with the tuples and truth values that JSON lacks.
    fn target_in_python(&self, target: &Value) -> ValueKind {
        in_python(target)
    }
}

/// The value of a feature.
fn feature<'a>(example: &'a ExampleFeatures, name: &str) -> Result<&'a Value, String> {
    example.get(name).ok_or_else(|| {
        let known: Vec<String> = example.keys().map(|key| format!("'{key}'")).collect();
        format!("the example lacks '{name}'; it has {}", known.join(", "))
    })
}

/// Lower-cases the text.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.postprocessors.lower_text")]
pub struct LowerText {}

impl Postprocess for LowerText {
    fn prediction(&self, text: &str, _: &ExampleFeatures) -> Result<Value, String> {
        Ok(json!(text.to_lowercase()))
    }
}

/// Converts a text to a number.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.postprocessors.string_to_float")]
pub struct StringToFloat {
    /// The number for any other text.
    #[gin(default = -1.0)]
    pub default: f64,
}

impl Postprocess for StringToFloat {
    fn prediction(&self, text: &str, _: &ExampleFeatures) -> Result<Value, String> {
        Ok(number_value(python_float(text).unwrap_or(self.default)))
    }
}

/// Python's `float(text)`: digits of any script, white space around them, and single `_` between them.
fn python_float(text: &str) -> Option<f64> {
    // For ASCII texts only ASCII white space is removed.
    let text = match text.is_ascii() {
        true => text.trim_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']),
        false => text.trim_matches(is_space),
    };
    without_underscores(&with_ascii_digits(text))?.parse().ok()
}

/// The index of a label in `label_classes`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.postprocessors.string_label_to_class_id")]
pub struct StringLabelToClassId {
    /// The labels in the order of their ids.
    pub label_classes: Vec<String>,
    /// The id of any other text.
    #[gin(default = -1)]
    pub default: i64,
}

impl Postprocess for StringLabelToClassId {
    fn prediction(&self, text: &str, _: &ExampleFeatures) -> Result<Value, String> {
        let index = self.label_classes.iter().position(|label| label == text);
        Ok(json!(index.map_or(self.default, |index| index as i64)))
    }
}

/// The index of a label in `label_classes` after SQuAD's normalization: lower case, without punctuation, articles and superfluous
/// white space. Source: t5-experiments `run_finetuning_hyp.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.postprocessors.normalized_label_to_class_id")]
pub struct NormalizedLabelToClassId {
    /// The labels in the order of their ids, as the normalization leaves them.
    pub label_classes: Vec<String>,
    /// The id of any other text.
    #[gin(default = 0)]
    pub default: i64,
}

impl Postprocess for NormalizedLabelToClassId {
    fn prediction(&self, text: &str, example: &ExampleFeatures) -> Result<Value, String> {
        let (label_classes, default) = (self.label_classes.clone(), self.default);
        StringLabelToClassId { label_classes, default }.prediction(&normalize_squad(text), example)
    }
}

/// Converts `False` or `True` to `{'value': 0 or 1}`; the target also has its question as `group`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.postprocessors.multirc")]
pub struct Multirc {}

impl Postprocess for Multirc {
    fn prediction(&self, text: &str, _: &ExampleFeatures) -> Result<Value, String> {
        let value = ["False", "True"].iter().position(|label| *label == text);
        Ok(json!({"value": value.map_or(-1, |value| value as i64)}))
    }

    fn target(&self, text: &str, example: &ExampleFeatures) -> Result<Value, String> {
        let mut out = self.prediction(text, example)?;
        out["group"] = feature(example, "idx/question")?.clone();
        Ok(out)
    }
}

/// `{'value': answer}`; the target has all `answers`, and passage and query as `group`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.postprocessors.record")]
pub struct Record {}

impl Postprocess for Record {
    fn prediction(&self, text: &str, _: &ExampleFeatures) -> Result<Value, String> {
        Ok(json!({"value": text}))
    }

    fn target(&self, _: &str, example: &ExampleFeatures) -> Result<Value, String> {
        let group = [feature(example, "idx/passage")?, feature(example, "idx/query")?];
        Ok(json!({"value": feature(example, "answers")?, "group": group}))
    }

    fn target_in_python(&self, target: &Value) -> ValueKind {
        let entry = |(name, value): (&str, ValueKind)| {
            (PythonValue::unplaced(ValueKind::Str(name.to_string())), PythonValue::unplaced(value))
        };
        let value = ("value", in_python(&target["value"]));
        let group = ("group", tuple_in_python(&target["group"]));
        ValueKind::Dict([value, group].map(entry).into())
    }
}

/// The answer; for the target, all `answers`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.postprocessors.qa")]
pub struct Qa {}

impl Postprocess for Qa {
    fn prediction(&self, text: &str, _: &ExampleFeatures) -> Result<Value, String> {
        Ok(json!(text))
    }

    fn target(&self, _: &str, example: &ExampleFeatures) -> Result<Value, String> {
        feature(example, "answers").cloned()
    }
}

/// The answers, each after a prefix, as a list of one group; for the target, a group for each
/// annotator. Source: `t5_cbqa`'s `postprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5_cbqa.postprocessors.natural_questions")]
pub struct NaturalQuestions {
    /// The text before each answer.
    #[gin(default = "answer:".to_string())]
    pub prefix: String,
}

impl Postprocess for NaturalQuestions {
    fn prediction(&self, text: &str, _: &ExampleFeatures) -> Result<Value, String> {
        let answers: Vec<&str> = text.split(&self.prefix).skip(1).map(str::trim).collect();
        Ok(json!([answers]))
    }

    fn target(&self, _: &str, example: &ExampleFeatures) -> Result<Value, String> {
        let list = |name| feature(example, name).map(|value| value.as_array().cloned());
        let texts = list("short_answers/values")?.unwrap_or_default();
        let starts = list("short_answers/row_starts")?.unwrap_or_default();
        let yes_no = list("yes_no_answers")?.unwrap_or_default();
        if starts.len() != yes_no.len() {
            return Err(format!(
                "{} annotators gave short answers and {} said yes or no, expected the same number",
                starts.len(),
                yes_no.len()
            ));
        }
        let place = |start: Option<&Value>| {
            start.and_then(Value::as_u64).map_or(texts.len(), |start| start as usize)
        };
        let group = |(index, said): (usize, &Value)| {
            let range = place(starts.get(index))..place(starts.get(index + 1));
            let short = texts.get(range).unwrap_or_default();
            match said.as_i64() {
                Some(0 | 1) if !short.is_empty() => {
                    Err("an annotator gave both a short answer and yes or no".to_string())
                }
                Some(0) => Ok(json!(["no"])),
                Some(1) => Ok(json!(["yes"])),
                _ => Ok(json!(short)),
            }
        };
        yes_no.iter().enumerate().map(group).collect::<Result<Vec<_>, _>>().map(Value::Array)
    }
}

/// The answer; for the target, all `answers` and the `context`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.postprocessors.span_qa")]
pub struct SpanQa {}

impl Postprocess for SpanQa {
    fn prediction(&self, text: &str, _: &ExampleFeatures) -> Result<Value, String> {
        Ok(json!(text))
    }

    fn target(&self, _: &str, example: &ExampleFeatures) -> Result<Value, String> {
        let (answers, context) = (feature(example, "answers")?, feature(example, "context")?);
        Ok(json!({"answers": answers, "context": context}))
    }
}

/// Whether the prediction names the referent of the pronoun: 1, 0, or -1 if it names nothing. The
/// target is the example's `label`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.postprocessors.wsc_simple")]
pub struct WscSimple {}

impl Postprocess for WscSimple {
    fn prediction(&self, text: &str, example: &ExampleFeatures) -> Result<Value, String> {
        let prediction = without_determiners(text);
        if prediction.is_empty() {
            return Ok(json!(-1));
        }
        let referent = feature(example, "targets_pretokenized")?;
        let referent = without_determiners(referent.as_str().unwrap_or_default());
        // "Bob" does not name "Bob's hat".
        let both_possessive = prediction.contains('\'') == referent.contains('\'');
        let words = |text: &str| text.split(' ').map(str::to_string).collect::<Vec<_>>();
        let (predicted, referred) = (words(&prediction), words(&referent));
        let within = |a: &[String], b: &[String]| a.iter().all(|word| b.contains(word));
        // "fuzzy bunny" does name "bunny".
        let names_it = within(&predicted, &referred) || within(&referred, &predicted);
        Ok(json!(i64::from(both_possessive && names_it)))
    }

    fn target(&self, _: &str, example: &ExampleFeatures) -> Result<Value, String> {
        feature(example, "label").cloned()
    }
}

const DETERMINERS: [&str; 21] = [
    "a", "an", "few", "her", "his", "each", "every", "many", "much", "my", "our", "some", "that",
    "the", "their", "these", "this", "those", "which", "whose", "your",
];

/// The text in lower case without articles and the like.
fn without_determiners(text: &str) -> String {
    let lower = text.trim().to_lowercase();
    let kept: Vec<&str> = lower.split(' ').filter(|word| !DETERMINERS.contains(word)).collect();
    kept.join(" ")
}

/// Converts the target to `(idx, is_correct, weight, length)`, for the metric
/// `rank_classification`; scores stay unchanged.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.postprocessors.rank_classification")]
pub struct RankClassificationTargets {
    /// Features added at the end of the tuple.
    #[gin(default = None)]
    pub passthrough_feature_keys: Option<Vec<String>>,
}

impl Postprocess for RankClassificationTargets {
    fn prediction(&self, text: &str, _: &ExampleFeatures) -> Result<Value, String> {
        Ok(json!(text))
    }

    fn target(&self, _: &str, example: &ExampleFeatures) -> Result<Value, String> {
        let weight = example.get("weight").cloned().unwrap_or(json!(1.0));
        let length = feature(example, "targets")?.as_array().map_or(0, Vec::len);
        let idx = feature(example, "idx")?.clone();
        let mut out = vec![idx, feature(example, "is_correct")?.clone(), weight, json!(length)];
        for key in self.passthrough_feature_keys.iter().flatten() {
            out.push(feature(example, key)?.clone());
        }
        Ok(Value::Array(out))
    }

    fn target_in_python(&self, target: &Value) -> ValueKind {
        let mut target = target.clone();
        target[1] = json!(target[1].as_i64() == Some(1));
        tuple_in_python(&target)
    }
}

/// Removes the sentinels that `add_sentinels` put before the targets, then applies another
/// postprocessor. Source: SeqIO `experimental.py`, `add_task_with_sentinels`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.experimental.remove_sentinels")]
pub struct RemoveSentinels {
    /// Number of sentinels.
    #[gin(default = 1)]
    pub num_sentinels: usize,
    /// The postprocessor that then gets the text.
    #[gin(default = None)]
    pub postprocess_fn: Option<Nested<Postprocessor>>,
}

impl RemoveSentinels {
    fn rest<'a>(&self, text: &'a str) -> &'a str {
        let sentinels: Vec<String> =
            (0..self.num_sentinels).map(|index| format!("<extra_id_{index}>")).collect();
        text.strip_prefix(&sentinels.join(" ")).map_or(text, str::trim)
    }

    fn go_on(&self, text: &str, example: &ExampleFeatures, target: bool) -> Result<Value, String> {
        match &self.postprocess_fn {
            Some(next) => next.apply(self.rest(text), example, target),
            None => Ok(json!(self.rest(text))),
        }
    }
}

impl Postprocess for RemoveSentinels {
    fn prediction(&self, text: &str, example: &ExampleFeatures) -> Result<Value, String> {
        self.go_on(text, example, false)
    }

    fn target(&self, text: &str, example: &ExampleFeatures) -> Result<Value, String> {
        self.go_on(text, example, true)
    }

    fn target_in_python(&self, target: &Value) -> ValueKind {
        match &self.postprocess_fn {
            Some(next) => next.spec().target_in_python(target),
            None => in_python(target),
        }
    }
}

/// The text without white space around it, and if the answers are known, the index of the text
/// among them. Source: T0 `seqio_tasks/tasks.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t0.strip_whitespace")]
pub struct StripWhitespace {
    /// The answers in the order of their ids; None keeps the text.
    #[gin(default = None)]
    pub label_classes: Option<Vec<String>>,
}

impl Postprocess for StripWhitespace {
    fn prediction(&self, text: &str, _: &ExampleFeatures) -> Result<Value, String> {
        let text = text.trim();
        Ok(match &self.label_classes {
            None => json!(text),
            Some(labels) => {
                let index = labels.iter().position(|label| label == text);
                json!(index.map_or(-1, |index| index as i64))
            }
        })
    }
}
