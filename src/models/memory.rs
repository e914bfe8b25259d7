//! An estimate of the memory that a training step needs on one device, by arithmetic alone.
//!
//! Parameters, gradients and optimizer state are exact. Activations count what the backward pass
//! of each layer keeps; they leave out libtorch's own workspace and fragmentation.

use super::t5::T5Config;

/// The extent of what one step (or microbatch) computes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepShape {
    /// Rows.
    pub rows: usize,
    /// Encoder positions of a row.
    pub inputs_length: usize,
    /// Decoder positions of a row.
    pub targets_length: usize,
}

/// Bytes that a training step needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Float32 parameters, with the copies cast to the activations' format.
    pub parameters: u64,
    /// Float32 gradients.
    pub gradients: u64,
    /// The optimizer's arrays.
    pub optimizer: u64,
    /// What the backward pass needs of the forward pass.
    pub activations: u64,
}

impl Estimate {
    /// The estimate for a network, an optimizer state of that many bytes, and a step.
    pub fn new(config: &T5Config, optimizer: u64, shape: StepShape) -> Self {
        let params = config.num_params();
        let cast = if config.dtype.size() < 4 { params * config.dtype.size() } else { 0 };
        Self {
            parameters: params * 4 + cast,
            gradients: params * 4,
            optimizer,
            activations: activations(config, shape),
        }
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.parameters + self.gradients + self.optimizer + self.activations
    }
}

fn activations(config: &T5Config, shape: StepShape) -> u64 {
    let [rows, inputs, targets] =
        [shape.rows, shape.inputs_length, shape.targets_length].map(|extent| extent as u64);
    let encoder = Positions { rows, queries: inputs, keys: inputs };
    let decoder = Positions { rows, queries: targets, keys: targets };
    let cross = Positions { rows, queries: targets, keys: inputs };
    let encoder_layer = attention(config, encoder) + mlp(config, rows * inputs);
    let decoder_layer =
        attention(config, decoder) + attention(config, cross) + mlp(config, rows * targets);
    // Logits and their gradient, float32.
    let logits = 2 * 4 * rows * targets * config.vocab_size as u64;
    config.num_encoder_layers as u64 * encoder_layer
        + config.num_decoder_layers as u64 * decoder_layer
        + logits
}

/// The extents of one attention.
#[derive(Clone, Copy)]
struct Positions {
    rows: u64,
    queries: u64,
    keys: u64,
}

/// The normed input twice (float32 and cast), query, key, value, mixed values and result; scores and
/// weights.
fn attention(config: &T5Config, at: Positions) -> u64 {
    let [emb_dim, joined, heads] =
        [config.emb_dim, config.num_heads * config.head_dim, config.num_heads].map(|d| d as u64);
    let size = config.dtype.size();
    let inputs = at.rows * at.queries * emb_dim * (4 + 2 * size);
    let projections = at.rows * (2 * at.queries + 2 * at.keys) * joined * size;
    let weights = at.rows * heads * at.queries * at.keys * (4 + size);
    inputs + projections + weights
}

/// The normed input twice and the result; each projection before and after its activation, and
/// their product.
fn mlp(config: &T5Config, positions: u64) -> u64 {
    let size = config.dtype.size();
    let branches = config.mlp_activations.len() as u64;
    let inputs = positions * config.emb_dim as u64 * (4 + 2 * size);
    inputs + positions * config.mlp_dim as u64 * size * (2 * branches + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::{Activation, Dtype};

    #[test]
    fn activations_grow_with_rows_and_parameters_do_not() {
        let config = T5Config {
            vocab_size: 128,
            dtype: Dtype::Float32,
            emb_dim: 16,
            num_heads: 2,
            num_encoder_layers: 2,
            num_decoder_layers: 2,
            head_dim: 8,
            mlp_dim: 32,
            mlp_activations: vec![Activation::Relu],
            dropout_rate: 0.0,
            logits_via_embedding: true,
            float32_attention_logits: false,
        };
        let at = |rows| {
            Estimate::new(&config, 7, StepShape { rows, inputs_length: 10, targets_length: 5 })
        };
        assert_eq!(at(4).activations, 2 * at(2).activations);
        assert_eq!(at(4).parameters, 4 * config.num_params());
        assert_eq!(at(4).parameters, at(2).parameters);
    }
}
