//! Batches of random tokens.

use tch::{Kind, Tensor};

use crate::models::memory::StepShape;
use crate::models::{Batch, Packing};

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
    let ids = |length| segments(kind, shape.rows, length);
    let [input_ids, target_ids] = [shape.inputs_length, shape.targets_length].map(ids);
    // 0 is padding.
    let tokens = |ids: &Tensor| ids.randint_like_low_dtype(1, vocab_size as i64) * ids.gt(0);
    let (inputs, targets) = (tokens(&input_ids), tokens(&target_ids));
    let begun = targets.roll([1], [1]) * target_ids.eq_tensor(&target_ids.roll([1], [1]));
    let _ = begun.select(1, 0).zero_();
    Batch {
        decoder_input_tokens: begun,
        decoder_loss_weights: targets.gt(0).to_kind(Kind::Float),
        packing: (kind == RowKind::Packed)
            .then(|| Packing { encoder_segment_ids: input_ids, decoder_segment_ids: target_ids }),
        layout: None,
        encoder_input_tokens: inputs,
        decoder_target_tokens: targets,
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
        let shape = StepShape { rows: 2, inputs_length: 64, targets_length: 3 };
        let batch = batch(shape, 9, RowKind::Packed, 1);
        let counts = |ids: &Tensor, id: i64| ids.eq(id).sum(Kind::Int64).int64_value(&[]);
        let packing = batch.packing.expect("packed rows have segments");
        let ids = &packing.encoder_segment_ids;
        assert_eq!([0, 1, 2].map(|id| counts(ids, id)), [2 * 2, 2 * 40, 2 * 22]);
        assert_eq!([1, 2].map(|id| counts(&packing.decoder_segment_ids, id)), [2 * 2, 2]);
        assert_eq!(counts(&batch.encoder_input_tokens, 0), 2 * 2);
        // Each example's targets start over.
        assert_eq!(counts(&batch.decoder_input_tokens, 0), 2 * 2);
        assert_eq!(batch.decoder_loss_weights.sum(Kind::Float).double_value(&[]), 6.0);
    }
}
