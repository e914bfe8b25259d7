//! LAMB: Adam with steps in proportion to the norm of each parameter.

use crate::gin::Configurable;

use super::adam::ScaleByAdam;
use super::expr::param;
use super::formula::{Changes, Formula, OptaxSlot, Turn, zeros};
use super::trust_ratio::TrustRatio;
use super::{LearningRate, Mask};

/// LAMB (You et al. 2020, arXiv:1904.00962): AdamW with steps in proportion to the norm of each
/// parameter. Source: optax `_src/alias.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "optax.lamb", alias = "t5x.optimizers.lamb")]
pub struct Lamb {
    /// A number, or a schedule of the updates made so far.
    pub learning_rate: LearningRate,
    /// Decay of the gradients' mean.
    #[gin(default = 0.9, limit = BelowOne)]
    pub b1: f64,
    /// Decay of the squared gradients' mean.
    #[gin(default = 0.999, limit = BelowOne)]
    pub b2: f64,
    /// Added to the root of the second moment.
    #[gin(default = 1e-6, limit = NonNegative)]
    pub eps: f64,
    /// Added to the second moment under the root.
    #[gin(default = 0.0, limit = NonNegative)]
    pub eps_root: f64,
    /// Decay of all parameters by each update, as a fraction of them, times the learning rate.
    #[gin(default = 0.0, limit = NonNegative)]
    pub weight_decay: f64,
    /// The parameters that decay; only None, which means all, is supported.
    #[gin(default = None)]
    pub mask: Option<Mask>,
}

impl Formula for Lamb {
    fn learning_rate(&self) -> &LearningRate {
        &self.learning_rate
    }

    fn rate_count(&self) -> &'static str {
        "3/count"
    }

    fn slots(&self) -> Vec<OptaxSlot> {
        vec![zeros("0/mu", None), zeros("0/nu", None)]
    }

    fn counts(&self) -> Vec<&'static str> {
        vec!["0/count"]
    }

    fn changes(&self, turn: &Turn) -> Changes {
        let Self { b1, b2, eps, eps_root, .. } = *self;
        let adam = ScaleByAdam { b1, b2, eps, eps_root, nesterov: false };
        let (step, state) = adam.step(turn);
        let step = TrustRatio::default().scale(step + param() * self.weight_decay);
        Changes { step: step * -turn.learning_rate, state }
    }
}
