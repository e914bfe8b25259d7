//! Features that the model can read without conversion.

use super::batch::BatchFeature;
use super::contract::{Convert, Field, Lengths, feature_length, take_ints};
use super::row::Row;
use crate::error::DataError;
use crate::example::Example;
use crate::value::Value;
use gimlet_gin::Configurable;

/// Passes on the features that `task_feature_lengths` names, padded. Source: SeqIO
/// `feature_converters.py`.
#[derive(Clone, Debug, PartialEq, Eq, Configurable)]
#[gin(
    name = "seqio.PassThroughFeatureConverter",
    alias = "seqio.feature_converters.PassThroughFeatureConverter"
)]
pub struct PassThroughFeatureConverter {}

/// Passes on the features of a packed language model, each as long as the targets. Source: SeqIO
/// `feature_converters.py`.
#[derive(Clone, Debug, PartialEq, Eq, Configurable)]
#[gin(
    name = "seqio.PrePackedLMFeatureConverter",
    alias = "seqio.feature_converters.PrePackedLMFeatureConverter"
)]
pub struct PrePackedLMFeatureConverter {}

/// Passes on the features of a packed prefix language model, each as long as inputs and targets
/// together. Source: SeqIO `feature_converters.py`.
#[derive(Clone, Debug, PartialEq, Eq, Configurable)]
#[gin(
    name = "seqio.PrePackedPrefixLMFeatureConverter",
    alias = "seqio.feature_converters.PrePackedPrefixLMFeatureConverter"
)]
pub struct PrePackedPrefixLMFeatureConverter {}

const LM_FEATURES: [&str; 5] = [
    "decoder_input_tokens",
    LOSS_WEIGHTS,
    "decoder_positions",
    "decoder_segment_ids",
    "decoder_target_tokens",
];

/// The feature that may hold real numbers in packed examples.
const LOSS_WEIGHTS: &str = "decoder_loss_weights";

/// Appends the features of the example that a row passes on.
fn push_passed(row: &Row, out: &mut [BatchFeature]) {
    for feature in out {
        match row.passed.as_ref().and_then(|example| example.get(&feature.name)) {
            Some(Value::Floats(values)) => feature.push_floats(values),
            Some(Value::Ints(values)) => {
                feature.push(values);
            }
            _ => feature.push_padding(),
        }
    }
}

impl Convert for PassThroughFeatureConverter {
    fn fields(&self, lengths: &Lengths) -> Result<Vec<Field>, DataError> {
        lengths.keys().map(|name| Ok(Field::new(name, feature_length(name, lengths)?))).collect()
    }

    fn prepare(&self, example: &mut Example, fields: &[Field]) -> Result<Vec<Vec<i32>>, DataError> {
        let is_missing = |field: &&Field| {
            !matches!(example.get(&field.name), Some(Value::Ints(_) | Value::Floats(_)))
        };
        match fields.iter().find(is_missing) {
            Some(field) => take_ints(example, &field.name).map(|ids| vec![ids]),
            None => Ok(vec![Vec::new(); fields.len()]),
        }
    }

    fn model_features(&self, fields: &[Field], _: bool) -> Vec<Field> {
        fields.to_vec()
    }

    fn push(&self, row: &Row, _: i32, out: &mut [BatchFeature]) {
        push_passed(row, out);
    }

    fn packs(&self) -> bool {
        false
    }

    fn passes_through(&self) -> bool {
        true
    }
}

/// Checks that each feature of a packed example has exactly the field's length.
fn exact(example: &mut Example, fields: &[Field]) -> Result<Vec<Vec<i32>>, DataError> {
    for field in fields {
        let found = match example.get(&field.name) {
            Some(Value::Floats(weights)) if *field.name == *LOSS_WEIGHTS => weights.len(),
            Some(Value::Ints(values)) => values.len(),
            _ => return take_ints(example, &field.name).map(|ids| vec![ids]),
        };
        if found != field.length {
            return Err(DataError::Config(format!(
                "'{}' has {found} values; packed examples have {}, the length of their row",
                field.name, field.length
            )));
        }
    }
    Ok(vec![Vec::new(); fields.len()])
}

impl Convert for PrePackedLMFeatureConverter {
    fn fields(&self, lengths: &Lengths) -> Result<Vec<Field>, DataError> {
        let length = feature_length("targets", lengths)?;
        Ok(LM_FEATURES.iter().map(|name| Field::new(name, length)).collect())
    }

    fn prepare(&self, example: &mut Example, fields: &[Field]) -> Result<Vec<Vec<i32>>, DataError> {
        exact(example, fields)
    }

    fn model_features(&self, fields: &[Field], _: bool) -> Vec<Field> {
        fields.to_vec()
    }

    fn push(&self, row: &Row, _: i32, out: &mut [BatchFeature]) {
        push_passed(row, out);
    }

    fn packs(&self) -> bool {
        false
    }

    fn passes_through(&self) -> bool {
        true
    }
}

impl Convert for PrePackedPrefixLMFeatureConverter {
    fn fields(&self, lengths: &Lengths) -> Result<Vec<Field>, DataError> {
        let length = feature_length("inputs", lengths)? + feature_length("targets", lengths)?;
        let names = LM_FEATURES.iter().chain(&["decoder_causal_attention"]);
        Ok(names.map(|name| Field::new(name, length)).collect())
    }

    fn prepare(&self, example: &mut Example, fields: &[Field]) -> Result<Vec<Vec<i32>>, DataError> {
        exact(example, fields)
    }

    fn model_features(&self, fields: &[Field], _: bool) -> Vec<Field> {
        fields.to_vec()
    }

    fn push(&self, row: &Row, _: i32, out: &mut [BatchFeature]) {
        push_passed(row, out);
    }

    fn packs(&self) -> bool {
        false
    }

    fn passes_through(&self) -> bool {
        true
    }
}
