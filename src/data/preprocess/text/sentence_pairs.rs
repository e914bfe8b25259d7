//! Neighboring sentences, and whether two sentences are neighbors.

use super::strings::strip;
use super::{Context, PairKeys, Preprocess, Step, flat_map, text_of, texts_of};
use crate::error::DataError;
use crate::example::Example;
use crate::preprocess::{ExamplePosition, JoinStep};
use crate::value::{Key, Value};
use gimlet_gin::Configurable;

/// Pairs of sentences that follow each other in a line, as 'first' and 'second'. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.neighboring_pairs")]
pub struct NeighboringPairs {
    /// The feature that holds the text.
    #[gin(default = "text".to_string())]
    pub text_key: String,
    /// Whether the second sentence of a pair is also the first one of the next pair.
    #[gin(default = true)]
    pub reuse_sentences: bool,
}

impl Preprocess for NeighboringPairs {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let spec = self.clone();
        let keys = [Key::from("first"), Key::from("second")];
        Ok(vec![flat_map(move |example, _| {
            let lines = text_of(&example, &spec.text_key)?.split('\n').map(strip);
            let pairs = lines.flat_map(|line| spec.pairs(line)).map(|pair| {
                let texts = pair.into_iter().map(|text| Value::Text(text.to_string()));
                keys.iter().cloned().zip(texts).collect()
            });
            Ok(pairs.collect())
        })])
    }
}

impl NeighboringPairs {
    fn pairs<'a>(&self, line: &'a str) -> Vec<[&'a str; 2]> {
        let sentences = sentences(line);
        let step = if self.reuse_sentences { 1 } else { 2 };
        let pairs = sentences.windows(2).step_by(step).map(|pair| [pair[0], pair[1]]);
        pairs.filter(|pair| pair.iter().all(|sentence| !sentence.is_empty())).collect()
    }
}

/// Cuts a line after each run of full stops, exclamation and question marks; the rest of the line
/// is a sentence, too, even if it is empty.
fn sentences(line: &str) -> Vec<&str> {
    const ENDS: [char; 3] = ['.', '!', '?'];
    let mut out = Vec::new();
    let mut rest = line;
    while let Some(end) = rest.find(ENDS) {
        let marks = rest[end..].find(|c| !ENDS.contains(&c)).unwrap_or(rest.len() - end);
        out.push(strip(&rest[..end + marks]));
        rest = &rest[end + marks..];
    }
    out.push(strip(rest));
    out
}

/// Makes examples of two sentences; the targets "next" or "not_next" tell whether they are
/// neighbors. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.next_sentence_prediction")]
pub struct NextSentencePrediction {
    /// The feature that holds the text.
    #[gin(default = "text".to_string())]
    pub text_key: String,
    /// Whether the second sentence of a pair is also the first one of the next pair.
    #[gin(default = true)]
    pub reuse_sentences: bool,
    /// Whether the prefixes "sentence1: " and "sentence2: " are put before the sentences.
    #[gin(default = false)]
    pub label_sentences: bool,
    /// Probability that the sentences are neighbors.
    #[gin(default = 0.5)]
    pub p_neighbors: f64,
    /// The prefix of the inputs.
    #[gin(default = "nsp: ".to_string())]
    pub label: String,
    /// Pairs held for shuffling, among which sentences are exchanged.
    #[gin(default = 50_000)]
    pub buffer_size: usize,
}

impl Preprocess for NextSentencePrediction {
    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let pairs = NeighboringPairs {
            text_key: self.text_key.clone(),
            reuse_sentences: self.reuse_sentences,
        };
        let mut steps = pairs.steps(cx)?;
        steps.push(Step::Shuffle { buffer_size: self.buffer_size });
        steps.push(Step::Join { num_examples: 2, step: Box::new(TwoPairs) });
        let (spec, keys) = (self.clone(), PairKeys::new());
        steps.push(flat_map(move |example, place| {
            let [firsts, seconds] = [texts_of(&example, "first")?, texts_of(&example, "second")?];
            if firsts.len() < 2 {
                return Ok(Vec::new());
            }
            let neighbors = place.draw().unit() < spec.p_neighbors;
            let targets = if neighbors { "next" } else { "not_next" };
            let made = (0..2).map(|i| {
                let second = if neighbors { &seconds[i] } else { &seconds[1 - i] };
                keys.pair(spec.inputs(&firsts[i], second), targets.to_string())
            });
            Ok(made.collect())
        }));
        Ok(steps)
    }
}

impl NextSentencePrediction {
    fn inputs(&self, first: &str, second: &str) -> String {
        let [one, two] =
            if self.label_sentences { ["sentence1: ", "sentence2: "] } else { ["", ""] };
        strip(&format!("{}{one}{first} {two}{second}", self.label)).to_string()
    }
}

/// Puts two pairs into one example; without a second pair, the last one stays alone.
struct TwoPairs;

impl JoinStep for TwoPairs {
    fn apply(&self, examples: Vec<Example>, _: ExamplePosition<'_>) -> Result<Example, String> {
        let column = |key: &str| {
            let texts: Result<Vec<String>, String> =
                examples.iter().map(|example| text_of(example, key).map(str::to_string)).collect();
            Ok::<_, String>((Key::from(key), Value::Texts(texts?)))
        };
        ["first", "second"].into_iter().map(column).collect()
    }
}
