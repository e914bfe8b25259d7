//! The lines of results: chosen features of an example, and the model's outputs for it. Source: T5X
//! `infer.py`, `write_inferences_to_file`.

use std::collections::BTreeMap;

use crate::data::{Example, Value};
use crate::gin::Json;
use crate::vocab::Vocabulary;

use super::spec::WriteInferencesToFile;

/// The ending of a feature's text before it was tokenized.
const PRETOKENIZED: &str = "_pretokenized";

/// The model's outputs for an example.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Decoded sequences, worst to best.
    Prediction {
        /// The ids of each.
        sequences: Vec<Vec<i32>>,
        /// The score of each, if they are written.
        scores: Option<Vec<f64>>,
    },
    /// The score of the targets.
    Score {
        /// The score.
        score: f64,
        /// The parts of which it is the sum, if they are written.
        parts: Option<ScoreParts>,
    },
}

/// The score of each target of an example.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreParts {
    /// The targets' ids.
    pub tokens: Vec<i32>,
    /// Their weights.
    pub weights: Vec<Json>,
    /// Their weighted log-likelihoods.
    pub scores: Vec<f64>,
}

/// Makes lines of examples and outputs.
pub struct Lines<'a> {
    /// Options of the lines.
    pub spec: &'a WriteInferencesToFile,
    /// Decodes predictions.
    pub vocabulary: &'a dyn Vocabulary,
    /// Whether all decoded sequences are written instead of the best.
    pub all_decodes: bool,
}

impl Lines<'_> {
    /// Returns the line of an example, with its end. Lists are padded as `padding` says.
    pub fn line(&self, example: &Example, padding: &ChunkPadding, output: &Output) -> String {
        let mut entries = vec![("inputs".to_string(), self.inputs(example, padding))];
        match output {
            Output::Prediction { sequences, scores } => {
                self.add_prediction(sequences, scores.as_deref(), &mut entries);
            }
            Output::Score { score, parts } => {
                entries.push(("score".to_string(), Json::Float(*score)));
                let aux = parts.as_ref().map(|parts| ("aux".to_string(), intermediates(parts)));
                entries.extend(aux);
            }
        }
        Json::Object(entries).dumps() + "\n"
    }

    fn inputs(&self, example: &Example, padding: &ChunkPadding) -> Json {
        let is_chosen = |name: &str| match &self.spec.input_fields_to_include {
            _ if self.spec.include_all_inputs => true,
            Some(fields) => {
                let plain = name.strip_suffix(PRETOKENIZED);
                fields.iter().any(|field| field == name || Some(field.as_str()) == plain)
            }
            None => name.ends_with(PRETOKENIZED),
        };
        let chosen = example.iter().filter(|(name, _)| is_chosen(name));
        let entry = |(name, value): (&crate::data::Key, &Value)| {
            (name.to_string(), padding.padded(name, value))
        };
        Json::Object(chosen.map(entry).collect())
    }

    fn add_prediction(
        &self,
        sequences: &[Vec<i32>],
        scores: Option<&[f64]>,
        entries: &mut Vec<(String, Json)>,
    ) {
        let best = sequences.last().expect("every example has a sequence");
        let prediction = match self.all_decodes {
            true => Json::list(sequences, |ids| self.decoded(ids)),
            false => self.decoded(best),
        };
        entries.push(("prediction".to_string(), prediction));
        if self.spec.output_ids {
            let ids = match self.all_decodes {
                true => Json::list(sequences, |ids| ints(ids)),
                false => ints(best.split(|id| *id == 0).next().unwrap_or_default()),
            };
            entries.push(("prediction_tokens".to_string(), ids));
        }
        if let Some(scores) = scores {
            let scores = match self.all_decodes {
                true => Json::list(scores.iter().copied(), Json::Float),
                false => Json::Float(*scores.last().expect("every sequence has a score")),
            };
            entries.push(("aux".to_string(), Json::of("scores", scores)));
        }
    }

    /// Returns the text of ids; the ids themselves if the vocabulary passes them through.
    fn decoded(&self, ids: &[i32]) -> Json {
        if !self.vocabulary.takes_ids() {
            return Json::Text(self.vocabulary.decode(ids));
        }
        let mut ids = ids.to_vec();
        if let Some(end) = ids.iter().position(|id| Some(*id) == self.vocabulary.eos_id()) {
            ids[end + 1..].fill(0);
        }
        ints(&ids)
    }
}

/// Returns the entry beside a score. T5X's lists hold one value each, for the one time that it was computed.
fn intermediates(parts: &ScoreParts) -> Json {
    let decoder = [
        ("loss_weights", Json::List(parts.weights.clone())),
        ("target_tokens", ints(&parts.tokens)),
        ("token_scores", Json::list(parts.scores.iter().copied(), Json::Float)),
    ];
    let decoder = decoder.map(|(name, values)| (name.to_string(), Json::List(vec![values])));
    Json::of("decoder", Json::Object(decoder.into()))
}

fn ints(ids: &[i32]) -> Json {
    Json::list(ids, |id| Json::Int((*id).into()))
}

/// The padding of features that are lists: T5X pads each to the longest of a chunk, along every axis.
#[derive(Clone, Debug, Default)]
pub struct ChunkPadding(BTreeMap<String, Padding>);

