//! Model features made in the preprocessors, for the prefix LM objective. Source: t5
//! `preprocessors.py`.
//!
//! Both take the examples that `targets_for_prefix_lm_objective` yields: 'targets' of one length,
//! padded.

use super::{Context, ExamplePosition, JoinStep, MapStep, Preprocess, Step, ids_of};
use crate::convert::make_autoregressive_inputs;
use crate::error::DataError;
use crate::example::Example;
use crate::value::Value;
use gimlet_gin::Configurable;

/// Packs two examples into one row: a random prefix of each is for the encoder, the rest for the
/// decoder. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.pack_prefix_lm_encoder_decoder")]
pub struct PackPrefixLmEncoderDecoder {
    /// The id of padding, which has no weight in the loss.
    #[gin(default = 0)]
    pub pad_id: i32,
}

/// Marks a random prefix of each example, to which the model attends in both directions. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.pack_prefix_lm_decoder_only")]
pub struct PackPrefixLmDecoderOnly {
    /// Whether the prefix has no weight in the loss.
    #[gin(default = true)]
    pub loss_on_targets_only: bool,
    /// The id of padding, which has no weight in the loss.
    #[gin(default = 0)]
    pub pad_id: i32,
}

/// The length of all features, which must be equal.
fn packed_length(cx: &Context<'_>, function: &str) -> Result<usize, DataError> {
    let mut lengths = cx.lengths.into_iter().flat_map(|lengths| lengths.values().copied());
    match lengths.next() {
        Some(length) if length > 1 && length % 2 == 0 && lengths.all(|other| other == length) => {
            Ok(length)
        }
        _ => Err(DataError::Config(format!(
            "`{function}` needs `task_feature_lengths` of one even length for all features, found {:?}",
            cx.lengths.cloned().unwrap_or_default()
        ))),
    }
}

/// The targets of an example, which must have `length` tokens.
fn targets_of(example: &Example, length: usize) -> Result<&[i32], String> {
    let targets = ids_of(example, "targets")?;
    match targets.len() == length {
        true => Ok(targets),
        false => Err(format!(
            "'targets' have {} tokens, expected {length}; put `targets_for_prefix_lm_objective` before",
            targets.len()
        )),
    }
}

fn example_of<const N: usize>(features: [(&str, Vec<i32>); N]) -> Example {
    features.into_iter().map(|(key, ids)| (key.into(), Value::Ints(ids))).collect()
}

fn weights(targets: &[i32], pad_id: i32) -> impl Iterator<Item = i32> {
    targets.iter().map(move |&token| i32::from(token != pad_id))
}

impl Preprocess for PackPrefixLmEncoderDecoder {
    fn needs_lengths(&self) -> bool {
        true
    }

    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let length = packed_length(cx, "pack_prefix_lm_encoder_decoder")?;
        let step = Box::new(PairPacker { length, pad_id: self.pad_id });
        Ok(vec![Step::Join { num_examples: 2, step }])
    }
}

struct PairPacker {
    length: usize,
    pad_id: i32,
}

impl PairPacker {
    /// The row in which the first example's prefix has `split` tokens, and the second's prefix the
    /// remaining length.
    fn row(&self, first: &[i32], second: &[i32], split: usize) -> Example {
        let rest = self.length - split;
        let inputs = [&first[..split], &second[..rest]].concat();
        let targets = [&first[split..], &second[rest..]].concat();
        let segments = |split: usize| -> Vec<i32> {
            (0..self.length).map(|i| 1 + i32::from(i >= split)).collect()
        };
        let positions = |split: usize, rest: usize| -> Vec<i32> {
            (0..split as i32).chain(0..rest as i32).collect()
        };
        let decoder_segments = segments(rest);
        example_of([
            (
                "decoder_input_tokens",
                make_autoregressive_inputs(&targets, Some(&decoder_segments), 0),
            ),
            ("decoder_loss_weights", weights(&targets, self.pad_id).collect()),
            ("decoder_positions", positions(rest, split)),
            ("decoder_segment_ids", decoder_segments),
            ("decoder_target_tokens", targets),
            ("encoder_input_tokens", inputs),
            ("encoder_positions", positions(split, rest)),
            ("encoder_segment_ids", segments(split)),
        ])
    }
}

impl JoinStep for PairPacker {
    fn apply(&self, examples: Vec<Example>, place: ExamplePosition<'_>) -> Result<Example, String> {
        let first = targets_of(&examples[0], self.length)?;
        // For an odd number of examples t5 fails at the end; here the last one is joined with
        // padding.
        let padding = vec![self.pad_id; self.length];
        let second = match examples.get(1) {
            Some(example) => targets_of(example, self.length)?,
            None => &padding,
        };
        let split = 1 + place.draw().below(self.length - 1);
        Ok(self.row(first, second, split))
    }
}

impl Preprocess for PackPrefixLmDecoderOnly {
    fn needs_lengths(&self) -> bool {
        true
    }

    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let length = packed_length(cx, "pack_prefix_lm_decoder_only")?;
        Ok(vec![Step::Map(Box::new(PrefixMarker { length, spec: self.clone() }))])
    }
}

struct PrefixMarker {
    length: usize,
    spec: PackPrefixLmDecoderOnly,
}

impl PrefixMarker {
    fn row(&self, targets: &[i32], split: usize) -> Example {
        let counts = |i: usize| i32::from(!self.spec.loss_on_targets_only || i >= split);
        let weights = weights(targets, self.spec.pad_id).enumerate();
        example_of([
            ("decoder_causal_attention", (0..self.length).map(|i| i32::from(i <= split)).collect()),
            ("decoder_input_tokens", make_autoregressive_inputs(targets, None, 0)),
            ("decoder_loss_weights", weights.map(|(i, weight)| weight * counts(i)).collect()),
            ("decoder_target_tokens", targets.to_vec()),
        ])
    }
}

impl MapStep for PrefixMarker {
    fn apply(
        &self,
        example: Example,
        place: ExamplePosition<'_>,
    ) -> Result<Option<Example>, String> {
        let targets = targets_of(&example, self.length)?;
        let split = 1 + place.draw().below(self.length - 1);
        Ok(Some(self.row(targets, split)))
    }
}
