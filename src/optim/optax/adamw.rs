//! Adam with decoupled weight decay.

use crate::gin::Configurable;
use crate::nn::Dtype;

use super::adam::ScaleByAdam;
use super::expr::param;
use super::formula::{Changes, Formula, FusedNumbers, OptaxSlot, Turn, zeros};
use super::{LearningRate, Mask};

/// Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv:1711.05101). Source: optax `alias.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "optax.adamw", alias = "t5x.optimizers.adamw")]
pub struct AdamW {
    /// A number, or a schedule of the updates made so far.
    pub learning_rate: LearningRate,
    /// Decay of the gradients' mean.
    #[gin(default = 0.9, limit = BelowOne)]
    pub b1: f64,
    /// Decay of the squared gradients' mean.
    #[gin(default = 0.999, limit = BelowOne)]
    pub b2: f64,
    /// Added to the root of the second moment.
    #[gin(default = 1e-8, limit = NonNegative)]
    pub eps: f64,
    /// Added to the second moment under the root.
    #[gin(default = 0.0, limit = NonNegative)]
    pub eps_root: f64,
    /// Storage format of the first moment; None means that of the parameters, float32.
    #[gin(default = None)]
    pub mu_dtype: Option<Dtype>,
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
        &self.learning_rate
    }

    fn rate_count(&self) -> &'static str {
        "2/count"
    }

    fn slots(&self) -> Vec<OptaxSlot> {
        vec![zeros("0/mu", self.mu_dtype), zeros("0/nu", None)]
    }

    fn counts(&self) -> Vec<&'static str> {
        vec!["0/count"]
    }

    fn changes(&self, turn: &Turn) -> Changes {
        let (step, state) = self.adam().step(turn);
        let step = step + param() * self.weight_decay;
        Changes { step: step * -turn.learning_rate, state }
    }

    fn fused(&self) -> Option<FusedNumbers> {
        self.adam().fused(self.mu_dtype, self.weight_decay)
    }
}

impl AdamW {
    fn adam(&self) -> ScaleByAdam {
        let Self { b1, b2, eps, eps_root, nesterov, .. } = *self;
        ScaleByAdam { b1, b2, eps, eps_root, nesterov }
    }
}
