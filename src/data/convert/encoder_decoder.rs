//! Encoder-decoder models: inputs are read at once, targets one by one.

use super::batch::BatchFeature;
use super::contract::{Convert, Field, Lengths, fields_of};
use super::row::Row;
use super::shift::shifted;
use crate::error::DataError;
use gimlet_gin::Configurable;

/// Converts 'inputs' and 'targets' for an encoder-decoder model. Source: SeqIO
/// `feature_converters.py`.
#[derive(Clone, Debug, PartialEq, Eq, Configurable)]
#[gin(
    name = "seqio.EncDecFeatureConverter",
    alias = "seqio.feature_converters.EncDecFeatureConverter"
)]
pub struct EncDecFeatureConverter {}

/// As [`EncDecFeatureConverter`], for examples that are packed already: `inputs_segment_ids`,
/// `inputs_positions` and those of the targets are features of the examples.
#[derive(Clone, Debug, PartialEq, Eq, Configurable)]
#[gin(
    name = "seqio.PrePackedEncDecFeatureConverter",
    alias = "seqio.feature_converters.PrePackedEncDecFeatureConverter"
)]
pub struct PrePackedEncDecFeatureConverter {}

const FEATURES: [&str; 4] = [
    "encoder_input_tokens",
    "decoder_target_tokens",
    "decoder_input_tokens",
    "decoder_loss_weights",
];
const PACKING_FEATURES: [&str; 4] =
    ["encoder_segment_ids", "encoder_positions", "decoder_segment_ids", "decoder_positions"];

const PACKED_FIELDS: [&str; 6] = [
    "inputs",
    "inputs_segment_ids",
    "inputs_positions",
    "targets",
    "targets_segment_ids",
    "targets_positions",
];

fn model_features(inputs: usize, targets: usize, is_packed: bool) -> Vec<Field> {
    let packing = if is_packed { &PACKING_FEATURES[..] } else { &[] };
    let length = |name: &str| if name.starts_with("encoder") { inputs } else { targets };
    FEATURES.iter().chain(packing).map(|name| Field::new(name, length(name))).collect()
}

impl Convert for EncDecFeatureConverter {
    fn fields(&self, lengths: &Lengths) -> Result<Vec<Field>, DataError> {
        fields_of("an encoder-decoder model", &["inputs", "targets"], lengths)
    }

    fn model_features(&self, fields: &[Field], is_packed: bool) -> Vec<Field> {
        model_features(fields[0].length, fields[1].length, is_packed)
    }

    fn push(&self, row: &Row, bos_id: i32, out: &mut [BatchFeature]) {
        let [inputs, targets] = &row.features[..] else { unreachable!("there are two fields") };
        let (tokens, packing) = out.split_at_mut(FEATURES.len());
        let [encoder_inputs, decoder_targets, decoder_inputs, weights] = tokens else {
            unreachable!("there are four features");
        };
        encoder_inputs.push(&inputs.tokens);
        let decoder_targets = decoder_targets.push(&targets.tokens);
        weights.push_each(decoder_targets.iter().map(|&token| i32::from(token != 0)));
        let [encoder_segments, encoder_positions, decoder_segments, decoder_positions] = packing
        else {
            decoder_inputs.push_each(shifted(decoder_targets, None, bos_id));
            return;
        };
        encoder_segments.push_each(inputs.segment_ids());
        encoder_positions.push(&inputs.positions);
        let segments = decoder_segments.push_each(targets.segment_ids());
        decoder_positions.push(&targets.positions);
        decoder_inputs.push_each(shifted(decoder_targets, Some(segments), bos_id));
    }
}

impl Convert for PrePackedEncDecFeatureConverter {
    fn fields(&self, lengths: &Lengths) -> Result<Vec<Field>, DataError> {
        fields_of("a packed encoder-decoder model", &PACKED_FIELDS, lengths)
    }

    fn model_features(&self, fields: &[Field], _: bool) -> Vec<Field> {
        model_features(fields[0].length, fields[3].length, true)
    }

    fn push(&self, row: &Row, bos_id: i32, out: &mut [BatchFeature]) {
        let fields: Vec<&[i32]> = row.features.iter().map(|feature| &feature.tokens[..]).collect();
        let [inputs, inputs_segments, inputs_positions, targets, segments, positions] = fields[..]
        else {
            unreachable!("there are six fields");
        };
        let [
            encoder_inputs,
            decoder_targets,
            decoder_inputs,
            weights,
            encoder_segments,
            encoder_positions,
            decoder_segments,
            decoder_positions,
        ] = out
        else {
            unreachable!("there are eight features");
        };
        encoder_inputs.push(inputs);
        encoder_segments.push(inputs_segments);
        encoder_positions.push(inputs_positions);
        decoder_positions.push(positions);
        let targets = decoder_targets.push(targets);
        let segments = decoder_segments.push(segments);
        weights.push_each(targets.iter().map(|&token| i32::from(token != 0)));
        decoder_inputs.push_each(shifted(targets, Some(segments), bos_id));
    }

    fn packs(&self) -> bool {
        false
    }
}
