//! The sums of a batch from which every training metric is computed. They are counted on the
//! device, beside the loss, and read from it once a step.

use std::ops::AddAssign;

/// The sums over a step, or several. T5X `models.py`, `compute_base_metrics`.
#[derive(Clone, Debug, PartialEq)]
pub struct LossSums {
    /// The loss that was minimized, z-loss included.
    pub loss: f64,
    /// The part of it that is z-loss.
    pub z_loss: f64,
    /// Targets of any weight that are the most probable token.
    pub correct: f64,
    /// Targets of any weight.
    pub num_weighted_tokens: f64,
    /// Weights of all targets, after normalization.
    pub weight_sum: f64,
    /// Rows.
    pub num_sequences: u64,
    /// Target positions, padding included.
    pub num_target_tokens: u64,
    /// The encoder's tokens.
    pub encoder: FeatureSums,
    /// The decoder's tokens.
    pub decoder: FeatureSums,
}

/// Counts of the positions of one feature.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureSums {
    /// T5X's name of it in metrics: `encoder` in packed batches, else `encoder_input_tokens`.
    pub name: &'static str,
    /// Number of examples, with each example of a packed row counted.
    pub num_examples: f64,
    /// Positions that are not padding.
    pub num_non_padding: f64,
    /// All positions.
    pub num_positions: u64,
}

/// Sums over microbatches or steps.
impl AddAssign<&LossSums> for LossSums {
    fn add_assign(&mut self, other: &LossSums) {
        self.loss += other.loss;
        self.z_loss += other.z_loss;
        self.correct += other.correct;
        self.num_weighted_tokens += other.num_weighted_tokens;
        self.weight_sum += other.weight_sum;
        self.num_sequences += other.num_sequences;
        self.num_target_tokens += other.num_target_tokens;
        self.encoder += &other.encoder;
        self.decoder += &other.decoder;
    }
}

impl AddAssign<&FeatureSums> for FeatureSums {
    fn add_assign(&mut self, other: &FeatureSums) {
        self.num_examples += other.num_examples;
        self.num_non_padding += other.num_non_padding;
        self.num_positions += other.num_positions;
    }
}
