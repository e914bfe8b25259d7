//! AdaBelief: Adam with the variance around the mean in place of the mean square.

use crate::gin::Configurable;

use super::LearningRate;
use super::expr::gradient;
use super::formula::{Changes, Formula, OptaxSlot, Turn, zeros};
use super::means::{corrected, first_moment, mean, mean_square};

/// AdaBelief (Zhuang et al. 2020, arXiv:2010.07468): Adam with the mean square of gradients' distance
/// from their mean. Source: optax `_src/alias.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "optax.adabelief", alias = "t5x.optimizers.adabelief")]
pub struct AdaBelief {
    /// A number, or a schedule of the updates made so far.
    pub learning_rate: LearningRate,
    /// Decay of the gradients' mean.
    #[gin(default = 0.9, limit = BelowOne)]
    pub b1: f64,
    /// Decay of the mean of squared distances.
    #[gin(default = 0.999, limit = BelowOne)]
    pub b2: f64,
    /// Added to the root of the second moment.
    #[gin(default = 1e-16, limit = NonNegative)]
    pub eps: f64,
    /// Added to the second moment by each update.
    #[gin(default = 1e-16, limit = NonNegative)]
    pub eps_root: f64,
    /// Whether the first moment looks one update ahead (Dozat 2016).
    #[gin(default = false)]
    pub nesterov: bool,
}

impl Formula for AdaBelief {
    fn learning_rate(&self) -> &LearningRate {
        &self.learning_rate
    }

    fn rate_count(&self) -> &'static str {
        "1/count"
    }

    fn slots(&self) -> Vec<OptaxSlot> {
        vec![zeros("0/mu", None), zeros("0/nu", None)]
    }

    fn counts(&self) -> Vec<&'static str> {
        vec!["0/count"]
    }

    fn changes(&self, turn: &Turn) -> Changes {
        let mu = mean(0, gradient(), self.b1);
        let nu = mean_square(1, &(gradient() - mu.clone()), self.b2) + self.eps_root;
        let first = first_moment(&mu, self.b1, self.nesterov, turn.number());
        let step = first / (corrected(&nu, self.b2, turn.number()).sqrt() + self.eps);
        Changes { step: step * -turn.learning_rate, state: vec![mu, nu] }
    }
}
