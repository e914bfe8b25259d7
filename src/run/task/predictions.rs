//! A file of a model's predictions for the examples of a split: texts, or the JSON objects of evaluations and
//! inferences, which also hold the inputs.

use std::collections::BTreeMap;

use anyhow::anyhow;
use serde_json::{Value, json};

use crate::data::Task;
use crate::evaluation::Example;
use crate::run::failure::Failure;
use crate::run::output::quoted;
use crate::storage::Path;

/// Number of characters of a value that an error shows.
pub const SHOWN: usize = 60;

/// The output of a model for one example.
#[derive(Default)]
pub struct Output {
    /// A text before postprocessing, or a value after it.
    prediction: Option<Prediction>,
    score: Option<Value>,
    /// The logged target.
    pub target: Option<Value>,
    /// The logged texts of the example, by feature.
    inputs: BTreeMap<String, String>,
}

/// The output of a model as a text, or after postprocessing.
enum Prediction {
    Text(String),
    Value(Value),
}

/// The lines of a file.
pub struct Outputs {
    file: String,
    /// The outputs, in the order of the examples.
    pub lines: Vec<Output>,
}

impl Outputs {
    /// Reads the lines: JSON objects if the first line is one, else texts.
    ///
    /// # Errors
    /// The file cannot be read, or a line is no object.
    pub fn read(file: &str) -> Result<Self, Failure> {
        let path = Path::parse(file).map_err(Failure::usage)?;
        let text = path.read_to_string().map_err(Failure::usage)?;
        // Names of results end in the number of a shard, and texts may be in a file of any name.
        let is_named = file.ends_with(".jsonl") || file.ends_with(".json");
        let is_json =
            is_named || text.lines().next().is_some_and(|line| Output::of_json(line).is_ok());
        let of_text = |line: &str| Output {
            prediction: Some(Prediction::Text(line.to_string())),
            ..Output::default()
        };
        let lines = text.lines().enumerate().map(|(index, line)| match is_json {
            false => Ok(of_text(line)),
            true => Output::of_json(line).map_err(|why| {
                let number = index + 1;
                Failure::usage(anyhow!("{file}:{number}: {why}"))
            }),
        });
        Ok(Self { file: file.to_string(), lines: lines.collect::<Result<_, _>>()? })
    }

    /// Returns the outputs for the examples: one for each, with its inputs. With `first`, further outputs are left out.
    ///
    /// # Errors
    /// The outputs, and the reason why they are not those of the examples.
    pub fn of(
        mut self,
        examples: &[Example],
        (name, split): (&str, &str),
        first: bool,
    ) -> Result<Self, (Self, String)> {
        if first {
            self.lines.truncate(examples.len());
        }
        let pairs = self.lines.iter().zip(examples).enumerate();
        let unlike = pairs.filter_map(|(index, (output, example))| {
            let (feature, found, expected) = output.unlike(example)?;
            let [found, expected] = [found, expected].map(|text| quoted(text, SHOWN));
            Some(format!(
                "{}:{}: its '{feature}' is {found}, and that of the example in split '{split}' is {expected}",
                self.file,
                index + 1
            ))
        });
        let counts = (self.lines.len(), examples.len());
        let why = unlike.take(1).next().or_else(|| {
            let (found, expected) = counts;
            let file = &self.file;
            (found != expected).then(|| {
                format!("`{file}` has {found} predictions, and `{name}`, split '{split}', has {expected} examples")
            })
        });
        match why {
            None => Ok(self),
            Some(why) => Err((self, why)),
        }
    }

    /// Whether the first output holds the inputs of the first example.
    pub fn begin_with(&self, examples: &[Example]) -> bool {
        let pair = self.lines.first().zip(examples.first());
        pair.is_some_and(|(output, example)| {
            !output.inputs.is_empty() && output.unlike(example).is_none()
        })
    }
}

impl Output {
    fn of_json(line: &str) -> Result<Self, String> {
        let expected = "expected a JSON object with 'output', 'prediction' or 'score'";
        let json: Value = serde_json::from_str(line)
            .map_err(|error| format!("malformed JSON at column {}, {expected}", error.column()))?;
        let get = |key: &str| json.get(key).cloned();
        // Gimlet's evaluations write the model's text as 'output' and the input of the metrics as
        // 'prediction'; T5X's inference has the text there.
        let prediction = match (get("output"), get("prediction")) {
            (Some(Value::String(text)), _) | (None, Some(Value::String(text))) => {
                Some(Prediction::Text(text))
            }
            (_, Some(value)) => Some(Prediction::Value(value)),
            _ => None,
        };
        let score = get("score");
        if prediction.is_none() && score.is_none() {
            return Err(format!("found {}, {expected}", quoted(line, SHOWN)));
        }
        // Gimlet's evaluations write 'input', and T5X's inference 'inputs'.
        let logged = get("inputs").or_else(|| get("input"));
        let logged = logged.iter().filter_map(Value::as_object).flatten();
        let text =
            |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_string()));
        Ok(Self {
            prediction,
            score,
            target: get("target"),
            inputs: logged.filter_map(text).collect(),
        })
    }

    /// Returns the first logged text that differs from the example's: the feature and both texts.
    fn unlike<'a>(&'a self, example: &'a Example) -> Option<(&'a str, &'a str, &'a str)> {
        self.inputs.iter().find_map(|(name, logged)| {
            let own = example.features.get(name)?.as_str()?;
            (own != logged).then_some((name.as_str(), logged.as_str(), own))
        })
    }
}

impl Outputs {
    /// Returns the scores, for a metric.
    ///
    /// # Errors
    /// A line has none.
    pub fn scores(&self, metric: &str) -> Result<Vec<Value>, Failure> {
        let score = |(index, output): (usize, &Output)| {
            let missing = || self.unfit(index, &format!("metric `{metric}` needs a 'score'"));
            output.score.clone().ok_or_else(missing)
        };
        self.lines.iter().enumerate().map(score).collect()
    }

    /// Returns the predictions, for a metric.
    ///
    /// # Errors
    /// A line has none, or it has no such form.
    pub fn predictions(
        &self,
        task: &Task,
        examples: &[Example],
        metric: &str,
    ) -> Result<Vec<Value>, Failure> {
        let mut predictions = Vec::with_capacity(examples.len());
        for (index, (example, output)) in examples.iter().zip(&self.lines).enumerate() {
            predictions.push(match &output.prediction {
                Some(Prediction::Value(value)) => value.clone(),
                Some(Prediction::Text(text)) => postprocessed(task, text, example, false)
                    .map_err(|why| self.unfit(index, &why))?,
                None => {
                    return Err(
                        self.unfit(index, &format!("metric `{metric}` needs a 'prediction'"))
                    );
                }
            });
        }
        Ok(predictions)
    }

    /// Returns the failure of a line.
    pub fn unfit(&self, index: usize, why: &str) -> Failure {
        Failure::usage(anyhow!("{}:{}: {why}", self.file, index + 1))
    }
}

/// Applies the task's postprocessing to a text.
///
/// # Errors
/// The text has no such form.
pub fn postprocessed(
    task: &Task,
    text: &str,
    example: &Example,
    is_target: bool,
) -> Result<Value, String> {
    match &task.postprocess_fn {
        Some(postprocess) => postprocess.apply(text, &example.features, is_target),
        None => Ok(json!(text)),
    }
}
