//! Batches of random tokens.

use tch::{Kind, Tensor};

use crate::models::memory::StepShape;
use crate::models::{Batch, feature};

/// The layout of rows: plain or packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowKind {
    /// One example a row, without padding.
    Plain,
    /// Two examples a row, with some padding after them.
    Packed,
}

/// Creates a batch of that shape, on the CPU like those of the data pipeline, with ids below
/// `vocab_size`; the same seed gives the same batch.
pub(super) fn batch(shape: StepShape, vocab_size: usize, kind: RowKind, seed: u64) -> Batch {
    tch::manual_seed(seed as i64);
    // 0 is padding.
    let tokens = |ids: &Tensor| ids.randint_like_low_dtype(1, vocab_size as i64) * ids.gt(0);
    let mut features = Vec::new();
    if shape.inputs_length > 0 {
        let ids = segments(kind, shape.rows, shape.inputs_length);
        features.push((feature::ENCODER_INPUT_TOKENS, tokens(&ids)));
        features.extend(kind.is_packed().then_some((feature::ENCODER_SEGMENT_IDS, ids)));
    }
    let ids = segments(kind, shape.rows, shape.targets_length);
    let targets = tokens(&ids);
    if shape.inputs_length == 0 {
        // A decoder alone reads half of each row at once.
        let places = Tensor::arange(shape.targets_length as i64, (Kind::Int64, ids.device()));
        let prefix = places.lt(shape.targets_length as i64 / 2).logical_and(&ids.eq(1));
        features.push((feature::DECODER_CAUSAL_ATTENTION, prefix.to_kind(Kind::Int64)));
    }
    let begun = targets.roll([1], [1]) * ids.eq_tensor(&ids.roll([1], [1]));
    let _ = begun.select(1, 0).zero_();
    features.extend([
        (feature::DECODER_INPUT_TOKENS, begun),
        (feature::DECODER_LOSS_WEIGHTS, targets.gt(0).to_kind(Kind::Float)),
        (feature::DECODER_TARGET_TOKENS, targets),
    ]);
    features.extend(kind.is_packed().then_some((feature::DECODER_SEGMENT_IDS, ids)));
    Batch::new(features)
}

impl RowKind {
    fn is_packed(self) -> bool {
        self == Self::Packed
    }
}

/// Returns the example number of each position, 0 for padding: int64 `[rows, length]`.
fn segments(kind: RowKind, rows: usize, length: usize) -> Tensor {
    let (first, real) = match kind {
        RowKind::Plain => (length, length),
        RowKind::Packed => ((5 * length).div_ceil(8), length - length / 32),
    };
    let id = |at: usize| i64::from(at < real) + i64::from((first..real).contains(&at));
    let row = Tensor::from_slice(&(0..length).map(id).collect::<Vec<_>>());
    row.expand([rows as i64, length as i64], false).contiguous()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_rows_hold_two_examples_and_padding() {
        let shape = StepShape { rows: 2, inputs_length: 64, targets_length: 3, parts: 1 };
        let batch = batch(shape, 9, RowKind::Packed, 1);
        let counts = |ids: &Tensor, id: i64| ids.eq(id).sum(Kind::Int64).int64_value(&[]);
        let ids = batch.tensor(feature::ENCODER_SEGMENT_IDS);
        assert_eq!([0, 1, 2].map(|id| counts(ids, id)), [2 * 2, 2 * 40, 2 * 22]);
        assert_eq!(
            [1, 2].map(|id| counts(batch.tensor(feature::DECODER_SEGMENT_IDS), id)),
            [2 * 2, 2]
        );
        assert_eq!(counts(batch.tensor(feature::ENCODER_INPUT_TOKENS), 0), 2 * 2);
        // Each example's targets start over.
        assert_eq!(counts(batch.tensor(feature::DECODER_INPUT_TOKENS), 0), 2 * 2);
        let weights = batch.tensor(feature::DECODER_LOSS_WEIGHTS);
        assert_eq!(weights.sum(Kind::Float).double_value(&[]), 6.0);
    }
}
