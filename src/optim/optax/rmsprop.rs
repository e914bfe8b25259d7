//! RMSProp: gradients over the root of the mean of their squares.

use crate::gin::Configurable;
use crate::nn::Dtype;

use super::LearningRate;
use super::expr::{Expr, gradient};
use super::formula::{Changes, Formula, OptaxSlot, Turn, zeros};
use super::means::{corrected, mean, mean_square};
use super::sgd::Trace;

/// RMSProp (Tieleman & Hinton 2012; centered: Graves 2013, arXiv:1308.0850): gradients over the root of
/// the mean of their squares. Source: optax `_src/alias.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "optax.rmsprop", alias = "t5x.optimizers.rmsprop")]
pub struct RmsProp {
    /// A number, or a schedule of the updates made so far.
    pub learning_rate: LearningRate,
    /// Decay of the squared gradients' mean.
    #[gin(default = 0.9)]
    pub decay: f64,
    /// Added to the mean.
    #[gin(default = 1e-8, limit = NonNegative)]
    pub eps: f64,
    /// The mean before the first update.
    #[gin(default = 0.0)]
    pub initial_scale: f64,
    /// Whether `eps` is added under the root, or to the root.
    #[gin(default = true)]
    pub eps_in_sqrt: bool,
    /// Whether the square of the gradients' mean is subtracted: their variance.
    #[gin(default = false)]
    pub centered: bool,
    /// Decay of the sum of steps; None means no momentum.
    #[gin(default = None, limit = NonNegative)]
    pub momentum: Option<f64>,
    /// Whether the momentum looks one update ahead.
    #[gin(default = false)]
    pub nesterov: bool,
    /// Whether means are corrected for their first value, as in Adam.
    #[gin(default = false)]
    pub bias_correction: bool,
}

impl Formula for RmsProp {
    fn learning_rate(&self) -> &LearningRate {
        &self.learning_rate
    }

    fn rate_count(&self) -> &'static str {
        "1/count"
    }

    fn slots(&self) -> Vec<OptaxSlot> {
        let (dtype, initial) = (Dtype::Float32, self.initial_scale);
        let nu = OptaxSlot { name: "0/nu", dtype, initial };
        let mu = self.centered.then(|| zeros("0/mu", None));
        let trace = self.momentum.map(|_| zeros("2/trace", None));
        [Some(nu), mu, trace].into_iter().flatten().collect()
    }

    fn counts(&self) -> Vec<&'static str> {
        self.bias_correction.then_some("0/count").into_iter().collect()
    }

    fn changes(&self, turn: &Turn) -> Changes {
        let nu = mean_square(0, &gradient(), self.decay);
        let mu = self.centered.then(|| mean(1, gradient(), self.decay));
        let step = gradient() / self.root(turn, &nu, mu.as_ref()) * -turn.learning_rate;
        let mut state: Vec<Expr> = [Some(nu), mu].into_iter().flatten().collect();
        let Some(decay) = self.momentum else { return Changes { step, state } };
        let trace = Trace { slot: state.len(), decay, nesterov: self.nesterov };
        let (step, sum) = trace.step(step);
        state.extend(sum);
        Changes { step, state }
    }
}

impl RmsProp {
    fn root(&self, turn: &Turn, nu: &Expr, mu: Option<&Expr>) -> Expr {
        let used = |mean: &Expr| match self.bias_correction {
            true => corrected(mean, self.decay, turn.number()),
            false => mean.clone(),
        };
        let variance = match mu {
            Some(mu) => used(nu) - used(mu).square(),
            None => used(nu),
        };
        match self.eps_in_sqrt {
            true => (variance + self.eps).sqrt(),
            false => variance.sqrt() + self.eps,
        }
    }
}
