//! Few-shot prompts: the training examples and an example in one text. Source: SeqIO
//! `experimental.py`.

use super::{Context, ExamplePosition, FlatMapStep, Preprocess, Step, missing, text_of};
use crate::error::DataError;
use crate::example::Example;
use crate::value::Value;
use gimlet_gin::Configurable;

/// Writes the training examples that `FewshotDataSource` joins to an example before its inputs,
/// each with inputs and targets; keeps the other features of the example. If the inputs are a list,
/// each item becomes an example.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "seqio.experimental.fewshot_preprocessor",
    alias = "seqio.preprocessors.fewshot_preprocessor"
)]
pub struct FewshotPreprocessor {
    /// The text before all inputs.
    #[gin(default = String::new())]
    pub inputs_prefix: String,
    /// The text before all targets; before the last ones without the blanks at its end.
    #[gin(default = String::new())]
    pub targets_prefix: String,
    /// The text after each training example, and after the prompt.
    #[gin(default = "\n\n".to_string())]
    pub example_separator: String,
    /// The text at the beginning, unless it is empty.
    #[gin(default = String::new())]
    pub prompt: String,
    /// Whether the training examples are in the opposite order.
    #[gin(default = false)]
    pub reverse: bool,
}

impl Preprocess for FewshotPreprocessor {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        Ok(vec![Step::FlatMap(Box::new(self.clone()))])
    }
}

impl FewshotPreprocessor {
    /// The prompt and the training examples.
    fn shots(&self, example: &Example) -> Result<String, String> {
        let mut shots = String::new();
        if let Some(inputs) = example.get("train/inputs") {
            let targets = example.get("train/targets");
            let targets = targets.ok_or_else(|| missing(example, "train/targets"))?;
            let (Value::Texts(inputs), Value::Texts(targets)) = (inputs, targets) else {
                return Err("'train/inputs' and 'train/targets' must be lists of texts".to_string());
            };
            let pairs = inputs.iter().zip(targets).map(|(inputs, targets)| {
                let Self { inputs_prefix, targets_prefix, example_separator, .. } = self;
                format!("{inputs_prefix}{inputs}{targets_prefix}{targets}{example_separator}")
            });
            shots = match self.reverse {
                true => pairs.rev().collect(),
                false => pairs.collect(),
            };
        }
        Ok(match self.prompt.is_empty() {
            true => shots,
            false => format!("{}{}{shots}", self.prompt, self.example_separator),
        })
    }

    fn inputs(&self, shots: &str, inputs: &str) -> Value {
        let prefix = self.targets_prefix.trim_end();
        Value::Text(format!("{shots}{}{inputs}{prefix}", self.inputs_prefix))
    }
}

impl FlatMapStep for FewshotPreprocessor {
    fn apply(&self, example: Example, _: ExamplePosition<'_>) -> Result<Vec<Example>, String> {
        let shots = self.shots(&example)?;
        let Some(targets) = example.get("eval/targets") else {
            return Err(missing(&example, "eval/targets"));
        };
        let others = || {
            let all = example.iter().filter_map(|(key, value)| Some((eval_key(key)?, value)));
            all.filter(|(key, _)| !matches!(*key, "inputs" | "targets"))
        };
        if let Some(Value::Texts(inputs)) = example.get("eval/inputs") {
            let one = |(i, inputs): (usize, &String)| {
                let mut one = Example::of("inputs".into(), self.inputs(&shots, inputs));
                one.set("targets".into(), item("targets", targets, i)?);
                for (key, value) in others() {
                    one.set(key.into(), item(key, value, i)?);
                }
                Ok(one)
            };
            return inputs.iter().enumerate().map(one).collect();
        }
        let inputs = text_of(&example, "eval/inputs")?;
        let mut one = Example::of("inputs".into(), self.inputs(&shots, inputs));
        one.set("targets".into(), targets.clone());
        for (key, value) in others() {
            one.set(key.into(), value.clone());
        }
        Ok(vec![one])
    }
}

fn eval_key(key: &str) -> Option<&str> {
    key.strip_prefix("eval/")
}

/// An item of a feature that is a list like the inputs.
fn item(key: &str, value: &Value, index: usize) -> Result<Value, String> {
    let found = match value {
        Value::Texts(texts) => texts.get(index).cloned().map(Value::Text),
        Value::Ints(ids) => ids.get(index).map(|id| Value::Int((*id).into())),
        Value::Longs(longs) => longs.get(index).copied().map(Value::Int),
        Value::Floats(floats) => floats.get(index).copied().map(Value::Float),
        Value::IntRows(rows) => rows.get(index).cloned().map(Value::Ints),
        Value::FloatRows(rows) => rows.get(index).cloned().map(Value::Floats),
        Value::Lists(lists) => lists.get(index).cloned(),
        Value::Text(_) | Value::Int(_) | Value::Float(_) => None,
    };
    found.ok_or_else(|| {
        let kind = value.type_name();
        format!("'{key}' is {kind} without an item {}, which 'inputs' has", index + 1)
    })
}
