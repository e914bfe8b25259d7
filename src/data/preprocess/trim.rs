//! Fitting token sequences to a length: trimming at the front or around an answer, and padding.
//! Source: t5 `preprocessors.py`.

use std::collections::BTreeMap;

use super::{Context, ExamplePosition, MapStep, Preprocess, Step, ids_of};
use crate::error::DataError;
use crate::example::Example;
use crate::value::{Key, Value};
use gimlet_gin::Configurable;

/// Keeps the last tokens of features, one fewer than their length. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.trim_tokens_at_front")]
pub struct TrimTokensAtFront {
    /// The features; None means all of `task_feature_lengths`.
    #[gin(default = None)]
    pub keys_to_trim: Option<Vec<String>>,
}

/// Keeps as many tokens of 'inputs' as fit, chosen at random around the first occurrence of the
/// 'targets'; drops examples whose inputs are too long and do not contain the targets. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.trivia_qa_truncate_inputs")]
pub struct TriviaQaTruncateInputs {}

/// Trims features to their lengths, or pads them with 0. Source: t5 `preprocessors.py` and SeqIO
/// `utils.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.trim_and_pad_dataset")]
pub struct TrimAndPadDataset {}

/// All lengths in `task_feature_lengths`.
fn lengths<'a>(cx: &Context<'a>, function: &str) -> Result<&'a BTreeMap<String, usize>, DataError> {
    cx.lengths
        .ok_or_else(|| DataError::Config(format!("`{function}` needs `task_feature_lengths`")))
}

impl Preprocess for TrimTokensAtFront {
    fn needs_lengths(&self) -> bool {
        true
    }

    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let keys: Vec<String> = match &self.keys_to_trim {
            Some(keys) => keys.clone(),
            None => lengths(cx, "trim_tokens_at_front")?.keys().cloned().collect(),
        };
        let limits = keys.into_iter().map(|key| {
            let length = cx.length(&key)?;
            Ok((key, length.saturating_sub(1)))
        });
        let limits = limits.collect::<Result<Vec<(String, usize)>, DataError>>()?;
        Ok(vec![Step::map(move |mut example| {
            for (key, limit) in &limits {
                if let Some(value) = example.get_mut(key) {
                    let length = value.len().unwrap_or(0);
                    // In Python, the last 0 items are all items.
                    let kept = if *limit == 0 { length } else { *limit };
                    value.keep(length.saturating_sub(kept)..length);
                }
            }
            Ok(example)
        })])
    }
}

impl Preprocess for TriviaQaTruncateInputs {
    fn needs_lengths(&self) -> bool {
        true
    }

    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        Ok(vec![Step::Map(Box::new(AroundAnswer { limit: cx.length("inputs")? }))])
    }
}

struct AroundAnswer {
    limit: usize,
}

impl AroundAnswer {
    /// The index at which inputs that are too long begin; `None` if they do not contain the answer.
    fn start(
        &self,
        inputs: &[i32],
        answer: &[i32],
        place: ExamplePosition<'_>,
    ) -> Result<Option<usize>, String> {
        let mut windows = inputs.windows(answer.len().max(1));
        let Some(at) = windows.position(|window| window.starts_with(answer)) else {
            return Ok(None);
        };
        let Some(room) = self.limit.checked_sub(answer.len()) else {
            let (found, limit) = (answer.len(), self.limit);
            return Err(format!("'targets' have {found} tokens, and 'inputs' hold only {limit}"));
        };
        let (first, last) = (at.saturating_sub(room), at.min(inputs.len() - self.limit));
        Ok(Some(first + place.draw().below(last - first + 1)))
    }
}

impl MapStep for AroundAnswer {
    fn apply(
        &self,
        mut example: Example,
        place: ExamplePosition<'_>,
    ) -> Result<Option<Example>, String> {
        let (inputs, answer) = (ids_of(&example, "inputs")?, ids_of(&example, "targets")?);
        if inputs.is_empty() {
            return Ok(None);
        }
        if inputs.len() > self.limit {
            let Some(start) = self.start(inputs, answer, place)? else { return Ok(None) };
            if let Some(value) = example.get_mut("inputs") {
                value.keep(start..start + self.limit);
            }
        }
        example.retain(|key| key == "inputs" || key == "targets");
        Ok(Some(example))
    }
}

impl Preprocess for TrimAndPadDataset {
    fn needs_lengths(&self) -> bool {
        true
    }

    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let lengths = lengths(cx, "trim_and_pad_dataset")?;
        let lengths: Vec<(Key, usize)> =
            lengths.iter().map(|(key, length)| (key.as_str().into(), *length)).collect();
        Ok(vec![Step::map(move |mut example| {
            for (key, length) in &lengths {
                if let Some(value) = example.get_mut(key) {
                    pad(value, *length).map_err(|found| {
                        format!("'{key}' is {found}, expected numbers to trim and pad")
                    })?;
                }
            }
            Ok(example)
        })])
    }
}

/// Trims or pads the first dimension; shorter rows are padded to the longest row.
fn pad(value: &mut Value, length: usize) -> Result<(), &'static str> {
    match value {
        Value::Ints(ids) => ids.resize(length, 0),
        Value::Floats(numbers) => numbers.resize(length, 0.0),
        Value::IntRows(rows) => pad_rows(rows, length, 0),
        Value::FloatRows(rows) => pad_rows(rows, length, 0.0),
        other => return Err(other.type_name()),
    }
    Ok(())
}

fn pad_rows<T: Clone>(rows: &mut Vec<Vec<T>>, length: usize, zero: T) {
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
    rows.resize(length, Vec::new());
    rows.iter_mut().for_each(|row| row.resize(longest, zero.clone()));
}
