//! The loss normalizing factor of a batch and its weights. T5X `losses.py`.

use tch::{Kind, Tensor};

use super::spec::{LossNormalizingFactor, PartialBatches};

/// Loss weights after normalization, and the divisor of the weighted sum.
#[derive(Debug)]
pub struct NormalizedWeights {
    /// float32 `[batch, targets_length]`
    pub weights: Tensor,
    /// float32 scalar, if the loss is normalized.
    pub factor: Option<Tensor>,
}

/// Normalizes the weights of a head's targets, float32 `[batch, targets_length]`, in rows with `segment_ids` of that shape
/// if they are packed.
pub fn normalize(
    factor: Option<LossNormalizingFactor>,
    weights: Tensor,
    segment_ids: Option<&Tensor>,
) -> NormalizedWeights {
    let scalar = |value: f64| Tensor::full([], value, (Kind::Float, weights.device()));
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
            let sums = match segment_ids {
                Some(segment_ids) => sums_per_segment(&weights, segment_ids),
                None => weights.sum_dim_intlist(-1, true, Kind::Float),
            };
            // A sequence without weight, and padding, contribute 0 instead of 0/0.
            let weights = (weights / sums).nan_to_num(0.0, 0.0, 0.0);
            let factor = Some(weights.sum(Kind::Float));
            NormalizedWeights { weights, factor }
        }
        Some(LossNormalizingFactor::MeanOfMicrobatches(microbatches)) => {
            let sums = sums_per_group(&weights, microbatches.rows as i64);
            let factor = match microbatches.partial_batches {
                PartialBatches::Real => sums.ne(0).sum(Kind::Float).clamp_min(1.0),
                PartialBatches::Upstream => scalar(sums.numel() as f64),
            };
            let of_rows = sums.unsqueeze(-1).expand([-1, microbatches.rows as i64], false);
            let sums = of_rows.reshape(-1).narrow(0, 0, weights.size()[0]).unsqueeze(-1);
            // Rows of a micro-batch without weight contribute 0 instead of 0/0.
            let weights = (weights / sums).nan_to_num(0.0, 0.0, 0.0);
            NormalizedWeights { weights, factor: Some(factor) }
        }
    }
}

/// The sum of the weights of each group of so many rows, of which the last may have fewer. `[groups]`
fn sums_per_group(weights: &Tensor, rows: i64) -> Tensor {
    let sums = weights.sum_dim_intlist(-1, false, Kind::Float);
    let missing = (rows - sums.size()[0] % rows) % rows;
    sums.constant_pad_nd([0, missing]).view([-1, rows]).sum_dim_intlist(-1, false, Kind::Float)
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
    use super::super::spec::MeanOfMicrobatches;
    use super::*;
    use crate::models::{Batch, feature};

    /// Values of T5X `losses_test.py`.
    fn check(
        factor: LossNormalizingFactor,
        batch: &Batch,
        expected_factor: f64,
        expected_weights: &[f32],
    ) {
        let weights = batch.tensor(feature::DECODER_LOSS_WEIGHTS).shallow_clone();
        let found = normalize(Some(factor), weights, batch.get(feature::DECODER_SEGMENT_IDS));
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
    fn microbatches_weigh_the_same_and_those_without_targets_nothing() {
        let rows = [REAL[0], REAL[1], REAL[1], [0.0; 5], [0.0; 5]];
        let weights = Tensor::from_slice(&rows.concat()).view([5, 5]);
        for (partial_batches, expected) in
            [(PartialBatches::Real, 2.0), (PartialBatches::Upstream, 3.0)]
        {
            let microbatches = MeanOfMicrobatches { rows: 2, partial_batches };
            let factor = Some(LossNormalizingFactor::MeanOfMicrobatches(microbatches));
            let found = normalize(factor, weights.shallow_clone(), None);
            assert_eq!(found.factor.map(|factor| factor.double_value(&[])), Some(expected));
            let sums = Tensor::from_slice(&[6.0_f32, 6.0, 2.0, 2.0, 1.0]).unsqueeze(-1);
            assert!(found.weights.allclose(&(&weights / sums), 1e-6, 0.0, false));
        }
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
