//! The inputs of a sequence-to-sequence model for one step, on its device.

use tch::{Device, Kind, Tensor};

use crate::data;
use crate::nn::Runs;

/// The features of SeqIO's `EncDecFeatureConverter`. Tokens are int64, padding is 0.
#[derive(Debug)]
pub struct Batch {
    /// `[batch, inputs_length]`
    pub encoder_input_tokens: Tensor,
    /// `[batch, targets_length]`: the targets moved right by one, 0 at the start of each example.
    pub decoder_input_tokens: Tensor,
    /// `[batch, targets_length]`
    pub decoder_target_tokens: Tensor,
    /// float32 `[batch, targets_length]`: the weight of each target in the loss.
    pub decoder_loss_weights: Tensor,
    /// The example of each position, for rows with several examples.
    pub packing: Option<Packing>,
    /// The layout of examples in the rows, once the batch is on a CUDA device; [`Batch::to_device`]
    /// computes it.
    pub layout: Option<RowFacts>,
}

/// Facts about rows that the host computes before it sends them to a device, which it could ask
/// only by waiting.
#[derive(Clone, Debug)]
pub struct RowFacts {
    /// Whether the inputs of every row are one example without padding.
    pub full_inputs: bool,
    /// Whether the targets of every row are one example without padding.
    pub full_targets: bool,
    /// Runs of targets with the runs of inputs that they attend to, if examples lie in order.
    pub cross: Option<Runs>,
}

/// Segment ids of packed rows, int64: 1, 2, ... for the examples of a row, 0 for padding.
#[derive(Debug)]
pub struct Packing {
    /// `[batch, inputs_length]`
    pub encoder_segment_ids: Tensor,
    /// `[batch, targets_length]`
    pub decoder_segment_ids: Tensor,
}

impl Batch {
    /// Converts a batch from the data pipeline to tensors, on the CPU.
    pub fn from_host(batch: &data::Batch) -> Self {
        let tensor = |name: &str, kind: Kind| {
            Tensor::from_slice(batch.ints(name)).view([batch.rows as i64, -1]).to_kind(kind)
        };
        let ids = |name: &str| tensor(name, Kind::Int64);
        let is_packed = batch.feature("decoder_segment_ids").is_some();
        Self {
            encoder_input_tokens: ids("encoder_input_tokens"),
            decoder_input_tokens: ids("decoder_input_tokens"),
            decoder_target_tokens: ids("decoder_target_tokens"),
            decoder_loss_weights: tensor("decoder_loss_weights", Kind::Float),
            packing: is_packed.then(|| Packing {
                encoder_segment_ids: ids("encoder_segment_ids"),
                decoder_segment_ids: ids("decoder_segment_ids"),
            }),
            layout: None,
        }
    }

    /// Returns `(batch, inputs_length, targets_length)`; panics if the features disagree.
    pub fn dims(&self) -> (i64, i64, i64) {
        let (batch, inputs_length) =
            self.encoder_input_tokens.size2().expect("inputs are [batch, inputs_length]");
        let (targets_batch, targets_length) =
            self.decoder_target_tokens.size2().expect("targets are [batch, targets_length]");
        assert_eq!(batch, targets_batch, "inputs and targets have as many rows");
        for feature in [&self.decoder_input_tokens, &self.decoder_loss_weights] {
            assert_eq!(feature.size(), [batch, targets_length], "decoder features are as long");
        }
        (batch, inputs_length, targets_length)
    }

    /// Number of rows.
    pub fn num_rows(&self) -> i64 {
        self.dims().0
    }

    /// The same batch on `device`.
    pub fn to_device(&self, device: Device) -> Self {
        let layout = match (self.encoder_input_tokens.device(), device) {
            (here, there) if here == there => self.layout.clone(),
            (Device::Cpu, Device::Cuda(_)) => Some(RowFacts::of(self, device)),
            _ => None,
        };
        Self { layout, ..self.map(|tensor| tensor.to_device(device)) }
    }

