//! The sums of a batch from which every training metric is computed. They are counted on the
//! device, beside the loss, and read from it once a step.

use std::collections::BTreeMap;
use std::ops::AddAssign;

/// Names of the sums that models of tokens count.
pub mod sum {
    /// The loss that was minimized, z-loss included.
    pub const LOSS: &str = "loss";
    /// The part of it that is z-loss.
    pub const Z_LOSS: &str = "z_loss";
    /// Targets of any weight that are the most probable token.
    pub const CORRECT: &str = "correct";
    /// Targets of any weight.
    pub const NUM_WEIGHTED_TOKENS: &str = "num_weighted_tokens";
    /// Weights of all targets, after normalization.
    pub const WEIGHT_SUM: &str = "weight_sum";
    /// The part of the loss that comes from masked tokens, where others come from elsewhere; with the names of t5-experiments.
    pub const MASKED_TOKENS_LOSS: &str = "loss_mlm";
    /// The part of the loss that comes from the order of two texts.
    pub const NEXT_SENTENCE_LOSS: &str = "loss_nsp";
    /// Pairs of texts whose order is recognized.
    pub const NEXT_SENTENCE_CORRECT: &str = "correct_nsp";
    /// Pairs of texts.
    pub const NUM_SENTENCE_PAIRS: &str = "num_nsp";
    /// The part of the loss that balances the load of experts.
    pub const AUXILIARY_LOSS: &str = "experts/auxiliary_loss";
    /// The part of the loss that keeps the scores of routers small.
    pub const ROUTER_Z_LOSS: &str = "experts/router_z_loss";
    /// The metrics of experts, each a mean, in the order of a router's report: the parts of the loss, the share of tokens
    /// that no expert computes, the share of experts' places with a token, and the mean weight of a token at an expert.
    pub const OF_EXPERTS: [&str; 5] = [
        AUXILIARY_LOSS,
        ROUTER_Z_LOSS,
        "experts/fraction_tokens_left_behind",
        "experts/expert_usage",
        "experts/router_confidence",
    ];
}

/// The sums over a step, or several. T5X `models.py`, `compute_base_metrics`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LossSums {
    /// Sums by name: those of [`sum`], and any others, which become metrics of their own names.
    pub sums: BTreeMap<&'static str, f64>,
    /// Rows.
    pub num_sequences: u64,
    /// Target positions, padding included.
    pub num_target_tokens: u64,
    /// Counts of each feature's tokens.
    pub features: Vec<FeatureSums>,
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

impl LossSums {
    /// The sum of that name, 0 if the model does not count it.
    pub fn get(&self, name: &str) -> f64 {
        self.sums.get(name).copied().unwrap_or(0.0)
    }

    /// Passes every number that adds up over batches to `change`, always in the same order.
    pub fn each(&mut self, change: &mut dyn FnMut(&mut f64)) {
        self.sums.values_mut().for_each(&mut *change);
        for count in [&mut self.num_sequences, &mut self.num_target_tokens] {
            changed(count, change);
        }
        for feature in &mut self.features {
            change(&mut feature.num_examples);
            change(&mut feature.num_non_padding);
            changed(&mut feature.num_positions, change);
        }
    }
}

fn changed(count: &mut u64, change: &mut dyn FnMut(&mut f64)) {
    let mut value = *count as f64;
    change(&mut value);
    *count = value as u64;
}

/// Sums over microbatches or steps.
impl AddAssign<&LossSums> for LossSums {
    fn add_assign(&mut self, other: &LossSums) {
        for (name, value) in &other.sums {
            *self.sums.entry(name).or_default() += value;
        }
        self.num_sequences += other.num_sequences;
        self.num_target_tokens += other.num_target_tokens;
        for (own, other) in self.features.iter_mut().zip(&other.features) {
            *own += other;
        }
    }
}

impl AddAssign<&FeatureSums> for FeatureSums {
    fn add_assign(&mut self, other: &FeatureSums) {
        self.num_examples += other.num_examples;
        self.num_non_padding += other.num_non_padding;
        self.num_positions += other.num_positions;
    }
}
