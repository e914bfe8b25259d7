//! Adagrad: gradients over the root of the sum of all their squares.

use crate::gin::Configurable;
use crate::nn::Dtype;

use super::LearningRate;
use super::expr::{gradient, slot};
use super::formula::{Changes, Formula, OptaxSlot, Turn};

/// Adagrad (Duchi et al. 2011): gradients over the root of the sum of all their squares. Source: optax
/// `_src/alias.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "optax.adagrad", alias = "t5x.optimizers.adagrad")]
pub struct Adagrad {
    /// A number, or a schedule of the updates made so far.
    pub learning_rate: LearningRate,
    /// The sum of squares before the first update.
    #[gin(default = 0.1)]
    pub initial_accumulator_value: f64,
    /// Added to the sum under the root.
    #[gin(default = 1e-7, limit = NonNegative)]
    pub eps: f64,
}

impl Formula for Adagrad {
    fn learning_rate(&self) -> &LearningRate {
        &self.learning_rate
    }

    fn rate_count(&self) -> &'static str {
        "1/count"
    }

    fn slots(&self) -> Vec<OptaxSlot> {
        let (dtype, initial) = (Dtype::Float32, self.initial_accumulator_value);
        vec![OptaxSlot { name: "0/sum_of_squares", dtype, initial }]
    }

    fn changes(&self, turn: &Turn) -> Changes {
        let sum = gradient().square() + slot(0);
        let step = gradient() / (sum.clone() + self.eps).sqrt();
        let step = step.if_positive(sum.clone(), 0.0);
        Changes { step: step * -turn.learning_rate, state: vec![sum] }
    }
}
