//! What a sequence-to-sequence model reads in one step, on its device.

use tch::{Device, Kind, Tensor};

use crate::data;

/// The features of SeqIO's `EncDecFeatureConverter`. Tokens are int64, padding is 0.
#[derive(Debug)]
pub struct Batch {
    /// `[batch, inputs_length]`
    pub encoder_input_tokens: Tensor,
    /// `[batch, targets_length]`: the targets moved right by one, 0 at the start of each example.
    pub decoder_input_tokens: Tensor,
    /// `[batch, targets_length]`
    pub decoder_target_tokens: Tensor,
    /// float32 `[batch, targets_length]`: how much each target counts.
    pub decoder_loss_weights: Tensor,
    /// Which example each position belongs to, where rows hold several.
    pub packing: Option<Packing>,
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
    /// The tensors of a batch from the data pipeline, on the CPU.
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
        }
    }

    /// `(batch, inputs_length, targets_length)`; panics where the features disagree.
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
        self.map(|tensor| tensor.to_device(device))
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
        }
    }
}
