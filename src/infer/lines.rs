//! The lines of results: chosen features of an example, and the model's outputs for it. Source: T5X
//! `infer.py`, `write_inferences_to_file`.

use std::collections::BTreeMap;

use crate::data::{Example, Value};
use crate::vocab::Vocabulary;

use super::json::Json;
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
    /// Returns the line of an example, with its end. `lengths` are those to which lists are padded.
    pub fn line(&self, example: &Example, lengths: &PaddedLengths, output: &Output) -> String {
        let mut entries = vec![("inputs".to_string(), self.inputs(example, lengths))];
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

    fn inputs(&self, example: &Example, lengths: &PaddedLengths) -> Json {
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
            (name.to_string(), padded(value, lengths.of(name)))
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

/// The lengths of features that are lists: T5X pads each to the longest of a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaddedLengths(BTreeMap<String, usize>);

impl PaddedLengths {
    /// Returns the lengths for the examples of a chunk.
    pub fn of_chunk(examples: &[Example]) -> Self {
        let mut lengths = BTreeMap::new();
        for (name, value) in examples.iter().flat_map(Example::iter) {
            if let Some(length) = value.len() {
                let known: &mut usize = lengths.entry(name.to_string()).or_default();
                *known = length.max(*known);
            }
        }
        Self(lengths)
    }

    fn of(&self, name: &str) -> usize {
        self.0.get(name).copied().unwrap_or(0)
    }
}

/// Converts a feature as NumPy and Python do: single whole numbers become floats (T5X's `_json_compat`), and
/// lists are padded with zeros or empty texts.
fn padded(value: &Value, length: usize) -> Json {
    fn list<T>(items: &[T], length: usize, item: impl Fn(&T) -> Json, zero: Json) -> Json {
        let mut items: Vec<Json> = items.iter().map(item).collect();
        items.resize(length.max(items.len()), zero);
        Json::List(items)
    }
    let int = |id: &i32| Json::Int((*id).into());
    match value {
        Value::Int(number) => Json::Float(*number as f64),
        Value::Float(number) => Json::Float(*number),
        Value::Text(text) => Json::Text(text.clone()),
        Value::Ints(ids) => list(ids, length, int, Json::Int(0)),
        Value::Longs(longs) => list(longs, length, |long| Json::Int(*long), Json::Int(0)),
        Value::Floats(floats) => {
            list(floats, length, |float| Json::Float(*float), Json::Float(0.0))
        }
        Value::Texts(texts) => {
            list(texts, length, |text| Json::Text(text.clone()), Json::Text(String::new()))
        }
        Value::IntRows(rows) => Json::list(rows, |row| Json::list(row, int)),
        Value::FloatRows(rows) => {
            Json::list(rows, |row| Json::list(row.iter().copied(), Json::Float))
        }
        Value::Lists(lists) => Json::list(lists, |value| padded(value, 0)),
    }
}
