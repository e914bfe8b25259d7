//! The result of a loss, which is a sum over heads: the scalar to differentiate, and the sums for metrics, read from the
//! device once.

use std::collections::BTreeMap;

use tch::{Kind, Tensor};

use crate::metrics::{FeatureSums, LossSums, sum};
use crate::models::{Batch, feature};
use crate::nn::profiler::{Activity, part};

/// One batch's loss.
#[derive(Debug)]
pub struct LossOutput {
    /// Scalar to differentiate. Its value is the loss, as far as float32 reaches.
    pub loss: Tensor,
    /// The sums for metrics.
    pub sums: UnreadSums,
}

/// The part that one head has in a loss, or the routers of all layers.
#[derive(Debug)]
pub struct HeadLoss {
    /// Scalar to differentiate.
    pub loss: Tensor,
    /// Its value, detached.
    pub value: Tensor,
    /// Scalars for metrics, by name.
    pub sums: Vec<(&'static str, Tensor)>,
    /// The positions that it predicts, those without weight included.
    pub num_targets: u64,
}

impl LossOutput {
    /// The loss of a batch to which `heads` add.
    ///
    /// # Panics
    /// There is no head.
    pub fn new(batch: &Batch, heads: impl IntoIterator<Item = HeadLoss>) -> Self {
        let _part = part(Activity::Loss);
        let all = heads.into_iter().reduce(|mut all, head| {
            all.sums.extend(head.sums);
            HeadLoss {
                loss: all.loss + head.loss,
                value: all.value + head.value,
                num_targets: all.num_targets + head.num_targets,
                ..all
            }
        });
        let HeadLoss { loss, value, sums, num_targets } = all.expect("a network has a head");
        let sums = [(sum::LOSS, value)].into_iter().chain(sums);
        Self { loss, sums: UnreadSums::new(batch, sums, num_targets) }
    }
}

/// Sums that are still on the device, so that a step need not wait for them.
#[derive(Debug)]
pub struct UnreadSums {
    /// float64: the sums of `names`, then for each feature its examples and its tokens that are not
    /// padding.
    values: Tensor,
    names: Vec<&'static str>,
    features: Vec<(&'static str, u64)>, // with their number of positions
    num_sequences: u64,
    num_target_tokens: u64,
}

/// Features whose tokens are counted: their tokens and segment ids, and T5X's name of each in metrics.
const COUNTED: [[&str; 3]; 2] = [
    [feature::ENCODER_INPUT_TOKENS, feature::ENCODER_SEGMENT_IDS, "encoder"],
    [feature::DECODER_TARGET_TOKENS, feature::DECODER_SEGMENT_IDS, "decoder"],
];

impl UnreadSums {
    /// Scalars by name, and counts of the batch's examples and tokens.
    fn new(
        batch: &Batch,
        sums: impl IntoIterator<Item = (&'static str, Tensor)>,
        num_target_tokens: u64,
    ) -> Self {
        let (names, mut scalars): (Vec<_>, Vec<Tensor>) = sums.into_iter().unzip();
        let is_packed = COUNTED.iter().any(|[_, segments, _]| batch.get(segments).is_some());
        let mut features = Vec::new();
        for [tokens, segments, packed_name] in COUNTED {
            let (name, ids) = match is_packed {
                true => (packed_name, batch.get(segments).map(Tensor::shallow_clone)),
                false => (tokens, batch.get(tokens).map(|ids| ids.ne(0).to_kind(Kind::Int64))),
            };
            let Some(ids) = ids else { continue };
            scalars.extend([num_examples(&ids), ids.ne(0).sum(Kind::Int64)]);
            features.push((name, ids.numel() as u64));
        }
        let scalars: Vec<Tensor> =
            scalars.iter().map(|scalar| scalar.detach().to_kind(Kind::Double)).collect();
        Self {
            values: Tensor::stack(&scalars, 0),
            names,
            features,
            num_sequences: batch.num_rows() as u64,
            num_target_tokens,
        }
    }

    /// The same in memory of their own.
    pub fn copied(&self) -> Self {
        Self {
            values: self.values.copy(),
            names: self.names.clone(),
            features: self.features.clone(),
            ..*self
        }
    }

    /// Waits for the device and reads the sums.
    pub fn read(&self) -> LossSums {
        let values: Vec<f64> =
            Vec::try_from(&self.values).expect("the sums are one float64 vector");
        let (sums, counts) = values.split_at(self.names.len());
        let features = self.features.iter().zip(counts.chunks_exact(2));
        let features = features.map(|(&(name, num_positions), counts)| FeatureSums {
            name,
            num_examples: counts[0],
            num_non_padding: counts[1],
            num_positions,
        });
        let mut by_name = BTreeMap::new();
        // Heads may count the same thing.
        for (name, sum) in self.names.iter().zip(sums) {
            *by_name.entry(*name).or_default() += sum;
        }
        LossSums {
            sums: by_name,
            num_sequences: self.num_sequences,
            num_target_tokens: self.num_target_tokens,
            features: features.collect(),
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
    fn heads_add_to_a_loss_and_to_sums_of_one_name() {
        let batch = Batch::new([(
            feature::ENCODER_INPUT_TOKENS,
            Tensor::ones([2, 3], (Kind::Int64, tch::Device::Cpu)),
        )]);
        let head = |value: f64, num_targets| HeadLoss {
            loss: Tensor::from(value),
            value: Tensor::from(value),
            sums: vec![(sum::WEIGHT_SUM, Tensor::from(2.0 * value))],
            num_targets,
        };
        let output = LossOutput::new(&batch, [head(1.0, 6), head(3.0, 1)]);
        let sums = output.sums.read();
        assert_eq!(output.loss.double_value(&[]), 4.0);
        assert_eq!((sums.get(sum::LOSS), sums.get(sum::WEIGHT_SUM)), (4.0, 8.0));
        assert_eq!((sums.num_target_tokens, sums.features.len()), (7, 1));
    }

    #[test]
    fn packed_examples_are_counted_as_t5x_counts_them() {
        let ids = Tensor::from_slice2(&[[1i64, 1, 3, 3, 0, 0], [2; 6], [2, 7, 7, 7, 7, 0]]);
        assert_eq!(num_examples(&ids).int64_value(&[]), 5);
        let empty_row = Tensor::from_slice2(&[[0i64; 3], [4; 3]]);
        assert_eq!(num_examples(&empty_row).int64_value(&[]), 1);
    }
}
