//! The file with a task's examples and the outputs for them, one JSON object a line, written while the
//! model makes the outputs.

use gimlet_storage::Path;
use serde_json::{Map, Value, json};

use super::line_file::LineFile;
use super::results::Results;
use super::task::{EvalError, Example};

/// A file of examples that is being written.
pub(super) struct ExampleLines {
    file: LineFile,
    /// Number of examples that are still to be written.
    num_left: usize,
}

impl ExampleLines {
    /// Creates the file, for at most `num_examples`.
    pub(super) fn create(path: Path, num_examples: usize) -> Self {
        Self { file: LineFile::create(path), num_left: num_examples }
    }

    /// Writes the next examples, whose results begin at `first`, with the model's texts.
    pub(super) fn add(
        &mut self,
        examples: &[Example],
        texts: Option<&[String]>,
        results: &Results,
        first: usize,
    ) {
        for (index, example) in examples.iter().enumerate().take(self.num_left) {
            let of = |values: &Option<Vec<Value>>| Some(values.as_ref()?[first + index].clone());
            let outputs = [
                ("output", texts.map(|texts| json!(texts[index]))),
                ("prediction", of(&results.predictions)),
                ("score", of(&results.scores)),
            ];
            self.file.write(line(example, &results.targets[first + index], outputs));
        }
        self.num_left = self.num_left.saturating_sub(examples.len());
    }

    /// Makes the file visible.
    pub(super) fn finish(self) -> Result<(), EvalError> {
        self.file.finish()
    }
}

/// Returns the line of an example: input, target and outputs.
fn line<'a>(
    example: &Example,
    target: &Value,
    outputs: impl IntoIterator<Item = (&'a str, Option<Value>)>,
) -> Value {
    let features = example.features.iter();
    let input: Map<String, Value> =
        features.map(|(name, value)| (name.clone(), shortened(value))).collect();
    let mut line = Map::new();
    line.insert("input".to_string(), Value::Object(input));
    line.insert("target".to_string(), target.clone());
    for (key, value) in outputs {
        line.extend(value.map(|value| (key.to_string(), value)));
    }
    Value::Object(line)
}

/// Summarizes long arrays of numbers as SeqIO's encoder does.
fn shortened(value: &Value) -> Value {
    const LONGEST: usize = 32;
    let Value::Array(items) = value else { return value.clone() };
    if items.len() <= LONGEST || !items.iter().all(Value::is_number) {
        return value.clone();
    }
    let join = |items: &[Value]| items.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
    let dtype = if items.iter().all(Value::is_i64) { "int32" } else { "float32" };
    let (first, last) = (join(&items[..5]), join(&items[items.len() - 5..]));
    let length = items.len();
    json!(format!("ndarray(shape=({length},), dtype={dtype}); summary: {first} ... {last}"))
}