    /// Rows `start .. start + count`, as views: a microbatch.
    pub fn rows(&self, start: i64, count: i64) -> Self {
        self.map(|tensor| tensor.narrow(0, start, count))
    }

    fn map(&self, change: impl Fn(&Tensor) -> Tensor) -> Self {
        Self {
            encoder_input_tokens: change(&self.encoder_input_tokens),
            decoder_input_tokens: change(&self.decoder_input_tokens),
            decoder_target_tokens: change(&self.decoder_target_tokens),
            decoder_loss_weights: change(&self.decoder_loss_weights),
            packing: self.packing.as_ref().map(|packing| Packing {
                encoder_segment_ids: change(&packing.encoder_segment_ids),
                decoder_segment_ids: change(&packing.decoder_segment_ids),
            }),
            layout: None,
        }
    }
}

impl RowFacts {
    /// Computes the layout of a batch on the CPU, with its runs on `device`.
    fn of(batch: &Batch, device: Device) -> Self {
        let ids = |tokens: &Tensor, segment_ids: Option<&Tensor>| {
            let real = tokens.gt(0).to_kind(Kind::Int64);
            segment_ids.map_or_else(|| real.shallow_clone(), |ids| ids * &real)
        };
        let packing = batch.packing.as_ref();
        let inputs =
            ids(&batch.encoder_input_tokens, packing.map(|packing| &packing.encoder_segment_ids));
        let targets =
            ids(&batch.decoder_target_tokens, packing.map(|packing| &packing.decoder_segment_ids));
        let is_full = |ids: &Tensor| ids.eq(1).all().int64_value(&[]) == 1;
        Self {
            full_inputs: is_full(&inputs),
            full_targets: is_full(&targets),
            cross: Runs::between(&targets, &inputs, device),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(inputs: [[i64; 3]; 2], targets: [[i64; 2]; 2], packing: Option<Packing>) -> Batch {
        let targets = Tensor::from_slice2(&targets);
        Batch {
            encoder_input_tokens: Tensor::from_slice2(&inputs),
            decoder_input_tokens: targets.zeros_like(),
            decoder_loss_weights: targets.ones_like(),
            decoder_target_tokens: targets,
            packing,
            layout: None,
        }
    }

    /// Checks whether inputs and targets are full, and the starts of runs of inputs.
    fn check(batch: Batch, full: (bool, bool), expected: Option<&[i32]>) {
        let layout = RowFacts::of(&batch, Device::Cpu);
        assert_eq!((layout.full_inputs, layout.full_targets), full);
        let starts = layout.cross.expect("examples lie in order");
        let starts = starts.starts().map(|starts| Vec::<i32>::try_from(&starts[1]).unwrap());
        assert_eq!(starts.as_deref(), expected);
    }

    #[test]
    fn a_layout_is_that_of_tokens_and_segment_ids() {
        let full = [[5, 6, 7], [8, 9, 5]];
        check(batch(full, [[3, 4], [5, 6]], None), (true, true), None);
        check(batch(full, [[3, 0], [5, 6]], None), (true, false), None);
        let padded = [[5, 6, 7], [8, 0, 0]];
        check(batch(padded, [[3, 4], [5, 6]], None), (false, true), Some(&[0, 3, 4, 6]));
        let packing = Packing {
            encoder_segment_ids: Tensor::from_slice2(&[[1i64, 1, 2], [1, 1, 1]]),
            decoder_segment_ids: Tensor::from_slice2(&[[1i64, 2], [1, 1]]),
        };
        let packed = batch(full, [[3, 4], [5, 6]], Some(packing));
        check(packed, (false, false), Some(&[0, 2, 3, 6]));
    }

    #[test]
    fn a_batch_on_the_host_has_no_layout() {
        let batch = batch([[1; 3]; 2], [[1; 2]; 2], None);
        assert!(batch.to_device(Device::Cpu).layout.is_none());
    }
}
