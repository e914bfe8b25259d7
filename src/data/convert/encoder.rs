//! Encoder-only models, which restore masked tokens.

use super::batch::BatchFeature;
use super::contract::{Convert, Field, Lengths, fields_of};
use super::row::Row;
use crate::error::DataError;
use gimlet_gin::Configurable;

/// Converts aligned 'inputs' and 'targets'; the loss counts the masked inputs. Source: SeqIO
/// `feature_converters.py`.
#[derive(Clone, Debug, PartialEq, Eq, Configurable)]
#[gin(
    name = "seqio.EncoderFeatureConverter",
    alias = "seqio.feature_converters.EncoderFeatureConverter"
)]
pub struct EncoderFeatureConverter {
    /// The id of masked tokens.
    pub mask_id: i64,
}

const FEATURES: [&str; 3] =
    ["encoder_input_tokens", "encoder_target_tokens", "encoder_loss_weights"];
const PACKING_FEATURES: [&str; 2] = ["encoder_segment_ids", "encoder_positions"];

impl Convert for EncoderFeatureConverter {
    fn fields(&self, lengths: &Lengths) -> Result<Vec<Field>, DataError> {
        let fields = fields_of("an encoder model", &["inputs", "targets"], lengths)?;
        if fields[0].length != fields[1].length {
            return Err(DataError::Config(format!(
                "an encoder model needs inputs and targets of one length, found {} and {}",
                fields[0].length, fields[1].length
            )));
        }
        Ok(fields)
    }

    fn model_features(&self, fields: &[Field], is_packed: bool) -> Vec<Field> {
        let packing = if is_packed { &PACKING_FEATURES[..] } else { &[] };
        let names = FEATURES.iter().chain(packing);
        names.map(|name| Field::new(name, fields[0].length)).collect()
    }

    fn is_aligned(&self) -> bool {
        true
    }

    fn push(&self, row: &Row, _: i32, out: &mut [BatchFeature]) {
        let [inputs, targets] = &row.features[..] else { unreachable!("there are two fields") };
        let [input_tokens, target_tokens, weights, packing @ ..] = out else {
            unreachable!("there are three features");
        };
        let input_tokens = input_tokens.push(&inputs.tokens);
        weights.push_each(
            input_tokens.iter().map(|&token| i32::from(i64::from(token) == self.mask_id)),
        );
        target_tokens.push(&targets.tokens);
        if let [segments, positions] = packing {
            segments.push_each(inputs.segment_ids());
            positions.push(&inputs.positions);
        }
    }
}
