//! Facts about rows that the host computes before it sends them to a device, which it could ask
//! only by waiting.

use tch::{Device, Kind, Tensor};

use super::features::{Batch, feature};
use crate::nn::Runs;

/// Facts about the examples in the rows of a batch.
#[derive(Clone, Debug)]
pub struct RowFacts {
    /// Whether the encoder's tokens of every row are one example without padding.
    pub full_inputs: bool,
    /// Whether the targets of every row are one example without padding.
    pub full_targets: bool,
    /// Runs of targets with the runs of the encoder's tokens that they attend to, if examples lie in
    /// order.
    pub cross: Option<Runs>,
}

impl RowFacts {
    /// Computes the facts of a batch on the CPU, with its runs on `device`.
    pub(super) fn of(batch: &Batch, device: Device) -> Self {
        let ids = |tokens: &str, segment_ids: &str| {
            let real = batch.get(tokens)?.gt(0).to_kind(Kind::Int64);
            Some(batch.get(segment_ids).map_or_else(|| real.shallow_clone(), |ids| ids * &real))
        };
        let inputs = ids(feature::ENCODER_INPUT_TOKENS, feature::ENCODER_SEGMENT_IDS);
        let targets = ids(feature::DECODER_TARGET_TOKENS, feature::DECODER_SEGMENT_IDS);
        let is_full = |ids: &Tensor| ids.eq(1).all().int64_value(&[]) == 1;
        Self {
            full_inputs: inputs.as_ref().is_some_and(is_full),
            full_targets: targets.as_ref().is_some_and(is_full),
            cross: targets
                .zip(inputs)
                .and_then(|(targets, inputs)| Runs::between(&targets, &inputs, device)),
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
        assert_eq!((facts.full_inputs, facts.full_targets), full);
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
    fn a_decoder_alone_has_no_runs() {
        let targets = Tensor::from_slice2(&[[3i64, 4], [5, 6]]);
        let facts =
            RowFacts::of(&Batch::new([(feature::DECODER_TARGET_TOKENS, targets)]), Device::Cpu);
        assert!(facts.cross.is_none() && facts.full_targets && !facts.full_inputs);
    }
}
