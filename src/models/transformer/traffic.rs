//! The activations that processes along an axis of the mesh exchange in a training step, by arithmetic alone.

use super::spec::{FeedForwardSpec, StackSpec, TransformerSpec};
use crate::models::contract::memory::StepShape;
use crate::nn::RematPolicy;

impl TransformerSpec {
    /// Returns the bytes that are summed over the model axis for a forward and a backward pass over rows of that shape, a
    /// gather and a scatter of parts counting as one sum. `splits_length` says that the stream is divided along its
    /// length, and `are_spread` that layers are made again because their parameters are.
    pub fn summed_bytes(&self, shape: &StepShape, splits_length: bool, are_spread: bool) -> f64 {
        let dims = &self.last.dims;
        let width = dims.emb_dim as f64 * dims.dtype.size() as f64;
        let stream = |length: usize| (shape.rows * length) as f64 * width;
        let stacks = self.stacks_of(shape).map(|(stack, length, _)| {
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
            stream(length) * (sums + ends + 1.0) + scales + routers(stack)
        });
        stacks.sum()
    }

    /// Returns the bytes of the buffers of experts that divided experts exchange for a forward and a backward pass over
    /// rows of that shape: to the experts and back, and the gradients of both. A layer that is made again exchanges once
    /// more what it has not kept.
    pub fn exchanged_bytes(&self, shape: &StepShape) -> f64 {
        let StepShape { rows, parts, .. } = *shape;
        let of_stack = |(stack, length, _): (&StackSpec, usize, usize)| {
            let buffers = |block: &FeedForwardSpec| {
                let size = block.experts.as_ref().map_or(0, |experts| experts.dtype.size());
                block.num_places((rows, length), parts) * stack.dims.emb_dim as f64 * size as f64
            };
            let kinds = stack.layer_kinds().into_iter();
            let of_layers =
                kinds.map(|(count, blocks)| count as f64 * blocks.iter().map(buffers).sum::<f64>());
            num_exchanges(stack) * of_layers.sum::<f64>()
        };
        self.stacks_of(shape).map(of_stack).sum()
    }

    /// Returns the number of these exchanges.
    pub fn num_exchanges(&self) -> f64 {
        let num_sparse = |stack: &StackSpec| {
            stack.sparse.as_ref().map_or(0, |sparse| sparse.count(stack.num_layers)) as f64
        };
        self.stacks().map(|stack| num_exchanges(stack) * num_sparse(stack)).sum()
    }
}

/// Bytes of the gradients of routers, which all processes along a model axis share.
fn routers(stack: &StackSpec) -> f64 {
    let of_block = |block: &FeedForwardSpec| {
        let Some(experts) = &block.experts else { return 0 };
        let rows = stack.dims.emb_dim + usize::from(experts.router.use_bias);
        (rows * experts.num_experts) as u64 * experts.router.weights_dtype.size()
    };
    let kinds = stack.layer_kinds().into_iter();
    let bytes =
        kinds.map(|(count, blocks)| count as u64 * blocks.iter().map(of_block).sum::<u64>());
    bytes.sum::<u64>() as f64
}

/// Exchanges of a layer with experts.
fn num_exchanges(stack: &StackSpec) -> f64 {
    if stack.dims.remat_policy == RematPolicy::Full { 6.0 } else { 4.0 }
}
