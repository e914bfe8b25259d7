//! Gradient descent with noise, which is that of JAX's random generator.

use crate::gin::Configurable;

use super::LearningRate;
use super::expr::{gradient, normal};
use super::formula::{Changes, Formula, OptaxSlot, Turn};
use super::threefry::Key;

/// Stochastic gradient descent with normal noise on the gradients, whose variance falls with the number of updates
/// (Neelakantan et al. 2015, arXiv:1511.06807). The noise is optax's own. Source: optax `_src/alias.py`,
/// `transforms/_adding.py`.
///
/// Optax's state holds a key beside the count. T5X cannot save it with optax 0.2.8: its `Checkpointer` ends with a
/// TypeError, since the key is no array of numbers. Here the key follows from `key` and the count, and only the count is saved.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "optax.noisy_sgd", alias = "t5x.optimizers.noisy_sgd")]
pub struct NoisySgd {
    /// A number, or a schedule of the updates made so far.
    pub learning_rate: LearningRate,
    /// Variance of the noise of the first update.
    #[gin(default = 0.01)]
    pub eta: f64,
    /// Exponent of the variance's decay: it is eta / updates^gamma.
    #[gin(default = 0.55)]
    pub gamma: f64,
    /// Seed of the noise; None means `seed`.
    #[gin(default = None)]
    pub key: Option<i64>,
    /// Optax's older name of `key`; None means 0.
    #[gin(default = None)]
    pub seed: Option<i64>,
}

impl NoisySgd {
    /// Returns the key of the noise after `count` updates. The chain of keys is followed from the first,
    /// which takes 20 ms after a million updates.
    fn sample_key(&self, count: i64) -> Key {
        let first = Key::new(self.key.or(self.seed).unwrap_or(0));
        (0..count).fold(first, |key, _| key.split(0)).split(1)
    }
}

impl Formula for NoisySgd {
    fn learning_rate(&self) -> &LearningRate {
        &self.learning_rate
    }

    fn rate_count(&self) -> &'static str {
        "1/count"
    }

    fn slots(&self) -> Vec<OptaxSlot> {
        Vec::new()
    }

    fn counts(&self) -> Vec<&'static str> {
        vec!["0/count"]
    }

    /// Each parameter has its own part of the noise.
    fn needs_all_params(&self) -> bool {
        true
    }

    fn changes(&self, turn: &Turn) -> Changes {
        let variance = self.eta / (turn.number() as f64).powf(self.gamma);
        let noise = normal(self.sample_key(turn.count)) * variance.sqrt();
        Changes { step: (gradient() + noise) * -turn.learning_rate, state: Vec::new() }
    }
}
