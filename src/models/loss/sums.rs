//! The result of a loss: the scalar to differentiate, and the sums for metrics, read from the
//! device once.

use tch::{Kind, Tensor};

use crate::metrics::{FeatureSums, LossSums};
use crate::models::Batch;

/// One batch's loss.
#[derive(Debug)]
pub struct LossOutput {
    /// Scalar to differentiate. Its value is the loss, as far as float32 reaches.
    pub loss: Tensor,
    /// The sums for metrics.
    pub sums: UnreadSums,
}

/// Sums that are still on the device, so that a step need not wait for them.
#[derive(Debug)]
pub struct UnreadSums {
    values: Tensor, // float64 [9], in the order of `read`
    num_sequences: u64,
    num_target_tokens: u64,
    names: [&'static str; 2],
    num_encoder_positions: u64,
}

/// The sums over targets, each a scalar.
#[derive(Debug)]
pub struct TargetSums {
    /// The loss, z-loss included.
    pub loss: Tensor,
    /// The z-loss in it.
    pub z_loss: Tensor,
    /// Targets of any weight that are the most probable token.
    pub correct: Tensor,
    /// Targets of any weight.
    pub num_weighted_tokens: Tensor,
    /// Weights of all targets, after normalization.
    pub weight_sum: Tensor,
}

impl UnreadSums {
    /// The target sums, and counts of the batch's examples and tokens.
    pub fn new(batch: &Batch, targets: &TargetSums) -> Self {
        let (encoder, decoder) = (&batch.encoder_input_tokens, &batch.decoder_target_tokens);
        let (names, [encoder_ids, decoder_ids]) = match &batch.packing {
            Some(packing) => (
                ["encoder", "decoder"],
                [
                    packing.encoder_segment_ids.shallow_clone(),
                    packing.decoder_segment_ids.shallow_clone(),
                ],
            ),
            None => (
                ["encoder_input_tokens", "decoder_target_tokens"],
                [encoder, decoder].map(|tokens| tokens.ne(0).to_kind(Kind::Int64)),
            ),
        };
        let scalars = [
            &targets.loss,
            &targets.z_loss,
            &targets.correct,
            &targets.num_weighted_tokens,
            &targets.weight_sum,
            &num_examples(&encoder_ids),
            &encoder_ids.ne(0).sum(Kind::Int64),
            &num_examples(&decoder_ids),
            &decoder_ids.ne(0).sum(Kind::Int64),
        ];
        Self {
            values: Tensor::stack(&scalars.map(|scalar| scalar.detach().to_kind(Kind::Double)), 0),
            num_sequences: decoder.size()[0] as u64,
            num_target_tokens: decoder.numel() as u64,
            names,
            num_encoder_positions: encoder.numel() as u64,
        }
    }

    /// Waits for the device and reads the sums.
    pub fn read(&self) -> LossSums {
        let values: Vec<f64> =
            Vec::try_from(&self.values).expect("the sums are one float64 vector");
        let [loss, z_loss, correct, num_weighted_tokens, weight_sum, ref features @ ..] =
            values[..]
        else {
            unreachable!("`new` stacks nine values")
        };
        let feature = |index: usize, num_positions| FeatureSums {
            name: self.names[index],
            num_examples: features[2 * index],
            num_non_padding: features[2 * index + 1],
            num_positions,
        };
        LossSums {
            loss,
            z_loss,
            correct,
            num_weighted_tokens,
            weight_sum,
            num_sequences: self.num_sequences,
            num_target_tokens: self.num_target_tokens,
            encoder: feature(0, self.num_encoder_positions),
            decoder: feature(1, self.num_target_tokens),
        }
    }
}

/// Examples in rows of segment ids, padding last. T5X `models.py`, `count_packed_examples`.
fn num_examples(segment_ids: &Tensor) -> Tensor {
    let (rows, length) = segment_ids.size2().expect("segment ids are [batch, length]");
    let starts = segment_ids.diff::<&Tensor>(1, 1, None, None).ne(0).sum(Kind::Int64);
    let padded_rows = segment_ids.select(1, length - 1).eq(0).sum(Kind::Int64);
    starts + rows - padded_rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_examples_are_counted_as_t5x_counts_them() {
        let ids = Tensor::from_slice2(&[[1i64, 1, 3, 3, 0, 0], [2; 6], [2, 7, 7, 7, 7, 0]]);
        assert_eq!(num_examples(&ids).int64_value(&[]), 5);
        let empty_row = Tensor::from_slice2(&[[0i64; 3], [4; 3]]);
        assert_eq!(num_examples(&empty_row).int64_value(&[]), 1);
    }
}
