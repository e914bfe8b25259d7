//! LARS: momentum with steps in proportion to the norm of each parameter.

use crate::gin::Configurable;

use super::LearningRate;
use super::expr::{gradient, param};
use super::formula::{Changes, Formula, OptaxSlot, Turn, zeros};
use super::sgd::Trace;
use super::trust_ratio::TrustRatio;

/// LARS (You et al. 2017, arXiv:1708.03888): momentum with steps in proportion to the norm of each
/// parameter. Source: optax `_src/alias.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "optax.lars", alias = "t5x.optimizers.lars")]
pub struct Lars {
    /// A number, or a schedule of the updates made so far.
    pub learning_rate: LearningRate,
    /// Added to the gradient, as a fraction of the parameter.
    #[gin(default = 0.0, limit = NonNegative)]
    pub weight_decay: f64,
    /// Whether all parameters decay, or none; optax's choice of some is not supported.
    #[gin(default = true)]
    pub weight_decay_mask: bool,
    /// The norm of a step relative to its parameter's, before the learning rate.
    #[gin(default = 0.001)]
    pub trust_coefficient: f64,
    /// Added to the gradient's norm.
    #[gin(default = 0.0, limit = NonNegative)]
    pub eps: f64,
    /// Whether the steps of all parameters are in proportion to their norm, or of none; optax's
    /// choice of some is not supported.
    #[gin(default = true)]
    pub trust_ratio_mask: bool,
    /// Decay of the sum of steps.
    #[gin(default = 0.9, limit = NonNegative)]
    pub momentum: f64,
    /// Whether the momentum looks one update ahead.
    #[gin(default = false)]
    pub nesterov: bool,
}

impl Formula for Lars {
    fn learning_rate(&self) -> &LearningRate {
        &self.learning_rate
    }

    fn rate_count(&self) -> &'static str {
        "2/count"
    }

    fn slots(&self) -> Vec<OptaxSlot> {
        vec![zeros("3/trace", None)]
    }

    fn changes(&self, turn: &Turn) -> Changes {
        let Self { trust_coefficient, eps, nesterov, .. } = *self;
        let step = match self.weight_decay_mask {
            true => gradient() + param() * self.weight_decay,
            false => gradient(),
        };
        let step = match self.trust_ratio_mask {
            true => TrustRatio { min_norm: 0.0, trust_coefficient, eps }.scale(step),
            false => step,
        };
        let trace = Trace { slot: 0, decay: self.momentum, nesterov };
        let (step, state) = trace.step(step * -turn.learning_rate);
        Changes { step, state }
    }
}
