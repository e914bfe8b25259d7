//! The loss normalizing factor of a batch and its weights. T5X `losses.py`.

use tch::{Kind, Tensor};

use super::spec::LossNormalizingFactor;
use super::token_logits::TokenLogits;
use crate::models::Batch;

/// Loss weights after normalization, and the divisor of the weighted sum.
#[derive(Debug)]
pub struct NormalizedWeights {
    /// float32 `[batch, targets_length]`
    pub weights: Tensor,
    /// float32 scalar, if the loss is normalized.
    pub factor: Option<Tensor>,
}

/// Weights and factor of a head's targets in `batch`.
pub fn normalize(
    factor: Option<LossNormalizingFactor>,
    batch: &Batch,
    targets: &TokenLogits,
) -> NormalizedWeights {
    let weights = batch.tensor(targets.weights).to_kind(Kind::Float);
    let scalar = |value: f64| Tensor::from(value as f32).to_device(weights.device());
    match factor {
        None => NormalizedWeights { weights, factor: None },
        Some(LossNormalizingFactor::Constant(value)) => {
            let factor = Some(scalar(value));
            NormalizedWeights { weights, factor }
        }
        Some(LossNormalizingFactor::NumRealTargetTokens) => {
            let factor = Some(weights.sum(Kind::Float));
            NormalizedWeights { weights, factor }
        }
        Some(LossNormalizingFactor::NumTotalTargetTokens) => {
            let factor = Some(scalar(weights.numel() as f64));
            NormalizedWeights { weights, factor }
        }
        Some(LossNormalizingFactor::AveragePerSequence) => {
            let sums = match batch.get(targets.segment_ids) {
                Some(segment_ids) => sums_per_segment(&weights, segment_ids),
                None => weights.sum_dim_intlist(-1, true, Kind::Float),
            };
            // A sequence without weight, and padding, contribute 0 instead of 0/0.
            let weights = (weights / sums).nan_to_num(0.0, 0.0, 0.0);
            let factor = Some(weights.sum(Kind::Float));
            NormalizedWeights { weights, factor }
        }
    }
}

/// For each position, the sum of the weights of its segment; 0 for padding. `[batch, length]`
fn sums_per_segment(weights: &Tensor, segment_ids: &Tensor) -> Tensor {
    let (batch, length) = weights.size2().expect("weights are [batch, length]");
    // Ids count up from 1 within a row, so none exceeds the length.
    let zeros = Tensor::zeros([batch, length + 1], (Kind::Float, weights.device()));
    let sums = zeros.scatter_add(1, segment_ids, weights);
    sums.gather(1, segment_ids, false) * segment_ids.ne(0).to_kind(Kind::Float)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::feature;

    /// Values of T5X `losses_test.py`.
    fn check(
        factor: LossNormalizingFactor,
        batch: &Batch,
        expected_factor: f64,
        expected_weights: &[f32],
    ) {
        let found = normalize(Some(factor), batch, &TokenLogits::TARGETS);
        let value = found.factor.expect("a factor was asked for").double_value(&[]);
        assert!((value - expected_factor).abs() < 1e-5, "factor {value}");
        let expected = Tensor::from_slice(expected_weights).view([2, 5]);
        assert!(found.weights.allclose(&expected, 1e-5, 1e-7, false), "{}", found.weights);
    }

    fn batch(weights: [[f32; 5]; 2], segment_ids: Option<[[i64; 5]; 2]>) -> Batch {
        let batch = Batch::new([(feature::DECODER_LOSS_WEIGHTS, Tensor::from_slice2(&weights))]);
        match segment_ids {
            Some(ids) => batch.with(feature::DECODER_SEGMENT_IDS, Tensor::from_slice2(&ids)),
            None => batch,
        }
    }

    const REAL: [[f32; 5]; 2] = [[1.0, 1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0, 0.0]];

    #[test]
    fn token_counts_leave_the_weights() {
        let (batch, real) = (batch(REAL, None), REAL.concat());
        check(LossNormalizingFactor::NumRealTargetTokens, &batch, 6.0, &real);
        check(LossNormalizingFactor::NumTotalTargetTokens, &batch, 10.0, &real);
    }

    #[test]
    fn sequences_weigh_the_same_whatever_their_length() {
        let average = LossNormalizingFactor::AveragePerSequence;
        let expected = [0.25, 0.25, 0.25, 0.25, 0.0, 0.5, 0.5, 0.0, 0.0, 0.0];
        check(average, &batch(REAL, None), 2.0, &expected);
        let weights = [[0.5, 1.0, 0.25, 2.0, 0.0], [1.0, 1.0, 0.0, 0.0, 0.0]];
        let sum = 3.75;
        let expected = [0.5 / sum, 1.0 / sum, 0.25 / sum, 2.0 / sum, 0.0, 0.5, 0.5, 0.0, 0.0, 0.0];
        check(average, &batch(weights, None), 2.0, &expected);
    }

    #[test]
    fn packed_sequences_are_averaged_one_by_one() {
        let weights = [[0.5, 1.0, 0.25, 2.0, 1.5], [1.0, 2.0, 3.0, 4.0, 5.0]];
        let batch = batch(weights, Some([[1, 1, 1, 2, 3], [1, 2, 2, 3, 0]]));
        let first = 1.75;
        let expected = [0.5 / first, 1.0 / first, 0.25 / first, 1.0, 1.0, 1.0, 0.4, 0.6, 1.0, 0.0];
        check(LossNormalizingFactor::AveragePerSequence, &batch, 6.0, &expected);
    }
}
