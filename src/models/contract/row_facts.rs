//! Facts about rows that the host computes before it sends them to a device, which it could ask
//! only by waiting.

use tch::{Device, Kind, Tensor};

use super::features::{Batch, feature};
use crate::nn::{Runs, RunsShape, SegmentLengths};

/// Facts about the examples in the rows of a batch.
#[derive(Clone, Debug)]
pub struct RowFacts {
    /// Runs of the encoder's tokens, each of which attends to itself, if examples lie in order.
    pub inputs: Option<Runs>,
    /// Runs of targets, whose tokens attend to themselves and to those before them.
    pub targets: Option<Runs>,
    /// Runs of targets with the runs of the encoder's tokens that they attend to.
    pub cross: Option<Runs>,
}

impl RowFacts {
    /// The facts that the host tells kernels of the rows.
    pub(super) fn shape(&self) -> [Option<RunsShape>; 3] {
        self.all().map(|runs| runs.map(Runs::shape))
    }

    /// The same in memory of their own.
    pub(super) fn copied(&self) -> Self {
        let [inputs, targets, cross] = self.all().map(|runs| runs.map(Runs::copied));
        Self { inputs, targets, cross }
    }

    /// Writes others of the same shape into the memory of these.
    pub(super) fn take(&self, others: &Self) {
        for (own, other) in self.all().into_iter().zip(others.all()) {
            if let (Some(own), Some(other)) = (own, other) {
                own.take(other);
            }
        }
    }

    fn all(&self) -> [Option<&Runs>; 3] {
        [&self.inputs, &self.targets, &self.cross].map(Option::as_ref)
    }

    /// Computes the facts of a batch on the CPU, with its runs on `device`.
    pub(super) fn of(batch: &Batch, device: Device) -> Self {
        // A masked token may become any other, also padding.
        let masked = batch.get(feature::ENCODER_LOSS_WEIGHTS).map(|weights| weights.gt(0));
        let ids = |tokens: &str, segment_ids: &str| {
            let real = batch.get(tokens)?.gt(0);
            let real = match &masked {
                Some(masked) if tokens == feature::ENCODER_INPUT_TOKENS => real.logical_or(masked),
                _ => real,
            };
            let real = real.to_kind(Kind::Int64);
            Some(batch.get(segment_ids).map_or_else(|| real.shallow_clone(), |ids| ids * &real))
        };
        let inputs = ids(feature::ENCODER_INPUT_TOKENS, feature::ENCODER_SEGMENT_IDS);
        let targets = ids(feature::DECODER_TARGET_TOKENS, feature::DECODER_SEGMENT_IDS);
        let most =
            [&inputs, &targets].into_iter().flatten().map(|ids| ids.size()[1] as usize).max();
        let count = |ids: Option<Tensor>| SegmentLengths::of(&ids?, most?);
        let (inputs, targets) = (count(inputs), count(targets));
        let runs = |queries: &Option<SegmentLengths>, keys: &Option<SegmentLengths>| {
            Runs::of_segments(queries.as_ref()?, keys.as_ref()?, device)
        };
        Self {
            inputs: runs(&inputs, &inputs),
            targets: runs(&targets, &targets).map(Runs::causal),
            cross: runs(&targets, &inputs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(inputs: [[i64; 3]; 2], targets: [[i64; 2]; 2]) -> Batch {
        Batch::new([
            (feature::ENCODER_INPUT_TOKENS, Tensor::from_slice2(&inputs)),
            (feature::DECODER_TARGET_TOKENS, Tensor::from_slice2(&targets)),
        ])
    }

    /// Checks whether inputs and targets are full, and the starts of runs of inputs.
    fn check(batch: &Batch, full: (bool, bool), expected: Option<&[i32]>) {
        let facts = RowFacts::of(batch, Device::Cpu);
        let are_whole = |runs: &Option<Runs>| runs.as_ref().is_some_and(Runs::are_whole_rows);
        assert_eq!((are_whole(&facts.inputs), are_whole(&facts.targets)), full);
        let starts = facts.cross.expect("examples lie in order");
        let starts = starts.starts().map(|starts| Vec::<i32>::try_from(&starts[1]).unwrap());
        assert_eq!(starts.as_deref(), expected);
    }

    #[test]
    fn facts_are_those_of_tokens_and_segment_ids() {
        let full = [[5, 6, 7], [8, 9, 5]];
        check(&batch(full, [[3, 4], [5, 6]]), (true, true), None);
        check(&batch(full, [[3, 0], [5, 6]]), (true, false), None);
        let padded = [[5, 6, 7], [8, 0, 0]];
        check(&batch(padded, [[3, 4], [5, 6]]), (false, true), Some(&[0, 3, 4, 6]));
        let packed = batch(full, [[3, 4], [5, 6]])
            .with(feature::ENCODER_SEGMENT_IDS, Tensor::from_slice2(&[[1i64, 1, 2], [1, 1, 1]]))
            .with(feature::DECODER_SEGMENT_IDS, Tensor::from_slice2(&[[1i64, 2], [1, 1]]));
        check(&packed, (false, false), Some(&[0, 2, 3, 6]));
    }

    #[test]
    fn a_masked_token_that_became_padding_is_none() {
        let tokens = Tensor::from_slice2(&[[3i64, 0, 5, 0]]);
        let weights = Tensor::from_slice2(&[[0.0f32, 1.0, 0.0, 0.0]]);
        let batch = Batch::new([
            (feature::ENCODER_INPUT_TOKENS, tokens),
            (feature::ENCODER_LOSS_WEIGHTS, weights),
        ]);
        let runs = RowFacts::of(&batch, Device::Cpu).inputs.expect("an example, then padding");
        assert_eq!(Vec::<i32>::try_from(&runs.starts().unwrap()[1]).unwrap(), [0, 3, 4]);
    }

    #[test]
    fn a_decoder_alone_has_no_runs() {
        let targets = Tensor::from_slice2(&[[3i64, 4], [5, 6]]);
        let facts =
            RowFacts::of(&Batch::new([(feature::DECODER_TARGET_TOKENS, targets)]), Device::Cpu);
        assert!(facts.cross.is_none() && facts.inputs.is_none());
        assert!(facts.targets.is_some_and(|runs| runs.are_whole_rows() && runs.are_causal()));
    }
}
