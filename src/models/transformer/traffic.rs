//! The activations that processes along an axis of the mesh exchange in a training step, by arithmetic alone.

use super::spec::{StackEnd, StackSpec, TransformerSpec};
use crate::models::contract::memory::StepShape;
use crate::models::parts::{LearnedRows, Tokens};
use crate::nn::{NormKind, RematPolicy};

impl TransformerSpec {
    /// Returns the bytes that are summed over the model axis for a forward and a backward pass over rows of that shape, a
    /// gather and a scatter of parts counting as one sum. `splits_length` says that the stream is divided along its
    /// length, and `are_spread` that layers are made again because their parameters are. Without a trained embedding or
    /// trained rows before it no gradient passes the first part of a stack.
    pub fn summed_bytes(
        &self,
        shape: &StepShape,
        (splits_length, are_spread): (bool, bool),
        is_trained: &dyn Fn(&str) -> bool,
    ) -> f64 {
        let dims = &self.last.dims;
        let width = dims.emb_dim as f64 * dims.dtype.size() as f64;
        let stacks = self.stacks_of(shape).map(|(stack, tokens)| {
            let num_parts = stack.num_parts() as f64;
            // The sum after each part, that of gradients before it, and in a layer that is made again the first once
            // more, as far as it is not kept: the scatter after a part is, the gather before it is not.
            let again = match (stack.dims.remat_policy, are_spread) {
                (RematPolicy::Full, _) => 1.0,
                (RematPolicy::None, false) => 0.0,
                _ if splits_length => 0.5,
                _ => 0.0,
            };
            let has_rows = self.stacks().next() == Some(stack);
            let rows = self.learned_rows.as_ref().filter(|_| has_rows);
            let mut rows = rows.into_iter().flat_map(LearnedRows::params);
            let passes =
                is_trained(&self.tokens.table()) || rows.any(|param| is_trained(&param.name));
            let before = if passes { 0.0 } else { 1.0 };
            let sums = num_parts * (2.0 + again) - before;
            // Gradients at the stack's end, and their gather at its beginning.
            let ends = if splits_length { 1.5 } else { 1.0 };
            let end = stack.last_norm().is_none_or(|norm| is_trained(&format!("{norm}/scale")));
            let has_scales = splits_length && end;
            let scales = if has_scales { of_stream(stack, num_parts) * width } else { 0.0 };
            let factors = stack.lora.iter().flat_map(|lora| lora.params(&stack.layer_params()));
            // A factor of which each process has all columns, or all rows.
            let whole = factors.filter(|factor| factor.axes.contains(&"embed"));
            let numbers = whole.map(|factor| factor.num_elements()).sum::<u64>();
            // The lookup of the stack's tokens.
            tokens.count() * width * (sums + ends + 1.0)
                + scales
                + (numbers * stack.dims.dtype.size()) as f64
                + stack.sum_of_parts(|part| part.shared_gradients())
        });
        // Gradients before logits that come after work that each process does completely.
        let of_ends = self.encoder_ends.as_ref().map_or(0, |_| self.num_predicted(shape));
        stacks.sum::<f64>() + of_ends as f64 * width
    }

    /// Returns the bytes of the buffers of experts that divided experts exchange for a forward and a backward pass over
    /// rows of that shape: to the experts and back, and the gradients of both. A layer that is made again exchanges once
    /// more what it has not kept.
    pub fn exchanged_bytes(&self, shape: &StepShape) -> f64 {
        let of_stack = |(stack, tokens): (&StackSpec, Tokens)| {
            num_exchanges(stack) * stack.sum_of_parts(|part| part.exchanged(tokens))
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

/// Returns the parameters as wide as the stream that work on it reads: scales and biases of norms, and biases of projections.
fn of_stream(stack: &StackSpec, num_parts: f64) -> f64 {
    let stream = stack.dims.stream();
    let of_norm = if stream.norm.kind == NormKind::Layer { 2.0 } else { 1.0 };
    let of_part = of_norm + if stream.has_biases { 1.0 } else { 0.0 };
    let of_end = if stack.end == StackEnd::Open { 0.0 } else { of_norm };
    num_parts * of_part + of_end
}

/// Exchanges of a layer with experts.
fn num_exchanges(stack: &StackSpec) -> f64 {
    if stack.dims.remat_policy == RematPolicy::Full { 6.0 } else { 4.0 }
}
