//! Batches without padding, of tokens that mean nothing.

use tch::{Device, Kind, Tensor};

use crate::models::memory::StepShape;
use crate::models::{Batch, Packing};

/// Whether rows look packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowKind {
    /// As one example a row.
    Plain,
    /// As packed rows are, of which each happens to hold one example.
    Packed,
}

/// A batch of that shape, on the CPU like those of the data pipeline, with ids below `vocab_size`; the same for
/// the same seed.
pub(super) fn batch(shape: StepShape, vocab_size: usize, kind: RowKind, seed: u64) -> Batch {
    tch::manual_seed(seed as i64);
    let size = |length: usize| [shape.rows as i64, length as i64];
    let tokens = |length: usize| {
        // 0 is padding.
        Tensor::randint_low(1, vocab_size as i64, size(length), (Kind::Int64, Device::Cpu))
    };
    let inputs = tokens(shape.inputs_length);
    let targets = tokens(shape.targets_length);
    let begun = targets.roll([1], [1]);
    let _ = begun.select(1, 0).zero_();
    Batch {
        decoder_input_tokens: begun,
        decoder_loss_weights: Tensor::ones(targets.size(), (Kind::Float, Device::Cpu)),
        packing: (kind == RowKind::Packed).then(|| Packing {
            encoder_segment_ids: inputs.ones_like(),
            decoder_segment_ids: targets.ones_like(),
        }),
        layout: None,
        encoder_input_tokens: inputs,
        decoder_target_tokens: targets,
    }
}
