//! Prints the examples that pass.

use std::io::{self, Write};

use minijinja::formatting::FormatStyle;

use super::{Context, Preprocess, Step};
use crate::error::DataError;
use crate::example::Example;
use crate::value::Value;
use gimlet_gin::Configurable;

/// Prints each feature of each example as TensorFlow does, but to standard error, since standard
/// output is for the results of a command. Source: SeqIO `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.preprocessors.print_dataset")]
pub struct PrintDataset {
    /// Number of items of a list shown at its beginning and at its end; -1 shows all.
    #[gin(default = 3)]
    pub summarize: i64,
}

impl Preprocess for PrintDataset {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let summarize = usize::try_from(self.summarize).ok();
        Ok(vec![Step::map(move |example| {
            // A closed standard error is no reason to end, as `eprint!` would.
            let _ = io::stderr().write_all(lines_of(&example, summarize).as_bytes());
            Ok(example)
        })])
    }
}

/// A line for each feature, or several for rows.
pub(super) fn lines_of(example: &Example, summarize: Option<usize>) -> String {
    example.iter().map(|(key, value)| format!("{key}:  {}\n", printed(value, summarize))).collect()
}

/// The printed value; of a list, `summarize` items at either end.
fn printed(value: &Value, summarize: Option<usize>) -> String {
    let quoted = |text: &String| format!("\"{}\"", escaped(text));
    let list = |items: Vec<String>| listed(&items, summarize);
    match value {
        Value::Int(number) => number.to_string(),
        Value::Float(number) => float(number),
        Value::Text(text) => quoted(text),
        Value::Ints(ids) => list(ids.iter().map(i32::to_string).collect()),
        Value::Longs(numbers) => list(numbers.iter().map(i64::to_string).collect()),
        Value::Floats(numbers) => list(numbers.iter().map(float).collect()),
        Value::Texts(texts) => list(texts.iter().map(quoted).collect()),
        Value::IntRows(rows) => {
            let row = |row: &Vec<i32>| printed(&Value::Ints(row.clone()), summarize);
            joined(&rows.iter().map(row).collect::<Vec<_>>(), summarize)
        }
        Value::Lists(lists) => {
            let list = |list: &Value| printed(list, summarize);
            joined(&lists.iter().map(list).collect::<Vec<_>>(), summarize)
        }
        Value::FloatRows(rows) => {
            let row = |row: &Vec<f64>| printed(&Value::Floats(row.clone()), summarize);
            joined(&rows.iter().map(row).collect::<Vec<_>>(), summarize)
        }
    }
}

/// C's `%.6g`, or nine digits if six are not enough to represent the number exactly.
fn float(number: &f64) -> String {
    let number = f64::from(*number as f32);
    let digits = |format: &str| {
        let value = minijinja::Value::from(number);
        minijinja::formatting::format(FormatStyle::Printf, format, &[value])
            .expect("the format fits a number")
    };
    let six = digits("%.6g");
    if six.parse() == Ok(number as f32) { six } else { digits("%.9g") }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Rows, each on a separate line.
fn joined(rows: &[String], summarize: Option<usize>) -> String {
    let shown = match summarize {
        Some(ends) if rows.len() > 2 * ends => {
            let (first, last) = (&rows[..ends], &rows[rows.len() - ends..]);
            format!("{}\n ...\n {}", first.join("\n "), last.join("\n "))
        }
        _ => rows.join("\n "),
    };
    format!("[{shown}]")
}

fn listed(items: &[String], summarize: Option<usize>) -> String {
    let shown = match summarize {
        Some(ends) if items.len() > 2 * ends => {
            let (first, last) = (&items[..ends], &items[items.len() - ends..]);
            format!("{} ... {}", first.join(" "), last.join(" "))
        }
        _ => items.join(" "),
    };
    format!("[{shown}]")
}
