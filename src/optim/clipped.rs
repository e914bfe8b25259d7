//! Any optimizer after a limit of gradients, whose state and learning rate are those of the optimizer alone.

use crate::gin::{Configurable, Nested};

use super::OptimizerDef;
use super::error::OptimError;
use super::layout::{ParamShape, StateLayout};
use super::rule::{OwnRate, Rule, TorchOptimizer};

/// An optimizer whose gradients are limited first, by their norm or one by one: bind one of `norm` and `value`. Arrays in
/// checkpoints have the optimizer's own names. Source: torch `nn/utils/clip_grad.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.optimizers.Clipped")]
pub struct Clipped {
    /// The optimizer.
    pub optimizer: Nested<OptimizerDef>,
    /// The largest norm of all gradients together. Larger ones are multiplied by norm / (their norm + 1e-6), as torch does.
    #[gin(default = None)]
    pub norm: Option<f64>,
    /// The largest magnitude of each number.
    #[gin(default = None)]
    pub value: Option<f64>,
}

impl Clipped {
    pub(super) fn rule(&self) -> &dyn Rule {
        self.optimizer.spec()
    }
}

impl Rule for Clipped {
    fn layout(&self, param: ParamShape<'_>) -> Result<StateLayout, OptimError> {
        self.rule().layout(param)
    }

    fn check(&self) -> Result<(), OptimError> {
        let wrong =
            |reason| Err(OptimError::Settings { name: "gimlet.optimizers.Clipped", reason });
        match (self.norm, self.value) {
            (Some(limit), None) | (None, Some(limit)) if limit > 0.0 => self.rule().check(),
            (Some(_), Some(_)) => wrong("bind one of `norm` and `value`, found both"),
            (None, None) => wrong("bind one of `norm` and `value`, found neither"),
            _ => wrong("the limit must be more than 0; use the optimizer by itself for no limit"),
        }
    }

    fn path(&self, param: &str, slot: &str) -> String {
        self.rule().path(param, slot)
    }

    fn none_path(&self, param: &str) -> Option<String> {
        self.rule().none_path(param)
    }

    fn choice(&self) -> Box<dyn Fn(&str) -> bool + '_> {
        self.rule().choice()
    }

    fn count_paths(&self) -> Vec<String> {
        self.rule().count_paths()
    }

    fn needs_all_gradients(&self) -> bool {
        self.norm.is_some() || self.rule().needs_all_gradients()
    }

    fn needs_whole_params(&self) -> bool {
        self.rule().needs_whole_params()
    }

    fn own_learning_rate(&self) -> Option<OwnRate<'_>> {
        self.rule().own_learning_rate()
    }

    fn of_torch(&self) -> Option<TorchOptimizer> {
        self.rule().of_torch()
    }

    fn skips_nan_updates(&self) -> bool {
        self.rule().skips_nan_updates()
    }
}
