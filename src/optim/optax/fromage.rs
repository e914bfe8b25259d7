//! Fromage: steps in proportion to the norm of each parameter, without state.

use crate::gin::Configurable;

use super::LearningRate;
use super::expr::{gradient, param};
use super::formula::{Changes, Formula, OptaxSlot, Turn};
use super::trust_ratio::TrustRatio;

/// Fromage (Bernstein et al. 2020, arXiv:2002.03432): steps in proportion to the norm of each parameter,
/// which is then made smaller so that norms do not grow. Source: optax `_src/alias.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "optax.fromage", alias = "t5x.optimizers.fromage")]
pub struct Fromage {
    /// A number, or a schedule of the updates made so far.
    pub learning_rate: LearningRate,
    /// Lower limit of the norms of parameters and gradients.
    #[gin(default = 1e-6)]
    pub min_norm: f64,
}

impl Formula for Fromage {
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
        // Optax schedules the decay too.
        match self.learning_rate {
            LearningRate::Schedule(_) => vec!["2/count"],
            LearningRate::Constant(_) | LearningRate::Trainer => Vec::new(),
        }
    }

    fn changes(&self, turn: &Turn) -> Changes {
        let kept = (1.0 + turn.learning_rate.powi(2)).powf(-0.5);
        let ratio = TrustRatio { min_norm: self.min_norm, ..TrustRatio::default() };
        let step = ratio.scale(gradient()) * -(turn.learning_rate * kept);
        Changes { step: step + param() * (kept - 1.0), state: Vec::new() }
    }
}
