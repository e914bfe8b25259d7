//! Adam, and the step that AdamW and LAMB share with it.

use crate::gin::{Configurable, Parameters};
use crate::nn::StateDtype;

use super::LearningRate;
use super::expr::{Expr, gradient};
use super::formula::{Changes, Formula, FusedNumbers, OptaxSlot, Turn, zeros};
use super::means::{corrected, first_moment, mean, mean_square};

/// Parameters of Adam and AdamW. Source: optax `_src/alias.py`.
#[derive(Clone, Debug, PartialEq, Parameters)]
pub struct AdamParameters {
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
    pub mu_dtype: Option<StateDtype>,
}

/// Adam (Kingma & Ba 2015, arXiv:1412.6980). Source: optax `_src/alias.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "optax.adam", alias = "t5x.optimizers.adam")]
pub struct Adam {
    /// Those that AdamW has too.
    #[gin(flatten)]
    pub adam: AdamParameters,
    /// Whether the first moment looks one update ahead (Dozat 2016).
    #[gin(default = false)]
    pub nesterov: bool,
}

impl Formula for Adam {
    fn learning_rate(&self) -> &LearningRate {
        &self.adam.learning_rate
    }

    fn rate_count(&self) -> &'static str {
        "1/count"
    }

    fn slots(&self) -> Vec<OptaxSlot> {
        self.adam.slots()
    }

    fn counts(&self) -> Vec<&'static str> {
        vec!["0/count"]
    }

    fn changes(&self, turn: &Turn) -> Changes {
        let (step, state) = self.adam.scaled(self.nesterov).step(turn);
        Changes { step: step * -turn.learning_rate, state }
    }

    fn fused(&self) -> Option<FusedNumbers> {
        self.adam.scaled(self.nesterov).fused(self.adam.mu_dtype, 0.0)
    }
}

impl AdamParameters {
    /// The first two slots of the state.
    pub(super) fn slots(&self) -> Vec<OptaxSlot> {
        vec![zeros("0/mu", self.mu_dtype), zeros("0/nu", None)]
    }

    /// The step, with Nesterov's moment or without.
    pub(super) fn scaled(&self, nesterov: bool) -> ScaleByAdam {
        let Self { b1, b2, eps, eps_root, .. } = *self;
        ScaleByAdam { b1, b2, eps, eps_root, nesterov }
    }
}

/// The numbers of Adam's step. Source: optax `_src/transform.py` (`scale_by_adam`).
pub(super) struct ScaleByAdam {
    pub(super) b1: f64,
    pub(super) b2: f64,
    pub(super) eps: f64,
    pub(super) eps_root: f64,
    pub(super) nesterov: bool,
}

impl ScaleByAdam {
    /// Returns the step against the learning rate's sign, and the state: `mu` and `nu`, whose slots
    /// are the first two.
    pub(super) fn step(&self, turn: &Turn) -> (Expr, Vec<Expr>) {
        let mu = mean(0, gradient(), self.b1);
        let nu = mean_square(1, &gradient(), self.b2);
        let first = first_moment(&mu, self.b1, self.nesterov, turn.number());
        let second = corrected(&nu, self.b2, turn.number()) + self.eps_root;
        (first / (second.sqrt() + self.eps), vec![mu, nu])
    }

    /// Returns the numbers of libtorch's kernel, which supports neither Nesterov's moment nor a floor
    /// under the root, and keeps both moments in one format.
    pub(super) fn fused(
        &self,
        mu_dtype: Option<StateDtype>,
        weight_decay: f64,
    ) -> Option<FusedNumbers> {
        let Self { b1, b2, eps, eps_root, nesterov } = *self;
        let is_whole = mu_dtype.is_none_or(|dtype| dtype == StateDtype::Float32);
        let fits = !nesterov && eps_root == 0.0 && is_whole;
        fits.then_some(FusedNumbers { b1, b2, eps, weight_decay })
    }
}
