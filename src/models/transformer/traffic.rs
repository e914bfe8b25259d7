//! The activations that processes along a model axis exchange in a training step, by arithmetic alone.

use super::spec::TransformerSpec;
use crate::models::memory::StepShape;
use crate::nn::{Dtype, RematPolicy};

impl TransformerSpec {
    /// Returns the bytes that are summed over the model axis for a forward and a backward pass over rows of that shape, a
    /// gather and a scatter of parts counting as one sum. `splits_length` says that the stream is divided along its
    /// length, and `are_spread` that layers are made again because their parameters are.
    pub fn summed_bytes(&self, shape: StepShape, splits_length: bool, are_spread: bool) -> f64 {
        let StepShape { rows, inputs_length, targets_length } = shape;
        let dims = &self.decoder.dims;
        let size = match dims.dtype {
            Dtype::Float32 => 4,
            Dtype::Bfloat16 => 2,
        };
        let width = (dims.emb_dim * size) as f64;
        let stream = |length: usize| (rows * length) as f64 * width;
        let encoder = self.encoder.iter().map(|stack| (stack, inputs_length));
        let stacks = encoder.chain([(&self.decoder, targets_length)]).map(|(stack, length)| {
            let blocks = stack.num_blocks() as f64;
            // The sum after each block, that of gradients before it, and in a layer that is made again the first once
            // more, as far as it is not kept: the scatter after a block is, the gather before it is not.
            let again = match (stack.dims.remat_policy, are_spread) {
                (RematPolicy::Full, _) => 1.0,
                (RematPolicy::None, false) => 0.0,
                _ if splits_length => 0.5,
                _ => 0.0,
            };
            let sums = blocks * (2.0 + again);
            // Gradients at the stack's end, and their gather at its beginning.
            let ends = if splits_length { 1.5 } else { 1.0 };
            let scales = if splits_length { (blocks + 1.0) * width } else { 0.0 };
            // The lookup of the stack's tokens.
            stream(length) * (sums + ends + 1.0) + scales
        });
        stacks.sum()
    }
}