/// The padding of one feature.
#[derive(Clone, Debug, Default)]
struct Padding {
    shape: Vec<usize>,
    /// The item that is added; `None` if all lists are empty.
    zero: Option<Json>,
}

impl ChunkPadding {
    /// Returns the padding for the examples of a chunk.
    pub fn of(examples: &[Example]) -> Self {
        let mut features: BTreeMap<String, Padding> = BTreeMap::new();
        for (name, value) in examples.iter().flat_map(Example::iter) {
            let padding = features.entry(name.to_string()).or_default();
            widen(&mut padding.shape, &shape(value));
            padding.zero = padding.zero.take().or_else(|| zero(value));
        }
        Self(features)
    }

    /// Converts a feature as NumPy and Python do: single whole numbers become floats (T5X's `_json_compat`), and
    /// lists are padded with zeros or empty texts.
    fn padded(&self, name: &str, value: &Value) -> Json {
        let mut json = match value {
            Value::Int(number) => Json::Float(*number as f64),
            value => json(value),
        };
        if let Some(Padding { shape, zero }) = self.0.get(name) {
            pad(&mut json, shape, zero.as_ref().unwrap_or(&Json::Int(0)));
        }
        json
    }
}

/// Returns the lengths of a value's lists, the greatest of each axis.
fn shape(value: &Value) -> Vec<usize> {
    fn rows<T>(rows: &[Vec<T>]) -> Vec<usize> {
        vec![rows.len(), rows.iter().map(Vec::len).max().unwrap_or(0)]
    }
    match value {
        Value::IntRows(ids) => rows(ids),
        Value::FloatRows(floats) => rows(floats),
        Value::Lists(lists) => {
            let mut inner = Vec::new();
            lists.iter().for_each(|value| widen(&mut inner, &shape(value)));
            [vec![lists.len()], inner].concat()
        }
        other => other.len().into_iter().collect(),
    }
}

/// Raises a shape to another one, axis by axis.
fn widen(shape: &mut Vec<usize>, other: &[usize]) {
    shape.resize(shape.len().max(other.len()), 0);
    shape.iter_mut().zip(other).for_each(|(length, other)| *length = (*other).max(*length));
}

fn json(value: &Value) -> Json {
    match value {
        Value::Int(number) => Json::Int((*number).into()),
        Value::Float(number) => Json::Float(*number),
        Value::Text(text) => Json::Text(text.clone()),
        Value::Ints(row) => ints(row),
        Value::Longs(longs) => Json::list(longs, |long| Json::Int((*long).into())),
        Value::Floats(row) => floats(row),
        Value::Texts(texts) => Json::list(texts, |text| Json::Text(text.clone())),
        Value::IntRows(rows) => Json::list(rows, |row| ints(row)),
        Value::FloatRows(rows) => Json::list(rows, |row| floats(row)),
        Value::Lists(lists) => Json::list(lists, json),
    }
}

fn floats(floats: &[f64]) -> Json {
    Json::list(floats.iter().copied(), Json::Float)
}

/// Returns the item with which lists like the value are padded; `None` for empty ones, which do not say it.
fn zero(value: &Value) -> Option<Json> {
    match value {
        value if value.is_empty() => None,
        Value::Float(_) | Value::Floats(_) | Value::FloatRows(_) => Some(Json::Float(0.0)),
        Value::Text(_) | Value::Texts(_) => Some(Json::Text(String::new())),
        Value::Lists(lists) => lists.iter().find_map(zero),
        Value::Int(_) | Value::Ints(_) | Value::Longs(_) | Value::IntRows(_) => Some(Json::Int(0)),
    }
}

fn pad(json: &mut Json, shape: &[usize], zero: &Json) {
    let (Json::List(items), [length, inner @ ..]) = (json, shape) else { return };
    let item = if inner.is_empty() { zero.clone() } else { Json::List(Vec::new()) };
    items.resize((*length).max(items.len()), item);
    items.iter_mut().for_each(|item| pad(item, inner, zero));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_padded_to_the_longest_of_a_chunk_along_every_axis() {
        let example = |name: &str, value: Value| Example::of(name.into(), value);
        let check = |values: [Value; 2], expected: [&str; 2]| {
            let examples = values.clone().map(|value| example("a", value));
            let padding = ChunkPadding::of(&examples);
            assert_eq!(values.map(|value| padding.padded("a", &value).dumps()), expected);
        };
        check([Value::Int(3), Value::Int(4)], ["3.0", "4.0"]);
        check([Value::Ints(vec![1]), Value::Ints(vec![2, 3])], ["[1, 0]", "[2, 3]"]);
        let rows = |rows: &[&[i32]]| Value::IntRows(rows.iter().map(|row| row.to_vec()).collect());
        check(
            [rows(&[&[1, 2], &[3]]), rows(&[&[4, 5, 6]])],
            ["[[1, 2, 0], [3, 0, 0]]", "[[4, 5, 6], [0, 0, 0]]"],
        );
        let texts = |rows: &[&[&str]]| {
            let row =
                |row: &&[&str]| Value::Texts(row.iter().map(|text| text.to_string()).collect());
            Value::Lists(rows.iter().map(row).collect())
        };
        check(
            [texts(&[&["b"], &["c", "d"]]), texts(&[])],
            [r#"[["b", ""], ["c", "d"]]"#, r#"[["", ""], ["", ""]]"#],
        );
    }
}
