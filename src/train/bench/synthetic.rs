//! Batches of random tokens.

use tch::{Device, Kind, Tensor};

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

/// The sides of a network, whose names begin the names of features.
const SIDES: [&str; 2] = ["encoder_", "decoder_"];

/// Creates a batch of that shape with those features, on the CPU like those of the data pipeline, with ids below
/// `vocab_size`; the same seed gives the same batch.
pub(super) fn batch(
    features: &[&'static str],
    shape: &StepShape,
    vocab_size: usize,
    kind: RowKind,
    seed: u64,
) -> Batch {
    tch::manual_seed(seed as i64);
    let of_side = |side: &'static str| features.iter().filter(move |name| name.starts_with(side));
    let sides = SIDES.into_iter().filter(|side| of_side(side).next().is_some());
    let mut out = Vec::new();
    // A side without positions has classes, of which there are two at least.
    let extents = shape.lengths.iter().map(|length| (*length, vocab_size)).chain([(1, 3)]);
    for (side, (length, vocab_size)) in sides.zip(extents) {
        let ids = segments(kind, shape.rows, length);
        // 0 is padding.
        let tokens = ids.randint_like_low_dtype(1, vocab_size as i64) * ids.gt(0);
        for name in of_side(side) {
            let value = match *name {
                feature::DECODER_INPUT_TOKENS => begun(&tokens, &ids),
                feature::DECODER_CAUSAL_ATTENTION => prefix(&ids),
                feature::ENCODER_LOSS_WEIGHTS => masked(&ids),
                feature::ENCODER_TOKEN_TYPES => ids.zeros_like(),
                name if name.ends_with("tokens") => tokens.shallow_clone(),
                name if name.ends_with("weights") => ids.gt(0).to_kind(Kind::Float),
                _ if kind.is_packed() => ids.shallow_clone(),
                _ => continue,
            };
            out.push((*name, value));
        }
    }
    if features.contains(&feature::NEXT_SENTENCE_LABEL) {
        let rows = Tensor::arange(shape.rows as i64, (Kind::Int64, Device::Cpu));
        out.push((feature::NEXT_SENTENCE_LABEL, rows.remainder(2).unsqueeze(-1)));
    }
    if features.contains(&feature::IS_CORRECT) {
        // Each row is an answer.
        out.push((feature::IS_CORRECT, Tensor::ones([shape.rows as i64, 1], tch::kind::INT64_CPU)));
    }
    Batch::new(out)
}

/// Weighs one token in seven, about as many as BERT masks.
fn masked(ids: &Tensor) -> Tensor {
    let places = Tensor::arange(ids.size()[1], (Kind::Int64, ids.device()));
    places.remainder(7).eq(0).logical_and(&ids.gt(0)).to_kind(Kind::Float)
}

/// Moves the targets of each example right by one.
fn begun(targets: &Tensor, ids: &Tensor) -> Tensor {
    let begun = targets.roll([1], [1]) * ids.eq_tensor(&ids.roll([1], [1]));
    let _ = begun.select(1, 0).zero_();
    begun
}

/// Marks half of each row, which a decoder alone reads at once.
fn prefix(ids: &Tensor) -> Tensor {
    let length = ids.size()[1];
    let places = Tensor::arange(length, (Kind::Int64, ids.device()));
    places.lt(length / 2).logical_and(&ids.eq(1)).to_kind(Kind::Int64)
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
    fn a_model_of_classes_gets_one_class_a_row() {
        let features = [
            feature::ENCODER_INPUT_TOKENS,
            feature::DECODER_TARGET_TOKENS,
            feature::DECODER_LOSS_WEIGHTS,
        ];
        let batch = batch(&features, &StepShape::whole(9, [64]), 99, RowKind::Plain, 1);
        let classes = batch.tensor(feature::DECODER_TARGET_TOKENS);
        assert_eq!(classes.size(), [9, 1]);
        let is_class = classes.ge(1).logical_and(&classes.le(2));
        assert_eq!(is_class.all().int64_value(&[]), 1);
    }

    #[test]
    fn packed_rows_hold_two_examples_and_padding() {
        let features = [
            feature::ENCODER_INPUT_TOKENS,
            feature::ENCODER_SEGMENT_IDS,
            feature::DECODER_INPUT_TOKENS,
            feature::DECODER_LOSS_WEIGHTS,
            feature::DECODER_SEGMENT_IDS,
        ];
        let batch = batch(&features, &StepShape::whole(2, [64, 3]), 9, RowKind::Packed, 1);
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
