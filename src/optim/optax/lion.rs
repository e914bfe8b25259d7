//! Lion: the sign of a mean of gradients.

use crate::gin::Configurable;
use crate::nn::StateDtype;

use super::expr::{gradient, param};
use super::formula::{Changes, Formula, OptaxSlot, Turn, zeros};
use super::means::mean;
use super::{LearningRate, Mask};

/// Lion (Chen et al. 2023, arXiv:2302.06675): each number changes by the learning rate, in the
/// direction of a mean of gradients. Source: optax `_src/alias.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "optax.lion", alias = "t5x.optimizers.lion")]
pub struct Lion {
    /// A number, or a schedule of the updates made so far.
    pub learning_rate: LearningRate,
    /// Weight of the stored mean in the direction of the step.
    #[gin(default = 0.9, limit = BelowOne)]
    pub b1: f64,
    /// Decay of the stored mean of gradients.
    #[gin(default = 0.99, limit = BelowOne)]
    pub b2: f64,
    /// Storage format of the mean; None means that of the parameters, float32.
    #[gin(default = None)]
    pub mu_dtype: Option<StateDtype>,
    /// Decay of all parameters by each update, as a fraction of them, times the learning rate.
    #[gin(default = 1e-3, limit = NonNegative)]
    pub weight_decay: f64,
    /// The parameters that decay; only None, which means all, is supported.
    #[gin(default = None)]
    pub mask: Option<Mask>,
}

impl Formula for Lion {
    fn learning_rate(&self) -> &LearningRate {
        &self.learning_rate
    }

    fn rate_count(&self) -> &'static str {
        "2/count"
    }

    fn slots(&self) -> Vec<OptaxSlot> {
        vec![zeros("0/mu", self.mu_dtype)]
    }

    fn counts(&self) -> Vec<&'static str> {
        vec!["0/count"]
    }

    fn changes(&self, turn: &Turn) -> Changes {
        let direction = mean(0, gradient(), self.b1).sign();
        let step = direction + param() * self.weight_decay;
        let mu = mean(0, gradient(), self.b2);
        Changes { step: step * -turn.learning_rate, state: vec![mu] }
    }
}
