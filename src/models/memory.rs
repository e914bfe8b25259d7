//! The bytes that a training step needs on one device, as each family estimates them.

/// The part of a batch that one device computes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepShape {
    /// Rows of a microbatch.
    pub rows: usize,
    /// Length of the encoder's inputs, 0 without an encoder.
    pub inputs_length: usize,
    /// Length of the decoder's rows.
    pub targets_length: usize,
}

/// The gradients that are in memory at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gradients {
    /// Those of all parameters: microbatches add up, or an update needs all of them.
    Together,
    /// A few: each parameter is updated as soon as its gradient is complete.
    OneByOne,
}

/// Bytes that a step needs at its peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Parameters, with their copies in the compute dtype.
    pub parameters: u64,
    /// Gradients that are in memory at once.
    pub gradients: u64,
    /// The state of the optimizer.
    pub optimizer: u64,
    /// Tensors that the forward pass keeps for the backward pass, and the largest temporary
    /// tensors.
    pub activations: u64,
}

impl Estimate {
    /// Returns the sum of all parts.
    pub fn total(&self) -> u64 {
        [self.gradients, self.optimizer, self.activations]
            .into_iter()
            .fold(self.parameters, u64::saturating_add)
    }
}
