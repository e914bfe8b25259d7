//! Optax's chains as T5X's gin files write them: gradient clipping, then an optimizer.
//!
//! Source: T5X `optimizers.py`; optax `transforms/_clipping.py`.

use crate::gin::{Configurable, Slot as _};

use super::OptaxRule;
use super::error::OptimError;
use super::layout::{ParamShape, StateLayout};
use super::rule::{OwnRate, Rule, TorchOptimizer};

/// One transformation of gradients after another. Source: T5X `optimizers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.optimizers.chain")]
pub struct Chain {
    /// Clipping of gradients, in order, then an optimizer.
    pub transformations: Vec<Transformation>,
}

/// Any transformation of gradients.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum Transformation {
    /// Limits each number by itself.
    Clip(Clip),
    /// Limits the norm of all numbers.
    ClipByGlobalNorm(ClipByGlobalNorm),
    /// Converts gradients to updates.
    Rule(OptaxRule),
}

/// Limits each element of the gradients to `[-max_delta, max_delta]`. Source: optax
/// `transforms/_clipping.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "optax.clip")]
pub struct Clip {
    /// The largest magnitude.
    pub max_delta: f64,
}

/// Scales gradients whose norm over all parameters exceeds `max_norm` down to it. Source: optax
/// `transforms/_clipping.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "optax.clip_by_global_norm")]
pub struct ClipByGlobalNorm {
    /// The largest norm.
    pub max_norm: f64,
}

impl Chain {
    /// Returns the last transformation, which must be an optimizer; all before must be clips.
    pub(super) fn rule(&self) -> Result<&OptaxRule, OptimError> {
        let is_rule = |t: &Transformation| matches!(t, Transformation::Rule(_));
        let first = self.transformations.iter().position(is_rule);
        match &self.transformations[..] {
            [clips @ .., Transformation::Rule(rule)] if first == Some(clips.len()) => Ok(rule),
            other => {
                let name = |t: &Transformation| format!("@{}()", t.schema_of().name);
                let names: Vec<String> = other.iter().map(name).collect();
                Err(OptimError::Chain { found: names.join(", ") })
            }
        }
    }

    /// Returns the path of an array of the optimizer, which is the last transformation.
    fn below(&self, path: &str) -> String {
        format!("{}/{path}", self.transformations.len().saturating_sub(1))
    }
}

impl Rule for Chain {
    fn layout(&self, param: ParamShape<'_>) -> Result<StateLayout, OptimError> {
        self.rule()?.layout(param)
    }

    fn check(&self) -> Result<(), OptimError> {
        self.rule()?.check()
    }

    fn path(&self, param: &str, slot: &str) -> String {
        self.below(&format!("{slot}/{param}"))
    }

    fn count_paths(&self) -> Vec<String> {
        let Ok(rule) = self.rule() else { return Vec::new() };
        rule.count_paths().iter().map(|path| self.below(path)).collect()
    }

    fn own_learning_rate(&self) -> Option<OwnRate<'_>> {
        self.rule().ok().and_then(Rule::own_learning_rate)
    }

    fn of_torch(&self) -> Option<TorchOptimizer> {
        self.rule().ok().and_then(Rule::of_torch)
    }

    fn needs_whole_params(&self) -> bool {
        self.rule().is_ok_and(Rule::needs_whole_params)
    }

    fn needs_all_gradients(&self) -> bool {
        let by_norm = |t: &Transformation| matches!(t, Transformation::ClipByGlobalNorm(_));
        let by_rule = self.rule().is_ok_and(Rule::needs_all_gradients);
        by_rule || self.transformations.iter().any(by_norm)
    }
}
