//! OpenAI's table of the tokens of an answer, with their log-probabilities.

use serde_json::{Map, Value, json};

use crate::interactive::{Continued, END_OF_INPUTS, Encoder};
use crate::session::forward::TokenScores;
use crate::vocab::Vocabulary;

/// The lowest log-probability, in place of that of something impossible, which JSON does not have.
const LEAST: f64 = -9999.0;

/// Tokens before a token that decide about the text that it adds.
const CONTEXT: usize = 4;

/// The tokens of an answer, with the scores of those that are predicted.
pub struct TokenTable<'a> {
    /// The vocabularies.
    pub encoder: &'a Encoder,
    /// The prompt.
    pub prompt: &'a Continued,
    /// The tokens of the answer.
    pub ids: &'a [i32],
    /// Whether its text ends before one of them, so that those from there on are no part of it.
    pub is_stopped: bool,
    /// The scores of the tokens that are not given, and of those of the answer.
    pub scores: &'a [TokenScores],
}

impl TokenTable<'_> {
    /// The table of the answer, whose text has so many characters.
    pub fn of_answer(&self, num_chars: usize) -> Value {
        let mut rows = Rows::default();
        self.add_answer(&mut rows, 0, num_chars);
        rows.json()
    }

    /// The table of prompt and answer, whose texts have so many characters.
    pub fn of_all(&self, prompt_chars: usize, num_chars: usize) -> Value {
        let (given, ids) = (self.prompt.num_given(), &self.prompt.ids);
        let mut rows = Rows::default();
        let (inputs, targets) = (self.encoder.input_vocabulary(), self.encoder.vocabulary());
        let widths = [widths(&ids[..given], inputs), widths(&ids[given..], targets)].concat();
        let mut offset = 0;
        for (place, (id, width)) in ids.iter().zip(widths).enumerate() {
            let scores = match place.checked_sub(given) {
                // The model reads these.
                None => vec![(*id, 0.0)],
                Some(place) => self.scores[place].clone(),
            };
            let vocabulary = if place < given { inputs } else { targets };
            rows.add(&scores, offset.min(prompt_chars), vocabulary);
            offset += width;
        }
        // Nothing precedes the first one.
        for column in [&mut rows.token_logprobs, &mut rows.top_logprobs] {
            if let Some(first) = column.first_mut() {
                *first = Value::Null;
            }
        }
        self.add_answer(&mut rows, prompt_chars, num_chars);
        rows.json()
    }

    fn add_answer(&self, rows: &mut Rows, start: usize, num_chars: usize) {
        let vocabulary = self.encoder.vocabulary();
        let before = self.prompt.before();
        let widths = widths(&[before, self.ids].concat(), vocabulary);
        let first = self.scores.len() - self.ids.len();
        let mut offset = 0;
        for (scores, width) in self.scores[first..].iter().zip(&widths[before.len()..]) {
            if self.is_stopped && offset >= num_chars {
                break;
            }
            rows.add(scores, start + offset.min(num_chars), vocabulary);
            offset += width;
        }
    }
}

/// The columns of a table.
#[derive(Default)]
struct Rows {
    tokens: Vec<Value>,
    token_logprobs: Vec<Value>,
    top_logprobs: Vec<Value>,
    text_offset: Vec<Value>,
}

impl Rows {
    /// Adds a token, the first of `scores`, which names the most probable ones after it.
    fn add(&mut self, scores: &[(i32, f64)], offset: usize, vocabulary: &dyn Vocabulary) {
        let named = |(id, log_prob): &(i32, f64)| {
            (vocabulary.piece(*id).replace('▁', " "), json!(log_prob.max(LEAST)))
        };
        let (name, log_prob) = named(&scores[0]);
        // The most probable ones first, as OpenAI has them.
        let mut top: Map<String, Value> = scores[1..].iter().map(named).collect();
        top.entry(name.clone()).or_insert_with(|| log_prob.clone());
        self.tokens.push(Value::String(name));
        self.token_logprobs.push(log_prob);
        self.top_logprobs.push(Value::Object(top));
        self.text_offset.push(json!(offset));
    }

    fn json(self) -> Value {
        json!({
            "tokens": self.tokens,
            "token_logprobs": self.token_logprobs,
            "top_logprobs": self.top_logprobs,
            "text_offset": self.text_offset,
        })
    }
}

/// The text of a prompt's ids, in which the end of inputs is shown.
pub fn text_of(prompt: &Continued, encoder: &Encoder) -> String {
    let (given, targets) = prompt.ids.split_at(prompt.num_given());
    let shown = |ids: &[i32], vocabulary: &dyn Vocabulary| {
        let parts = ids.split(|id| Some(*id) == vocabulary.eos_id());
        parts.map(|part| vocabulary.decode(part)).collect::<Vec<_>>().join(END_OF_INPUTS)
    };
    shown(given, encoder.input_vocabulary()) + &shown(targets, encoder.vocabulary())
}

/// The number of characters that each token adds to the text.
fn widths(ids: &[i32], vocabulary: &dyn Vocabulary) -> Vec<usize> {
    let is_end = |id: &i32| Some(*id) == vocabulary.eos_id();
    let width = |(place, id): (usize, &i32)| {
        if is_end(id) {
            return END_OF_INPUTS.len();
        }
        let before = &ids[place.saturating_sub(CONTEXT)..place];
        let start = before.iter().rposition(is_end).map_or(0, |end| end + 1);
        let count = |ids: &[i32]| vocabulary.decode(ids).chars().count();
        let all = count(&[&before[start..], &[*id]].concat());
        all.saturating_sub(count(&before[start..]))
    };
    ids.iter().enumerate().map(width).collect()
}
