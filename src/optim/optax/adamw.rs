//! Adam with decoupled weight decay.

use crate::gin::Configurable;

use super::adam::AdamParameters;
use super::expr::param;
use super::formula::{Changes, Formula, FusedNumbers, OptaxSlot, Turn};
use super::{LearningRate, Mask};

/// Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv:1711.05101). Source: optax `alias.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "optax.adamw", alias = "t5x.optimizers.adamw")]
pub struct AdamW {
    /// Those that Adam has too.
    #[gin(flatten)]
    pub adam: AdamParameters,
    /// Decay of all parameters by each update, as a fraction of them, times the learning rate.
    #[gin(default = 1e-4, limit = NonNegative)]
    pub weight_decay: f64,
    /// The parameters that decay; only None, which means all, is supported.
    #[gin(default = None)]
    pub mask: Option<Mask>,
    /// Whether the first moment looks one update ahead (Dozat 2016).
    #[gin(default = false)]
    pub nesterov: bool,
}

impl Formula for AdamW {
    fn learning_rate(&self) -> &LearningRate {
        &self.adam.learning_rate
    }

    fn rate_count(&self) -> &'static str {
        "2/count"
    }

    fn slots(&self) -> Vec<OptaxSlot> {
        self.adam.slots()
    }

    fn counts(&self) -> Vec<&'static str> {
        vec!["0/count"]
    }

    fn changes(&self, turn: &Turn) -> Changes {
        let (step, state) = self.adam.scaled(self.nesterov).step(turn);
        let step = step + param() * self.weight_decay;
        Changes { step: step * -turn.learning_rate, state }
    }

    fn fused(&self) -> Option<FusedNumbers> {
        self.adam.scaled(self.nesterov).fused(self.adam.mu_dtype, self.weight_decay)
    }
}
