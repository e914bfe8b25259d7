//! Yogi: Adam whose second moment changes by bounded steps.

use crate::gin::Configurable;
use crate::nn::Dtype;

use super::LearningRate;
use super::expr::{gradient, slot};
use super::formula::{Changes, Formula, OptaxSlot, Turn};
use super::means::{corrected, mean};

/// Yogi (Zaheer et al. 2018): Adam whose second moment changes by a fraction of the squared gradient.
/// Source: optax `_src/alias.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "optax.yogi", alias = "t5x.optimizers.yogi")]
pub struct Yogi {
    /// A number, or a schedule of the updates made so far.
    pub learning_rate: LearningRate,
    /// Decay of the gradients' mean.
    #[gin(default = 0.9, limit = BelowOne)]
    pub b1: f64,
    /// 1 minus the fraction of the squared gradient by which the second moment changes.
    #[gin(default = 0.999, limit = BelowOne)]
    pub b2: f64,
    /// Added to the root of the second moment.
    #[gin(default = 1e-3, limit = NonNegative)]
    pub eps: f64,
}

impl Formula for Yogi {
    fn learning_rate(&self) -> &LearningRate {
        &self.learning_rate
    }

    fn rate_count(&self) -> &'static str {
        "1/count"
    }

    fn slots(&self) -> Vec<OptaxSlot> {
        // Optax's default of `scale_by_yogi`, which the alias cannot change.
        let (dtype, initial) = (Dtype::Float32, 1e-6);
        ["0/mu", "0/nu"].map(|name| OptaxSlot { name, dtype, initial }).into()
    }

    fn counts(&self) -> Vec<&'static str> {
        vec!["0/count"]
    }

    fn changes(&self, turn: &Turn) -> Changes {
        let mu = mean(0, gradient(), self.b1);
        let square = gradient().square();
        let away = (slot(1) - square.clone()).sign() * (1.0 - self.b2);
        let nu = slot(1) - away * square;
        let root = corrected(&nu, self.b2, turn.number()).sqrt() + self.eps;
        let step = corrected(&mu, self.b1, turn.number()) / root;
        Changes { step: step * -turn.learning_rate, state: vec![mu, nu] }
    }
}
