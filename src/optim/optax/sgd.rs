//! Stochastic gradient descent, and the momentum that LARS and RMSProp share with it.

use crate::gin::Configurable;
use crate::nn::StateDtype;

use super::LearningRate;
use super::expr::{Expr, gradient, scaled_slot};
use super::formula::{Changes, Formula, OptaxSlot, Turn, zeros};

/// Stochastic gradient descent, with momentum if asked (Sutskever et al. 2013). Source: optax
/// `_src/alias.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "optax.sgd", alias = "t5x.optimizers.sgd")]
pub struct Sgd {
    /// A number, or a schedule of the updates made so far.
    pub learning_rate: LearningRate,
    /// Decay of the sum of gradients; None means no momentum, which saves memory.
    #[gin(default = None, limit = NonNegative)]
    pub momentum: Option<f64>,
    /// Whether the momentum looks one update ahead.
    #[gin(default = false)]
    pub nesterov: bool,
    /// Storage format of the momentum; None means that of the parameters, float32.
    #[gin(default = None)]
    pub accumulator_dtype: Option<StateDtype>,
}

impl Formula for Sgd {
    fn learning_rate(&self) -> &LearningRate {
        &self.learning_rate
    }

    fn rate_count(&self) -> &'static str {
        "1/count"
    }

    fn slots(&self) -> Vec<OptaxSlot> {
        self.momentum.iter().map(|_| zeros("0/trace", self.accumulator_dtype)).collect()
    }

    fn changes(&self, turn: &Turn) -> Changes {
        let trace = self.momentum.map(|decay| Trace { slot: 0, decay, nesterov: self.nesterov });
        let (step, state) = match trace {
            Some(trace) => trace.step(gradient()),
            None => (gradient(), Vec::new()),
        };
        Changes { step: step * -turn.learning_rate, state }
    }
}

/// The numbers of momentum. Source: optax `transforms/_accumulation.py` (`trace`).
pub(super) struct Trace {
    /// Index of the array with the sum.
    pub(super) slot: usize,
    /// Decay of the sum.
    pub(super) decay: f64,
    /// Whether the step looks one update ahead.
    pub(super) nesterov: bool,
}

impl Trace {
    /// Returns the step with momentum, and the new state.
    pub(super) fn step(&self, step: Expr) -> (Expr, Vec<Expr>) {
        let sum = step.clone() + scaled_slot(self.slot, self.decay);
        match self.nesterov {
            true => (step + sum.clone() * self.decay, vec![sum]),
            false => (sum.clone(), vec![sum]),
        }
    }
}
